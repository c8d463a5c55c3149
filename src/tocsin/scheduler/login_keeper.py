"""Keeps what applications need that enqueue in their own transactions: estimates of what their tenants may
still enqueue, and lanes that they entered first.

An estimate is a bounded count. After a pass the keeper rests twenty times as long as the pass took, and five
seconds at least; so limits may be overshot by what applications enqueue meanwhile.
"""

from typing import Final

from tocsin.clock import Clock
from tocsin.domain.instant import SECOND, Instant
from tocsin.queue.claiming.entered_lanes import EnteredLanes
from tocsin.scheduler.leaser import Leases
from tocsin.service import Report
from tocsin.store.logins import LoginStore

_RESTS: Final = 20


class LoginKeeper:
    """Runs on the node that leases shard 0."""

    name = "logins"
    interval = 5.0

    def __init__(self, logins: LoginStore, lanes: EnteredLanes, leases: Leases, clock: Clock) -> None:
        self._logins = logins
        self._lanes = lanes
        self._leases = leases
        self._clock = clock

    async def run_once(self, now: Instant) -> Report:
        """One pass."""
        if 0 not in self._leases.trusted():
            return Report()
        began = self._clock.monotonic()
        lanes = await self._lanes.keep()
        await self._logins.count()
        took = self._clock.monotonic() - began
        return Report(lanes, now + round(max(self.interval, _RESTS * took) * SECOND))
