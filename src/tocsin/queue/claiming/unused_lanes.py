"""Removes lanes that nothing used for an hour.

A row of `lanes` is an entry in a directory: without it workers do not look where the lane's executions are.
So a lane goes only if it has no live execution, queued or claimed. It is locked first and searched
afterwards. An execution that enters a lane locks the lane as well, until it is committed (the trigger
`keep_lanes`). So either the search sees the execution, or the execution finds the lane gone and makes it
again. Workers may know a lane for a while that is gone: they find nothing in it, and hear of it if it is made
again.
"""

from typing import NamedTuple

from tocsin.db.pool import Database
from tocsin.db.statements import named
from tocsin.queue.claiming.directory import lane_columns
from tocsin.queue.lanes import Lane

_HOLD = named(__package__, "hold_unused_lanes")
_REMOVE = named(__package__, "remove_unused_lanes")


class Removal(NamedTuple):
    """How many lanes were searched, and how many of them are gone."""

    searched: int
    removed: int


class UnusedLanes:
    """Lanes of one cell that nothing uses."""

    def __init__(self, database: Database, cell: int) -> None:
        self._database = database
        self._cell = cell

    async def remove(self, limit: int) -> Removal:
        """Remove lanes, at most `limit`."""
        async with self._database.transaction() as session:
            rows = await session.fetch(*_HOLD.given(cell=self._cell, limit=limit))
            if not rows:
                return Removal(0, 0)
            lanes = lane_columns([Lane(*row) for row in rows])
            row = await session.fetchrow(*_REMOVE.given(cell=self._cell, **lanes))
            return Removal(len(rows), row["removed"] if row else 0)
