"""Which shards this node plans.

A node holds leases on shards. It renews them every third of their ttl; that same statement is its heartbeat
and tells it the size of the fleet. With too few shards for its share it takes free ones, with too many it
gives some back, so a joining node fills up within a heartbeat or two and a leaving one hands over at once.

**Trust.** The database decides who owns a shard, by its own clock. The holder stops trusting its leases
*earlier*: a renewal counts from the moment it was *sent*, on the node's monotonic clock, and ends a margin
before the ttl. A node that was frozen, or whose database call stalled, therefore finds its leases untrusted
before another node may take them; and should it write all the same, the epoch in the statement refuses it.
"""

from collections.abc import Awaitable, Callable
from typing import Final

import structlog

from tocsin.clock import Clock, DatabaseClock
from tocsin.domain.errors import OwnershipLost, Unavailable
from tocsin.domain.instant import MILLISECOND, SECOND, Instant
from tocsin.domain.shard import share
from tocsin.failpoints import Failpoints
from tocsin.service import Report
from tocsin.store.leases import LeaseStore, Renewal, Taken
from tocsin.telemetry import Telemetry

_MARGIN: Final = 0.1  # of the ttl
_JUST_AFTER: Final = 20 * MILLISECOND
_CLOCK_EVERY: Final = 4
"""A renewal waits for the disk, which makes it a poor look at the clock: every fourth one is preceded by a
look at the clock alone."""
_log = structlog.get_logger()


class Leases:
    """The leases a node holds, as far as it may trust them."""

    def __init__(self, clock: Clock, ttl: float) -> None:
        self._clock = clock
        self._span = ttl * (1 - _MARGIN)
        self._held: dict[int, int] = {}
        self._trusted_until = float("-inf")
        self.workers: frozenset[int] = frozenset()
        """The nodes that work, as of the last renewal."""

    def trusted(self) -> dict[int, int]:
        """Shard to epoch; empty when the last renewal is too long ago."""
        return self._held if self._clock.monotonic() < self._trusted_until else {}

    def renewed(self, held: dict[int, int], asked: float) -> None:
        """A renewal that was sent at `asked` (monotonic) succeeded."""
        self._held = held
        self._trusted_until = asked + self._span

    def add(self, taken: dict[int, int]) -> None:
        """Shards taken after the renewal; they last at least as long as it."""
        self._held = self._held | taken

    def remove(self, given: list[int]) -> None:
        """Shards about to be given back."""
        self._held = {shard: epoch for shard, epoch in self._held.items() if shard not in given}

    def drop(self) -> None:
        """Trust nothing until the next renewal."""
        self._held = {}
        self._trusted_until = float("-inf")


class Leaser:
    """Keeps the node in the fleet and its leases at its fair share."""

    name = "leaser"

    def __init__(
        self,
        store: LeaseStore,
        clock: Clock,
        leases: Leases,
        *,
        node_id: int,
        ttl: float,
        plans: bool,
        telemetry: Telemetry,
        failpoints: Failpoints,
        rejoin: Callable[[], Awaitable[object]],
        changed: Callable[[], None] = lambda: None,
        heard: Callable[[Renewal], None] = lambda _: None,
    ) -> None:
        self.interval = ttl / 3
        self.node_id = node_id
        self._store = store
        self._clock = clock
        self._leases = leases
        self._plans = plans
        self._telemetry = telemetry
        self._failpoints = failpoints
        self._rejoin = rejoin
        self._changed = changed
        self._heard = heard
        self._renewals = 0
        self._kept: set[int] = set()
        """The shards that the last run left this node with, whether it still trusts their leases or not."""

    async def run_once(self, now: Instant) -> Report:  # noqa: ARG002 - the database's clock decides
        """Heartbeat, then move towards the fair share."""
        before = set(self._leases.trusted())
        renewal = await self._renew()
        self._count_lost(renewal.held)
        if self._plans:
            await self._balance(renewal)
        held = set(self._leases.trusted())
        if held != before:
            gained, given = len(held - before), len(set(renewal.held) - held)
            _log.info("leases.changed", held=len(held), gained=gained, given=given)
        if held - before:
            self._changed()
        self._telemetry.shards_held.set(len(held))
        return Report(done=len(held), again_at=self._next_look(renewal))

    def _next_look(self, renewal: Renewal) -> Instant:
        """The next heartbeat, or the moment at which a node that no longer renews loses its leases."""
        heartbeat = renewal.now + round(self.interval * SECOND)
        if not self._plans or renewal.soonest is None:
            return heartbeat
        return min(heartbeat, renewal.soonest + _JUST_AFTER)

    async def leave(self) -> None:
        """Hand everything over and leave the fleet."""
        held = list(self._leases.trusted())
        self._leases.drop()
        # Gone first, so that those who hear of the free shards already reckon without us.
        await self._store.leave(self.node_id)
        if held:
            await self._store.give(self.node_id, held)

    async def _renew(self) -> Renewal:
        if isinstance(self._clock, DatabaseClock) and self._renewals % _CLOCK_EVERY == 0:
            await self._clock.ask(self._store.now)
        self._renewals += 1
        asked = self._clock.monotonic()
        try:
            renewal = await self._store.renew(self.node_id, self._telemetry.snapshot())
        except Unavailable:
            self._telemetry.renewals_failed.inc()
            raise
        except OwnershipLost:
            self._telemetry.renewals_failed.inc()
            self._count_lost({})
            self._leases.drop()
            await self._rejoin()
            raise
        if isinstance(self._clock, DatabaseClock):
            self._clock.observe(asked, renewal.now, self._clock.monotonic())
        self._leases.renewed(renewal.held, asked)
        self._leases.workers = frozenset(renewal.workers)
        self._heard(renewal)
        await self._failpoints.reach("leaser.renewed")
        return renewal

    def _count_lost(self, held: dict[int, int]) -> None:
        """Count the leases that this node did not give back and does not hold any more."""
        if lost := self._kept.difference(held):
            self._telemetry.leases_lost.inc(len(lost))
            _log.warning("leases.lost", lost=len(lost), held=len(held))
        self._kept = set(held)

    def _count_taken(self, taken: Taken) -> None:
        """Count what was taken, and for how long the shards of lost nodes had no owner."""
        lost = taken.unowned_for
        self._telemetry.takeovers.observe(lost)
        for after, number in (("loss", len(lost)), ("release", len(taken) - len(lost))):
            self._telemetry.leases_taken.labels(after).inc(number)

    async def _balance(self, renewal: Renewal) -> None:
        change = share(held=len(renewal.held), shards=renewal.shards, nodes=renewal.schedulers)
        if change.take and renewal.free:
            taken = await self._store.take(self.node_id, min(change.take, renewal.free))
            self._leases.add(taken)
            self._kept.update(taken)
            self._count_taken(taken)
        elif change.give:
            given = sorted(renewal.held)[-change.give :]
            # Stop planning them before another node may start.
            self._leases.remove(given)
            self._kept.difference_update(given)
            await self._store.give(self.node_id, given)
