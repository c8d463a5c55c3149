"""Dead letters: executions that failed for good and were not discarded yet, by kind of error.

Every look is bounded to the newest of them. To discard one takes it off the list and leaves its execution in
history, dead.
"""

from collections.abc import Sequence
from typing import Final

from tocsin.db.pool import Database, Record, columns
from tocsin.domain.cells import CELL
from tocsin.domain.errors import Conflict
from tocsin.domain.ids import ExecutionKey
from tocsin.domain.instant import Instant
from tocsin.store.executions import ExecutionStore
from tocsin.store.statements import sql

MOST_READ: Final = 100_000
_MOST_KINDS: Final = 100


class DeadLetterStore:
    """Dead letters of all tenants; every method names the tenant it acts for."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def groups(self, tenant_id: int, since: Instant, until: Instant, queue: str | None) -> list[Record]:
        """Kinds of errors, the most frequent first."""
        return await self._database.fetch(
            sql("dead_letter_groups"), tenant_id, since, until, queue, MOST_READ, _MOST_KINDS, CELL
        )

    async def discard(self, tenant_id: int, key: ExecutionKey) -> None:
        """Give one up."""
        if await self.discard_all(tenant_id, [key]):
            return
        row = await ExecutionStore(self._database).get(tenant_id, key)
        if row["state"] == "dead":
            raise Conflict("cannot discard: it was discarded before")
        raise Conflict(f"cannot discard an execution that is {row['state']}")

    async def discard_all(self, tenant_id: int, keys: Sequence[ExecutionKey]) -> int:
        """Give several up. Returns how many there were to give up."""
        rows = await self._database.fetch(
            sql("discard_dead_letters"), CELL, tenant_id, *columns(sorted(keys), 2)
        )
        return len(rows)
