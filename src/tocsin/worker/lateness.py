"""Why this worker starts something late: what it did instead since the execution was due.

The worker notes when it was saturated (more was ready than it had places for), when it could not reach the
database, when a tenant was at its limit, and when it began. The reason for a late start is the note that
covers most of the time since the execution was due. The worker keeps the last 32 episodes of a kind, in
memory only. If no note covers any of that time, no reason is given.
"""

from collections import Counter, deque
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from tocsin.domain.instant import Instant, Span
from tocsin.domain.waits import LATE, Reason
from tocsin.queue.claims import ON_TIME, Claim, LateReasons
from tocsin.queue.lanes import LaneView

_EPISODES_REMEMBERED: Final = 32


class Episodes:
    """When something was the case: closed episodes, and the one that goes on."""

    def __init__(self) -> None:
        self._closed: deque[tuple[Instant, Instant]] = deque()
        self._closed_for: Span = 0
        """How long all closed ones were."""
        self._since: Instant | None = None

    def note(self, now: Instant, *, true: bool) -> None:
        """It is so at this moment, or not any more."""
        if true and self._since is None:
            self._since = now
        elif not true and self._since is not None:
            self._close(self._since, now)
            self._since = None

    def overlap(self, since: Instant, until: Instant) -> Span:
        """How much of a span they cover."""
        going_on = 0 if self._since is None else max(0, until - max(self._since, since))
        if not self._closed or self._closed[-1][1] <= since:
            return going_on
        if since <= self._closed[0][0] and self._closed[-1][1] <= until:  # asked of every lane of a drain
            return going_on + self._closed_for
        return going_on + sum(max(0, min(end, until) - max(begin, since)) for begin, end in self._closed)

    def _close(self, begin: Instant, end: Instant) -> None:
        self._closed.append((begin, end))
        self._closed_for += end - begin
        if len(self._closed) > _EPISODES_REMEMBERED:
            begin, end = self._closed.popleft()
            self._closed_for -= end - begin


class Lateness:
    """What kept one worker from starting things at once."""

    def __init__(self) -> None:
        self._began_at: Instant | None = None
        self._reached_at: Instant = 0
        self._saturated = Episodes()
        self._cut_off = Episodes()
        self._limited: dict[int, tuple[Reason, Instant]] = {}
        """Tenants at a limit: at which, and since when."""
        self._others: bool | None = None

    def learn(self, workers: Sequence[int]) -> None:
        """The live workers; only those matter that were there when this one began."""
        if self._others is None:
            self._others = len(workers) > 1

    def reached(self, now: Instant) -> None:
        """The database answered."""
        if self._began_at is None:
            self._began_at = now
        self._cut_off.note(now, true=False)
        self._reached_at = now

    def cut_off(self) -> None:
        """The database did not answer: it has not since the last time that it did."""
        self._cut_off.note(self._reached_at, true=True)

    def saturated(self, now: Instant, *, true: bool) -> None:
        """More is ready than there are places for, or all that was ready has been taken."""
        self._saturated.note(now, true=true)

    def blocked(
        self, caps: Mapping[int, int], limits: Mapping[int, Reason], ready: Iterable[LaneView], now: Instant
    ) -> None:
        """Something is ready, and nothing could be taken: places are short, or its tenants are at their
        limits."""
        limited = {tenant: limits[tenant] for tenant, cap in caps.items() if cap <= 0}
        self.limited(limited, now)
        if any(view.lane.tenant_id not in limited for view in ready):
            self.saturated(now, true=True)

    def took(
        self,
        claims: Sequence[Claim],
        caps: Mapping[int, int],
        limits: Mapping[int, Reason],
        allotted: int,
        now: Instant,
    ) -> None:
        """This was claimed. A worker that took all it could, and a tenant that did, may have left something
        behind."""
        self.reached(now)
        self.saturated(now, true=len(claims) >= allotted)
        if caps:
            taken = Counter(claim.tenant_id for claim in claims)
            self.limited(
                {tenant: limits[tenant] for tenant, cap in caps.items() if taken[tenant] >= cap}, now
            )

    def limited(self, limits: Mapping[int, Reason], now: Instant) -> None:
        """These tenants have something ready and are at these limits of theirs."""
        self._limited = {tenant: self._still_limited(tenant, limit, now) for tenant, limit in limits.items()}

    def _still_limited(self, tenant_id: int, limit: Reason, now: Instant) -> tuple[Reason, Instant]:
        before, since = self._limited.get(tenant_id, (limit, now))
        return (limit if limit is before else Reason.TENANT_LIMIT), since

    def why(self, run_at: Instant, now: Instant) -> str | None:
        """What held back an execution that could have run at `run_at` and starts now."""
        if now - run_at < LATE:
            return None
        covered = {
            Reason.PLACE: self._saturated.overlap(run_at, now),
            Reason.DATABASE: self._cut_off.overlap(run_at, now),
        }
        if self._others is not None:
            before = max(0, min(self._began_at or now, now) - run_at)
            covered[Reason.OTHERS if self._others else Reason.OUTAGE] = before
        reason = max(covered, key=lambda reason: covered[reason])
        return reason if covered[reason] else None

    def of_lanes(self, views: Iterable[LaneView], now: Instant) -> LateReasons:
        """Why what is claimed from these lanes now is late, as far as it is."""
        reasons: dict[int, str | None] = {}
        for view in views:
            if now - view.next_run_at >= LATE:
                reasons[view.lane.tenant_id] = self._of_lane(view, now)
        if not reasons:
            return ON_TIME
        common = next(iter(reasons.values()))
        others = {tenant: reason for tenant, reason in reasons.items() if reason != common}
        return LateReasons(common, tuple(others), tuple(others.values()))

    def _of_lane(self, view: LaneView, now: Instant) -> str | None:
        limit, since = self._limited.get(view.lane.tenant_id, (None, now))
        if limit is not None and (now - since) * 2 >= now - view.next_run_at:
            return limit
        return self.why(view.next_run_at, now)
