"""How many jobs a tenant may have pending: an estimate that costs nothing per request.

Only tenants with a limit are counted at all. A count is bounded by the limit (`pending_jobs.sql`) and
remembered for a few seconds, longer if it was dear: counting takes at most a fiftieth of the time. What this
process admits in between is added. So the limit may be overshot by what *other* API processes admit within
those seconds, and what has just finished may count for as long; before a refusal an estimate older than a
second is made again.
"""

import asyncio
from typing import Final

from tocsin.clock import Clock
from tocsin.db.patience import patient_for
from tocsin.domain.limits import OverLimit
from tocsin.store.tenants import TenantStore

_FRESH: Final = 1.0
_REMEMBERED: Final = 5.0
_DEARNESS: Final = 50
_MOST_TENANTS: Final = 10_000


class _Estimate:
    """What is known of one tenant."""

    def __init__(self) -> None:
        self.counted = 0
        self.most = 0
        self.added = 0
        self.at = float("-inf")
        self.took = 0.0
        self.counting: asyncio.Task[None] | None = None

    def room(self, limit: int) -> int:
        """How many more fit under the limit."""
        return limit - self.counted - self.added


class PendingJobs:
    """The estimates of one process."""

    def __init__(self, tenants: TenantStore, clock: Clock, horizon: float) -> None:
        self._tenants = tenants
        self._clock = clock
        self._horizon = horizon
        self._estimates: dict[int, _Estimate] = {}

    async def admit(self, tenant_id: int, limit: int | None, wanted: int = 1) -> int:
        """Admit as many of `wanted` new jobs as fit."""
        if limit is None or not wanted:
            return wanted
        estimate = self._estimates.get(tenant_id)
        if estimate is None:
            estimate = self._known(tenant_id)
        age = self._clock.monotonic() - estimate.at
        if limit > estimate.most or (estimate.room(limit) < wanted and age > _FRESH):
            await self._count(tenant_id, estimate, limit)
        elif age > max(_REMEMBERED, _DEARNESS * estimate.took):
            self._start_counting(tenant_id, estimate, limit)
        admitted = max(0, min(wanted, estimate.room(limit)))
        estimate.added += admitted
        return admitted

    async def _count(self, tenant_id: int, estimate: _Estimate, limit: int) -> None:
        # Shielded: others may wait for the same count when this request's client goes away.
        await asyncio.shield(self._start_counting(tenant_id, estimate, limit))

    def _start_counting(self, tenant_id: int, estimate: _Estimate, limit: int) -> asyncio.Task[None]:
        if estimate.counting is None or estimate.counting.done():
            with patient_for(None):  # it may outlive the request that began it
                estimate.counting = asyncio.create_task(self._recount(tenant_id, estimate, limit))
            estimate.counting.add_done_callback(_looked_at)
        return estimate.counting

    async def _recount(self, tenant_id: int, estimate: _Estimate, limit: int) -> None:
        began, added = self._clock.monotonic(), estimate.added
        counted = await self._tenants.pending_jobs(tenant_id, self._horizon, limit)
        estimate.counted, estimate.most = counted, limit
        estimate.added -= added
        estimate.at = self._clock.monotonic()
        estimate.took = estimate.at - began

    def _known(self, tenant_id: int) -> _Estimate:
        if len(self._estimates) >= _MOST_TENANTS:
            self._estimates.clear()
        return self._estimates.setdefault(tenant_id, _Estimate())


def _looked_at(counting: asyncio.Task[None]) -> None:
    """Requests that wait for a count hear of its failure; if none waits, the next request counts again."""
    if not counting.cancelled():
        counting.exception()


def too_many_jobs(limit: int) -> OverLimit:
    """The answer for a job that does not fit."""
    return OverLimit(
        "pending_jobs",
        f"the tenant has {limit:,} pending jobs, as many as it may",
        hint="wait until some are done, cancel some, or ask the operator for more",
    )
