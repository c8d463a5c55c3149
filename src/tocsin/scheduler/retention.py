"""Makes tomorrow's partitions and drops those that retention no longer keeps.

Days are dropped first: whatever hinders the making must not let the disk fill up. Both need locks that a long
reader of history may be in the way of. Then they are tried again minutes later, not at once, because each try
holds up what settles for as long as it waits.
"""

from typing import Final

import structlog

from tocsin.domain.errors import Unavailable
from tocsin.domain.instant import MINUTE, Instant, Span
from tocsin.scheduler.leaser import Leases
from tocsin.service import Report
from tocsin.store.history import HistoryStore
from tocsin.store.leases import LeaseStore

_TRY_AGAIN: Final[Span] = 5 * MINUTE
_log = structlog.get_logger()


class Retention:
    """Runs hourly on the node that leases shard 0; partitions are made a week ahead."""

    name = "retention"
    interval = 3600.0

    def __init__(
        self, history: HistoryStore, nodes: LeaseStore, leases: Leases, days: int, audit_days: int = 365
    ) -> None:
        self._history = history
        self._nodes = nodes
        self._leases = leases
        self._days = days
        self._audit_days = audit_days
        self._not_before: Instant = 0

    async def run_once(self, now: Instant) -> Report:
        """Drop, make, forget dead nodes."""
        if 0 not in self._leases.trusted():
            return Report(again_at=now + MINUTE)
        if now < self._not_before:
            return Report(again_at=self._not_before)
        await self._nodes.forget_dead()
        self._not_before = now + _TRY_AGAIN  # whatever goes wrong
        try:
            done = await self._tend(now)
            self._not_before = 0
            return Report(done=done)
        except Unavailable as error:
            _log.warning("history.in_use", error=str(error), retry_in=_TRY_AGAIN // 1_000_000)
            return Report(again_at=self._not_before)

    async def _tend(self, now: Instant) -> int:
        dropped = await self._history.drop_partitions(now, self._days)
        dropped += await self._history.drop_partitions(now, self._audit_days, "audit")
        dropped += await self._history.drop_partitions(now, self._days, "attempt_logs")
        made = await self._history.make_partitions(now)
        if made or dropped:
            _log.info("history.tidied", partitions_made=made, partitions_dropped=dropped)
        return made + dropped
