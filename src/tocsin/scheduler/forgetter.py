"""Forgets what is over, at the rate at which it ends: jobs of days that retention drops, expired keys, and
what sweeps find.

Forgetting never hurries at the cost of what fires. It is done in batches of about a thousand rows, one at a
time, and after each batch it rests for a multiple of what the batch took: on a busy database batches are
slow, and the rests grow with them. The more days wait to be walked, the shorter are the rests, because what
ends has to go.

Each errand has its own time. One that fails is put off, and the others go on.
"""

import random
from typing import Final, Protocol

import msgspec

from tocsin.clock import Clock
from tocsin.domain.instant import DAY, HOUR, MILLISECOND, MINUTE, SECOND, Instant, Span
from tocsin.scheduler.leaser import Leases
from tocsin.service import Report
from tocsin.store.forgetting import SWEPT, ForgettingStore, Walk
from tocsin.store.forgetting_tenants import TenantForgetting

_RESTS: Final = 9
"""How many times as long as a batch took the rest is: forgetting has a tenth of one connection."""
_SHORTEST_REST: Final[Span] = 10 * MILLISECOND
_LONGEST_REST: Final[Span] = 10 * SECOND
_AFTER_TROUBLE: Final[Span] = MINUTE
_NEXT_LOOK: Final[Span] = MINUTE
_NEXT_PASS: Final[Span] = HOUR
_STILL_RUNNING: Final[Span] = 10 * SECOND
"""Until what runs of a deleted tenant is looked at again."""
_BARREN_REST: Final[Span] = SECOND
"""After blocks of a table in which there was hardly anything to forget."""


class Turn(msgspec.Struct, frozen=True):
    """What one batch did, how long the errand can wait for the next, and how many days it is behind."""

    forgotten: int
    wait: Span = 0
    behind: int = 0


class Errand(Protocol):
    """Something to forget."""

    async def turn(self, now: Instant) -> Turn:
        """One batch."""


class Forgetter:
    """Runs on the node that leases shard 0."""

    name = "forgetter"
    interval = 60.0

    def __init__(self, store: ForgettingStore, leases: Leases, clock: Clock) -> None:
        self._leases = leases
        self._clock = clock
        errands: list[Errand] = [_EndedJobs(store), _Keys(store), _DeletedTenants(store.tenants),
                                 _BriefHistories(store.tenants), *(_Sweep(store, table) for table in SWEPT)]  # fmt: skip
        self._next: list[tuple[Instant, int, Errand]] = [(0, place, one) for place, one in enumerate(errands)]

    async def run_once(self, now: Instant) -> Report:
        """One batch of the errand that has waited longest."""
        if 0 not in self._leases.trusted():
            return Report(again_at=now + MINUTE)
        due_at, place, errand = self._next[0]
        if due_at > now:
            return Report(again_at=due_at)
        self._put_off(now + _AFTER_TROUBLE, place, errand)  # should it fail
        began = self._clock.monotonic()
        turn = await errand.turn(now)
        took = round((self._clock.monotonic() - began) * SECOND)
        rested = now + took + rest_after(took, behind=turn.behind)
        self._put_off(max(rested, now + took + turn.wait), place, errand)
        return Report(turn.forgotten, again_at=max(rested, self._next[0][0]))

    def _put_off(self, until: Instant, place: int, errand: Errand) -> None:
        others = [entry for entry in self._next if entry[1] != place]
        self._next = sorted([*others, (until, place, errand)], key=lambda entry: entry[:2])


def rest_after(took: Span, *, behind: int = 0) -> Span:
    """How long to rest after a batch that took `took`, while `behind` days wait."""
    return max(_SHORTEST_REST, min(took * _RESTS // (1 + behind), _LONGEST_REST))


class _EndedJobs:
    """Jobs that ended on days which retention no longer keeps, day by day."""

    def __init__(self, store: ForgettingStore) -> None:
        self._store = store
        self._walk: Walk | None = None

    async def turn(self, now: Instant) -> Turn:
        self._walk = walk = self._walk or await self._store.oldest_day(now)
        if walk is None:
            return Turn(0, wait=_NEXT_LOOK)
        batch = await self._store.ended_jobs(walk, now)
        if not batch.more:
            self._walk = None
        return Turn(batch.forgotten, behind=walk.behind)


class _Keys:
    """Idempotency keys, in the order in which they expire."""

    def __init__(self, store: ForgettingStore) -> None:
        self._store = store
        self._low_mark: Instant = 0
        self._bottom_at: Instant = 0

    async def turn(self, now: Instant) -> Turn:
        if now >= self._bottom_at:  # keys that were locked when they were passed are below the mark
            self._low_mark, self._bottom_at = 0, now + HOUR
        batch, self._low_mark = await self._store.keys(self._low_mark)
        return Turn(batch.forgotten, wait=0 if batch.more else _NEXT_LOOK)


class _DeletedTenants:
    """Everything of tenants that were deleted, one tenant after the other."""

    def __init__(self, store: TenantForgetting) -> None:
        self._store = store

    async def turn(self, now: Instant) -> Turn:
        tenant = await self._store.deleted()
        if tenant is None:
            return Turn(0, wait=_NEXT_LOOK)
        forgotten, gone = await self._store.everything(tenant, now)
        return Turn(forgotten, wait=0 if forgotten or gone else _STILL_RUNNING)


class _BriefHistories:
    """History of tenants that keep it for fewer days than the installation does."""

    def __init__(self, store: TenantForgetting) -> None:
        self._store = store
        self._left: list[tuple[int, int]] | None = None

    async def turn(self, now: Instant) -> Turn:
        if self._left is None:
            self._left = [(row["id"], row["days"]) for row in await self._store.brief()]
        if not self._left:
            self._left = None
            return Turn(0, wait=_NEXT_PASS)
        tenant_id, days = self._left[-1]
        forgotten = await self._store.history(tenant_id, now - days * DAY)
        if not forgotten:
            self._left.pop()
        return Turn(forgotten)


class _Sweep:
    """A table that is swept from its first block to its last, and an hour later again. The first time it
    begins anywhere, so that nodes which never lead for long do not all sweep the same part."""

    def __init__(self, store: ForgettingStore, table: str) -> None:
        self._store = store
        self._table = table
        self._block: int | None = None
        self._mark: int | None = None
        """The oldest transaction of an hour before the pass began."""

    async def turn(self, now: Instant) -> Turn:
        blocks = await self._store.blocks(self._table)
        if self._block is None:
            self._block = random.randrange(0, blocks + 1)
        if self._block >= blocks:
            self._block, self._mark = 0, await self._store.mark()
            return Turn(0, wait=_NEXT_PASS)
        begin, self._block = (
            self._block,
            self._block + SWEPT[self._table],
        )  # blocks that cannot be swept are passed over
        forgotten = await self._store.sweep(self._table, begin, now, self._mark)
        return Turn(forgotten, wait=0 if forgotten > SWEPT[self._table] else _BARREN_REST)
