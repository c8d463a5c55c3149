"""Giving back the slots of workers that are gone.

A worker dies with its slots. They come free when nothing that it had started under the key is left, which is
the claim's deadline at the latest. Should the worker only have been frozen, its slots may be another worker's
when it goes on. So the node's epoch is raised first, and every statement that starts something on a slot
proves the epoch.
"""

from tocsin.db.pool import Database
from tocsin.db.statements import named
from tocsin.queue.slots.waking import waiting_keys, wake

_FENCE_NODES = named(__package__, "fence_nodes")
_HEAL_SLOTS = named(__package__, "heal_slots")
_ANY_SLOT = 32767


class Healing:
    """Heals the slots of one cell."""

    def __init__(self, database: Database, cell: int) -> None:
        self._database = database
        self._cell = cell

    async def heal(self) -> int:
        """Give back the slots of workers that are gone. Returns how many."""
        await self._database.execute(*_FENCE_NODES.given(cell=self._cell))
        rows = await self._database.fetch(*_HEAL_SLOTS.given(cell=self._cell))
        # Also for executions whose slots were freed by a worker that died before it could wake them.
        waiting = await waiting_keys(self._database, self._cell)
        keys = [(tenant_id, key, _ANY_SLOT, _ANY_SLOT) for tenant_id, key in waiting]
        await wake(self._database, self._cell, keys)
        return len(rows)
