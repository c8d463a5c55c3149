"""History that left the database: Parquet files in a directory or an object store.

Nothing here knows the database. `tables` says what a file holds and how its content is proved, `objects`
where files are, `files` reads and writes them with duckdb, and `work` does each of these in a process of its
own, because duckdb is large, and what it reads may be broken.
"""
