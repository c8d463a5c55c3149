"""Tallies: numbers of what ended, by bucket of time, tenant, queue and final state. See domain/tally.py and
migration 0030.

A node's rows are written by that node alone and always whole, so a write whose answer was lost is simply
repeated.
"""

from collections.abc import Sequence
from typing import Final

import msgspec

from tocsin.db.pool import Database
from tocsin.db.rows import arrays
from tocsin.db.statements import named
from tocsin.domain.instant import HOUR, MINUTE, SECOND, Instant, Span
from tocsin.domain.tally import trimmed
from tocsin.store.statements import sql

KEEPER: Final = 0
"""The node id of the scheduler that counts what did not succeed, whichever it is."""
REBUILT: Final = -1
_BATCH: Final = 1000
_WRITE = named("tocsin.store", "write_tallies")
_COLUMNS: Final = ("tenant_ids", "steps", "buckets", "queues", "states", "counts", "lags", "runs")
_SLICE: Final = 10 * MINUTE


class Tally(msgspec.Struct, gc=False):
    """What one node counted in one bucket."""

    tenant_id: int
    step: Span
    bucket: Instant
    queue: str
    state: str
    count: int
    lag: list[int]
    run: list[int]


class TallyStore:
    """Tallies of one node: `node_id` is who counts."""

    def __init__(self, database: Database, node_id: int = KEEPER) -> None:
        self._database = database
        self._node_id = node_id

    async def write(self, tallies: Sequence[Tally]) -> None:
        """Write rows whole, as they are now."""
        for begin in range(0, len(tallies), _BATCH):
            rows = [_row(tally) for tally in tallies[begin : begin + _BATCH]]
            await self._database.execute(*_WRITE.given(node_id=self._node_id, **arrays(_COLUMNS, rows)))

    async def count_unsuccessful(self, since: Instant, until: Instant) -> None:
        """Count what ended without success from the minute of `since` on."""
        await self._database.execute(sql("count_unsuccessful"), since - since % MINUTE, until)

    async def sum_hour(self, at: Instant) -> None:
        """Add the minutes of the hour at `at` up, of those that do not count hours themselves."""
        hour = at - at % HOUR
        await self._database.execute(sql("sum_hour"), hour, hour + HOUR, self._node_id)

    async def rebuild(self, at: Instant) -> None:
        """Count the hour at `at` again, from history. It must be over: nodes go on writing what they counted
        of the present one."""
        hour = at - at % HOUR
        async with self._database.transaction() as session:
            await session.execute(sql("remove_tallies"), hour, hour + HOUR)
            for begin in range(hour, hour + HOUR, _SLICE):
                await session.execute(sql("recount_succeeded"), begin, begin + _SLICE)
                await session.execute(sql("count_unsuccessful"), begin, begin + _SLICE)
            for node_id in (KEEPER, REBUILT):
                await session.execute(sql("sum_hour"), hour, hour + HOUR, node_id)


def _row(tally: Tally) -> tuple[object, ...]:
    return (
        tally.tenant_id,
        tally.step // SECOND,
        tally.bucket,
        tally.queue,
        tally.state,
        tally.count,
        _array(tally.lag),
        _array(tally.run),
    )


def _array(counts: list[int]) -> str:
    return f"{{{','.join(map(str, trimmed(counts)))}}}"
