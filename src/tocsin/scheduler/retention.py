"""Makes tomorrow's partitions and drops those that retention no longer keeps."""

import structlog

from tocsin.domain.instant import Instant
from tocsin.scheduler.leaser import Leases
from tocsin.service import Report
from tocsin.store.history import HistoryStore
from tocsin.store.leases import LeaseStore

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

    async def run_once(self, now: Instant) -> Report:
        """Make, drop, forget."""
        if 0 not in self._leases.trusted():
            return Report(again_at=now + 60_000_000)
        made = await self._history.make_partitions(now)
        dropped = await self._history.drop_partitions(now, self._days)
        dropped += await self._history.drop_partitions(now, self._audit_days, "audit")
        forgotten = await self._history.forget_one_offs(now, self._days)
        await self._history.forget_keys()
        await self._nodes.forget_dead()
        if made or dropped or forgotten:
            _log.info(
                "history.tidied", partitions_made=made, partitions_dropped=dropped, jobs_forgotten=forgotten
            )
        return Report(done=made + dropped + forgotten)
