"""Removes lanes that nothing used for an hour.

A lane is a line in a directory: without it workers do not look where its executions are. So it goes only if it has no live
execution, queued or claimed, and is locked first and searched afterwards. Whatever enters a lane locks it as well, until it
is committed (the trigger `keep_lanes`), so it is either seen by the search, or finds the lane gone and makes it again.
Workers may know a lane for a while that is gone. They find nothing in it, and hear of it if it is made again.
"""

from typing import NamedTuple

from tocsin.db.pool import Database, columns
from tocsin.db.statements import statement
from tocsin.queue.postgres import CELL


class Removal(NamedTuple):
    """How many lanes were searched, and how many of them are gone."""

    searched: int
    removed: int


class UnusedLanes:
    """Lanes of one cell that nothing uses."""

    def __init__(self, database: Database, cell: int = CELL) -> None:
        self._database = database
        self._cell = cell

    async def remove(self, limit: int) -> Removal:
        """Remove lanes, at most `limit`."""
        async with self._database.transaction() as session:
            rows = await session.fetch(_sql("hold_unused_lanes"), self._cell, limit)
            if not rows:
                return Removal(0, 0)
            lanes = columns([tuple(row) for row in rows], 3)
            row = await session.fetchrow(_sql("remove_unused_lanes"), self._cell, *lanes)
            return Removal(len(rows), row["removed"] if row else 0)


def _sql(name: str) -> str:
    return statement("tocsin.queue", name)
