"""Counts what ended without success, from history, for the tallies.

Workers count successes, which are nearly all executions. One that is skipped, cancelled, expires or dies is
ended by planners, workers, reclaimers and people; an index of history knows it. Minutes are counted whole and
written over what was counted before, so a crash or a change of the node that does it leaves nothing out and
nothing twice.
"""

from typing import Final

from tocsin.domain.instant import HOUR, MINUTE, SECOND, Instant, Span
from tocsin.scheduler.leaser import Leases
from tocsin.service import Report
from tocsin.store.tallies import TallyStore

_CAUGHT_UP: Final[Span] = 10 * MINUTE
"""How far back a node begins that was not the keeper before."""
_LATE: Final[Span] = 15 * SECOND
"""How long after its end a minute is counted for the last time: what ended may be committed a moment
later."""


class TallyKeeper:
    """Runs on the node that leases shard 0."""

    name = "tally_keeper"
    interval = 10.0

    def __init__(self, store: TallyStore, leases: Leases) -> None:
        self._store = store
        self._leases = leases
        self._counted_to: Instant = 0

    async def run_once(self, now: Instant) -> Report:
        """Count the minutes that are not finished; once a minute also add the hour up."""
        if 0 not in self._leases.trusted():
            self._counted_to = 0
            return Report()
        since = self._counted_to if 0 <= now - self._counted_to < _CAUGHT_UP else now - _CAUGHT_UP
        await self._store.count_unsuccessful(since, now)
        counted_to = (now - _LATE) // MINUTE * MINUTE
        if counted_to != self._counted_to:
            for hour in sorted({since // HOUR, counted_to // HOUR}):
                await self._store.sum_hour(hour * HOUR)
            self._counted_to = counted_to
        return Report()
