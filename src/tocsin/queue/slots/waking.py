"""Waking executions that wait for a slot of a limit key.

No lost wake-ups: a worker that frees a slot commits first, then looks for waiting executions. A worker whose
execution is refused puts it back, then looks once more for a free slot. Each looks when its own write can be
seen, so at least one of the two sees the other.
"""

from collections.abc import Sequence

from tocsin.db.pool import Database
from tocsin.db.rows import arrays
from tocsin.db.statements import named

Asked = tuple[int, str, int, int]
"""Tenant, key, how many slots the key may have, and how many of them are wanted."""
_WAITING_KEYS = named(__package__, "waiting_keys")
_WAKE_WAITING = named(__package__, "wake_waiting")


async def waiting_keys(database: Database, cell: int) -> list[tuple[int, str]]:
    """The keys that executions wait for a slot of."""
    rows = await database.fetch(*_WAITING_KEYS.given(cell=cell))
    return [(row["tenant_id"], row["limit_key"]) for row in rows]


async def wake(database: Database, cell: int, keys: Sequence[Asked], *, refused: bool = False) -> None:
    """Let executions try again that wait for a slot of these keys. `refused`: let all workers know that some
    wait."""
    if keys:
        columns = arrays(("tenant_ids", "keys", "slot_counts", "numbers"), keys)
        await database.fetchrow(*_WAKE_WAITING.given(cell=cell, **columns, refused=refused))
