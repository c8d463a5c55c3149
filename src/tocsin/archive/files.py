"""Parquet files, by duckdb: made from what the database copied out, proved, and asked.

Memory is bounded whatever a file holds, and a query is one statement of ours with values beside it. duckdb
may read the files that it is given and nothing else: no network, no extensions, no configuration.
"""

import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from tocsin.archive.tables import Table, content_of_halves
from tocsin.domain.errors import Unavailable

ROW_GROUP: Final = 65_536
"""Rows that are read together or passed over: as many tenants' rows lie beside each other."""
_MEMORY: Final = "256MB"
_MEMORY_TO_WRITE: Final = "1GB"
"""For a whole file, of 64 MB of text or of one row that is longer: a third of it is used, mostly."""
_SHORTEST_BUFFER: Final = 4 << 20
_CHUNK: Final = 1 << 20


def open_duckdb(scratch: Path, memory: str = _MEMORY) -> Any:
    """A database of nothing, for one thread."""
    import duckdb  # noqa: PLC0415 - an extra, and large

    return duckdb.connect(
        ":memory:",
        config={
            "threads": 1,
            "memory_limit": memory,
            "temp_directory": str(scratch),
            "autoinstall_known_extensions": False,
            "autoload_known_extensions": False,
        },
    )


def make_file(table: Table, copied: Path, file: Path, scratch: Path) -> None:
    """Turn the CSV that PostgreSQL copied out into a Parquet file, in the same order."""
    columns = ", ".join(f"{_text(name)}: {_text(kind)}" for name, kind in table.types.items())
    longest = max(copied.stat().st_size, _SHORTEST_BUFFER)  # a line is no longer than the whole
    statement = (
        f"COPY (SELECT * FROM read_csv({_text(copied)}, columns = {{{columns}}}, auto_detect = false, header = false,"  # noqa: S608
        f" delim = ',', quote = '\"', escape = '\"', nullstr = '', allow_quoted_nulls = false, parallel = false,"
        f" max_line_size = {longest}, buffer_size = {longest}))"
        f" TO {_text(file)} (FORMAT parquet, COMPRESSION zstd, ROW_GROUP_SIZE {ROW_GROUP},"
        f" KV_METADATA {{tocsin_table: {_text(table.name)}, tocsin_edition: {_text(table.edition)}}})"
    )
    with open_duckdb(scratch, _MEMORY_TO_WRITE) as duckdb:
        try:
            duckdb.execute(statement)
        except duckdb_error() as error:
            raise Unavailable("a file of the archive cannot be made", why=str(error)) from error


def proof(table: Table, edition: int, file: Path, scratch: Path) -> tuple[int, str]:
    """How many rows a file has, and their content."""
    with open_duckdb(scratch, _MEMORY_TO_WRITE) as duckdb:
        try:
            found = duckdb.execute(table.archived_proof(edition).replace("$file", _text(file))).fetchone()
        except duckdb_error() as error:
            raise Unavailable("the archive holds a file that cannot be read", why=str(error)) from error
    rows, upper, lower = found
    return rows, content_of_halves(upper, lower)


def digest(file: Path) -> str:
    """The SHA-256 of a file."""
    with file.open("rb") as source:
        found = hashlib.sha256()
        while chunk := source.read(_CHUNK):
            found.update(chunk)
    return found.hexdigest()


def duckdb_error() -> type[Exception]:
    """What duckdb raises."""
    import duckdb  # noqa: PLC0415

    kind: type[Exception] = duckdb.Error
    return kind


def reading(files: Sequence[Path]) -> str:
    """The files as a table of a statement; a column that only some have is NULL in the others."""
    return f"read_parquet([{', '.join(map(_text, files))}], union_by_name = true)"


def _text(value: object) -> str:
    return "'" + str(value).replace("'", "''") + "'"
