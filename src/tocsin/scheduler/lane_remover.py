"""Removes lanes that nothing used for an hour: tenants and queues come and go, and every look probes every
lane. Which lanes are served, and how much of each, is decided in `queue`."""

from typing import Final

import structlog

from tocsin.domain.instant import SECOND, Instant
from tocsin.queue.claiming.unused_lanes import UnusedLanes
from tocsin.scheduler.leaser import Leases
from tocsin.service import AGAIN_NOW, Report

_AT_ONCE: Final = 500
_NOT_OURS: Final = 60 * SECOND
_log = structlog.get_logger()


class LaneRemover:
    """Runs every ten minutes on the node that leases shard 0, in small steps."""

    name = "lanes"
    interval = 600.0

    def __init__(self, lanes: UnusedLanes, leases: Leases) -> None:
        self._lanes = lanes
        self._leases = leases

    async def run_once(self, now: Instant) -> Report:
        """One step; the next follows at once while there may be more."""
        if 0 not in self._leases.trusted():
            return Report(again_at=now + _NOT_OURS)
        searched, removed = await self._lanes.remove(_AT_ONCE)
        if removed:
            _log.info("lanes.removed", count=removed)
        return Report(removed, AGAIN_NOW if searched == _AT_ONCE else None)
