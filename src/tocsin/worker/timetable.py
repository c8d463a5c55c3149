"""Claims that wait in memory for the moment at which the database is asked to start them.

What enters: executions claimed up to a couple of seconds ahead. What leaves: those whose time has come, to
be started; and everything at once when the worker drains. What may be lost: nothing. The timetable is a copy;
if the process dies, the claims in the database pass their deadline and are given to others.

A start is a durable write: it takes some milliseconds, a thousand of them some more. So that this does not make an
execution late it begins a little before its instant, in a crowd that is due at one instant the earlier the larger it is,
and `Alarm` holds what has started until the instant comes. What begins early can be cancelled with certainty only until
then, so it is no earlier than it needs to be.
"""

import heapq
from collections import deque
from collections.abc import Iterator, Sequence
from enum import IntEnum
from itertools import chain
from typing import Final, NamedTuple

from tocsin.domain.instant import MILLISECOND, SECOND, Instant, Span
from tocsin.queue.claims import Claim

_CROWD: Final = 1000
_START_TAKES: Final[Span] = 40
"""What one of a crowd takes to start on a worker that is one of two on two cores: so much earlier it begins for each."""
STARTED_BEFORE: Final[Span] = 25 * MILLISECOND
"""So long before its instant a start is asked for: what waking up and a commit take, also when the disk is slow."""
EXACT_STARTED_BEFORE: Final[Span] = 500 * MILLISECOND
CROWD_STARTED_BEFORE: Final[Span] = 6 * SECOND
"""The longest that a crowd is started before its instant."""


class Kind(IntEnum):
    """What claims of one instant have in common: how long they may wait once they have started."""

    FREE = 0
    """Waiting costs nothing: a crowd may begin as early as it needs."""
    CALL = 1
    """Waiting keeps a place that another call could have: a crowd begins no earlier than one."""
    GATED = 2
    """Waiting would keep a slot of a limit, or a job's floor, that others wait for: it begins on its instant."""


class Bucket(NamedTuple):
    """Claims that are to start at one instant."""

    start_at: Instant
    kind: Kind


class Timetable:
    """Claims by the instant at which they are to start."""

    def __init__(self) -> None:
        self._buckets: dict[Bucket, deque[Claim]] = {}
        # When to begin with which bucket. A crowd is in it several times, what is left of a bucket that is gone, too.
        self._starts: list[tuple[Instant, Bucket]] = []
        self._held = 0
        self.gated = 0
        """How many of those held are gated."""

    def __len__(self) -> int:
        return self._held

    def __iter__(self) -> Iterator[Claim]:
        return chain.from_iterable(self._buckets.values())

    def add(self, claims: Sequence[Claim]) -> bool:
        """Hold claims. True if the next instant is now an earlier one."""
        before = self.next_at()
        for claim in claims:
            self._put(claim)
        self._held += len(claims)
        after = self.next_at()
        return after is not None and (before is None or after < before)

    def next_at(self) -> Instant | None:
        """When the next claim is to be started."""
        while self._starts and self._starts[0][1] not in self._buckets:
            heapq.heappop(self._starts)
        return self._starts[0][0] if self._starts else None

    def late_at_gate(self, now: Instant) -> int:
        """How many gated claims are due and have not been taken out yet."""
        late = (b for name, b in self._buckets.items() if name.kind is Kind.GATED and name.start_at <= now)
        return sum(map(len, late))

    def pop_due(self, now: Instant, limit: int) -> list[Claim]:
        """Take out at most `limit` claims whose time has come."""
        due: list[Claim] = []
        while len(due) < limit and (next_at := self.next_at()) is not None and next_at <= now:
            name = self._starts[0][1]
            bucket = self._buckets[name]
            taken = [bucket.popleft() for _ in range(min(limit - len(due), len(bucket)))]
            due += taken
            if name.kind is Kind.GATED:
                self.gated -= len(taken)
            if not bucket:
                del self._buckets[name]
        self._held -= len(due)
        return due

    def pop_all(self) -> list[Claim]:
        """Take everything out."""
        claims = list(self)
        self._buckets.clear()
        self._starts.clear()
        self._held = self.gated = 0
        return claims

    def _put(self, claim: Claim) -> None:
        kind = kind_of(claim)
        before = _started_before(claim, kind)
        name = Bucket(claim.run_at - before, kind)
        bucket = self._buckets.get(name)
        if bucket is None:
            bucket = self._buckets[name] = deque()
            heapq.heappush(self._starts, (name.start_at, name))
        bucket.append(claim)
        if kind is Kind.GATED:
            self.gated += 1
        elif kind is Kind.FREE and len(bucket) % _CROWD == 0:
            before = min(before + len(bucket) * _START_TAKES, CROWD_STARTED_BEFORE)
            heapq.heappush(self._starts, (claim.run_at - before, name))


def kind_of(claim: Claim) -> Kind:
    """How long a claim may wait once it has started."""
    if claim.overlap is not None or claim.limit_key is not None:
        return Kind.GATED
    return Kind.CALL if claim.work.calls else Kind.FREE


def _started_before(claim: Claim, kind: Kind) -> Span:
    """How long before its instant a claim begins that is alone."""
    if claim.work.exact:
        return EXACT_STARTED_BEFORE
    return 0 if kind is Kind.GATED else STARTED_BEFORE
