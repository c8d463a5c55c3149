"""Moves backfills forward: a bounded step at a time, never more live executions than each allows."""

from typing import Final

from tocsin.domain.instant import SECOND, Instant
from tocsin.scheduler.leaser import Leases
from tocsin.service import Report
from tocsin.store.backfills import BackfillStore

_LOOK: Final = 30 * SECOND


class Backfiller:
    """Runs the backfills of the shards that this node leases; a notice tells it of new ones."""

    name = "backfiller"
    interval = 30.0

    def __init__(self, store: BackfillStore, leases: Leases) -> None:
        self._store = store
        self._leases = leases

    async def run_once(self, now: Instant) -> Report:
        """One step of the backfill that is due first."""
        shards = sorted(self._leases.trusted())
        if not shards:
            return Report()
        queued, next_at = await self._store.advance(shards, now)
        return Report(queued, now + _LOOK if next_at is None else min(next_at, now + _LOOK))
