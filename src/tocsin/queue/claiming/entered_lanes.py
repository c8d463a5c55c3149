"""Lanes that applications entered first, in their own transactions (`lanes_entered`), become ordinary ones.

An application's transaction does not insert into `lanes`: every other insert of the same lane would wait
until the application commits. Looks read both tables, so nothing waits for this.
"""

from tocsin.db.pool import Database
from tocsin.db.statements import named

_KEEP = named(__package__, "keep_entered_lanes")


class EnteredLanes:
    """Lanes of one cell."""

    def __init__(self, database: Database, cell: int) -> None:
        self._database = database
        self._cell = cell

    async def keep(self) -> int:
        """Move what is committed. Returns how many lanes are new."""
        return len(await self._database.fetch(*_KEEP.given(cell=self._cell)))
