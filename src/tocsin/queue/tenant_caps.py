"""How much of a tenant's limits this worker may use.

Limits on a tenant's executions hold over the whole fleet without a row that all workers count in: each worker
has its share of the number, by its rank among the live workers, and keeps to that by itself. The shares of
all workers add up to the limit. When the fleet grows, a new worker waits with its share until the others must
have heard of it. Executions over a limit stay in the queue.
"""

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Final

from msgspec.structs import replace

from tocsin.domain.instant import SECOND, Instant
from tocsin.domain.waits import Reason
from tocsin.queue.claims import Claim
from tocsin.queue.lanes import LaneView

_IDLE_FLOWS: Final = 16
"""How many rates of tenants that have nothing to start are kept before the full ones are forgotten."""


class Rank:
    """This worker's place among the live ones, as its heartbeat last learned it."""

    def __init__(self, node_id: int, patience: float) -> None:
        """`patience` is how long others may take to hear of a new worker, in seconds."""
        self._node_id = node_id
        self._patience = patience
        self._workers: Sequence[int] = ()
        self._since: float | None = None

    @property
    def since(self) -> float:
        """When we first heard of the fleet; not yet: never."""
        return math.inf if self._since is None else self._since

    def learn(self, workers: Sequence[int], now: float) -> None:
        """The ids of all live workers."""
        if self._since is None:
            self._since = now
        self._workers = sorted(workers)

    def share(self, limit: float, now: float) -> float:
        """Our part of a number that all workers share; a whole part if the number is whole."""
        if self._node_id not in self._workers or self._since is None:
            return 0
        if len(self._workers) > 1 and now - self._since < self._patience:
            return 0
        if isinstance(limit, int):
            whole, rest = divmod(limit, len(self._workers))
            return whole + (self._workers.index(self._node_id) < rest)
        return limit / len(self._workers)


class TenantCaps:
    """What each limited tenant may still start on this worker."""

    def __init__(
        self, rank: Rank, in_flight: int | None = None, fires_per_second: float | None = None
    ) -> None:
        """The numbers are for tenants that have none of their own."""
        self._rank = rank
        self._in_flight = in_flight
        self._fires_per_second = fires_per_second
        self._flows: dict[int, _Flow] = {}
        self.limits: dict[int, Reason] = {}
        """Tenant to which of its limits its cap is from."""

    def caps(self, views: Iterable[LaneView], held: Iterable[Claim], now: Instant) -> dict[int, int]:
        """Tenant to how many more executions may be taken. Tenants without limits are not in it."""
        limited = {view.lane.tenant_id: view for view in map(self._with_defaults, views) if _is_limited(view)}
        if not limited:
            return {}
        if len(self._flows) > len(limited) + _IDLE_FLOWS:
            self._flows = {
                tenant: flow
                for tenant, flow in self._flows.items()
                if tenant in limited or not flow.full_at(now / SECOND)
            }
        in_flight = Counter(claim.tenant_id for claim in held if claim.tenant_id in limited)
        self.limits.clear()
        return {tenant: self._cap(view, in_flight[tenant], now) for tenant, view in limited.items()}

    def spend(self, claims: Iterable[Claim]) -> None:
        """Count what was taken."""
        for claim in claims:
            if claim.tenant_id in self._flows:
                self._flows[claim.tenant_id].tokens -= 1

    def _with_defaults(self, view: LaneView) -> LaneView:
        if self._in_flight is None and self._fires_per_second is None:
            return view
        return replace(
            view,
            in_flight=view.in_flight or self._in_flight,
            fires_per_second=view.fires_per_second or self._fires_per_second,
        )

    def _cap(self, view: LaneView, in_flight: int, now: Instant) -> int:
        seconds = now / SECOND
        caps: dict[Reason, float] = {}
        if view.in_flight:
            caps[Reason.IN_FLIGHT] = self._rank.share(view.in_flight, seconds) - in_flight
        if view.fires_per_second:
            rate = self._rank.share(float(view.fires_per_second), seconds)
            flow = self._flows.get(view.lane.tenant_id)
            if flow is None:
                flow = self._flows[view.lane.tenant_id] = _Flow(min(self._rank.since, seconds))
            caps[Reason.FIRES] = flow.fill(rate, seconds)
        limit = min(caps, key=lambda limit: caps[limit])
        self.limits[view.lane.tenant_id] = limit
        return max(0, int(caps[limit]))


def _is_limited(view: LaneView) -> bool:
    return view.in_flight is not None or view.fires_per_second is not None


class _Flow:
    """A token bucket that holds at most a second's worth. A new bucket counts as filling since the worker
    joined the fleet, so a full bucket may be forgotten: made anew, it is full again."""

    def __init__(self, empty_at: float) -> None:
        self._at = empty_at
        self._rate = 0.0
        self.tokens = 0.0

    def fill(self, rate: float, now: float) -> float:
        self.tokens = min(max(rate, 1.0), self.tokens + (now - self._at) * rate)
        self._at, self._rate = now, rate
        return self.tokens

    def full_at(self, now: float) -> bool:
        """Whether nothing would be lost by forgetting it."""
        return self.tokens + (now - self._at) * self._rate >= max(self._rate, 1.0)
