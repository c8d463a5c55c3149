"""Which cell this is, and the partitions by which the jobs of a tenant can be spread over cells.

A cell is a whole Tocsin on its own PostgreSQL. Its number leads the keys of the hot tables and is the same in
all rows of a database.

A partition is one of 1,024 equal parts of a tenant's jobs: the smallest thing that a cell can have or give
away. Every job is in one for its whole life, and its id says in which (`domain/ids.py`). Where the caller
chose a word that must be unique, the word chooses the partition, so that two requests with one word meet in
one cell; all others are spread by chance. A job that is renamed keeps its partition, and so does one that was
created before names chose: an id is always right about its job's partition, and a name only about where a new
job of that name goes.
"""

import hashlib
from typing import Final

CELL: Final = 0
PARTITIONS: Final = 1024


def partition_for(word: str) -> int:
    """The partition of a new job with this name or idempotency key: the same in every process and version."""
    return int.from_bytes(hashlib.blake2b(word.encode(), digest_size=8).digest(), "big") % PARTITIONS
