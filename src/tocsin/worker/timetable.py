"""Claims that wait in memory for the moment at which the database is asked to start them.

What enters: executions claimed up to a couple of seconds ahead. What leaves: those whose time has come, to
be started; and everything at once when the worker drains. What may be lost: nothing. The timetable is a copy;
if the process dies, the claims in the database pass their deadline and are given to others.

A start is a durable write and takes some milliseconds. To be on time it begins a little before the instant,
and for a crowd due at one instant the earlier, the larger the crowd. `Armed` holds started claims until the
instant. A cancellation is certain to work only before the start, so no start is earlier than it needs to be.

Claims whose time has come are kept by lane. If not all of them can start, the caller says how many of each
lane do (`Places`). Crowds that begin early come after them. Of a crowd of calls that part begins early for
which there are places that nothing else needs before; it begins as early as a crowd of its size.
"""

import heapq
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from enum import IntEnum
from itertools import chain
from typing import Final, NamedTuple

from tocsin.domain.instant import MILLISECOND, SECOND, Instant, Span
from tocsin.queue.claims import Claim
from tocsin.queue.lanes import Lane
from tocsin.signals import Signal
from tocsin.worker.start_lead import SHORTEST_LEAD

_START_TAKES: Final[Span] = 40
"""Microseconds per start in a crowd, measured with two workers on two cores. A crowd of n begins n times this
earlier."""
EXACT_STARTED_BEFORE: Final[Span] = 500 * MILLISECOND
CROWD_STARTED_BEFORE: Final[Span] = 6 * SECOND
"""The longest that a crowd is started before its instant."""


class Kind(IntEnum):
    """What claims of one instant have in common: how long they may wait once they have started."""

    AT_ONCE = 0
    """It will be over at once, and waiting takes no place: a crowd may begin as early as it needs."""
    CALL = 1
    """Waiting takes a place: of a crowd, as many begin early as there are places for."""
    GATED = 2
    """Waiting would keep a slot of a limit, or a job's turn, that others wait for: it begins on its
    instant."""


Share = Callable[[Mapping[Lane, int], int], Mapping[Lane, int]]
"""Says how many claims of each lane get places, of those that want one and the number of places."""
_CROWD_STEP: Final = {Kind.AT_ONCE: 1000, Kind.CALL: 100}
"""Each time a crowd has grown by this many it begins earlier."""


class Bucket(NamedTuple):
    """Claims that are to start at one instant."""

    start_at: Instant
    kind: Kind


class Timetable:
    """Claims by the instant at which they are to start, and by lane once it has come."""

    def __init__(self, lead: Callable[[], Span] = lambda: SHORTEST_LEAD) -> None:
        """`lead` says how long before its instant a start is asked for."""
        self._lead = lead
        self._buckets: dict[Bucket, dict[Lane, deque[Claim]]] = {}
        # When to begin with which bucket. A crowd is in it several times, what is left of a bucket that is
        # gone, too.
        self._starts: list[tuple[Instant, Bucket]] = []
        self._sizes: dict[Bucket, int] = {}
        self._due: dict[Lane, deque[Claim]] = {}
        self._due_since: Instant = 0
        self._size = 0
        self._late_at_gate = 0
        self.due_calls = 0
        """How many of those whose time has come need a place."""
        self.gated = 0
        """How many of its claims are gated."""
        self.earlier = Signal("timetable_earlier")
        """Sent when the next instant has become an earlier one."""

    def __len__(self) -> int:
        return self._size

    def __iter__(self) -> Iterator[Claim]:
        waiting = chain.from_iterable(bucket.values() for bucket in self._buckets.values())
        return chain.from_iterable(chain(waiting, self._due.values()))

    def add(self, claims: Sequence[Claim]) -> None:
        """Keep claims until they are to start."""
        before = self.next_at()
        for claim in claims:
            self._put(claim)
        self._size += len(claims)
        after = self.next_at()
        if after is not None and (before is None or after < before):
            self.earlier.send()

    def next_at(self) -> Instant | None:
        """When the next claim is to be started; some instant that has passed if claims stand in line."""
        while self._starts and self._starts[0][1] not in self._buckets:
            heapq.heappop(self._starts)
        waiting = self._starts[0][0] if self._starts else None
        if not self._due:
            return waiting
        return self._due_since if waiting is None else min(waiting, self._due_since)

    def due(self, now: Instant) -> dict[Lane, int]:
        """How many claims of each lane have reached their time."""
        self._line_up(now)
        return {lane: len(claims) for lane, claims in self._due.items()}

    def late_at_gate(self, now: Instant) -> int:
        """How many gated claims are due and have not been taken out yet."""
        self._line_up(now)
        return self._late_at_gate

    def take_due(self, takes: Mapping[Lane, int]) -> list[Claim]:
        """Take out claims whose time has come: from each lane as many as it is given."""
        taken: list[Claim] = []
        for lane, take in takes.items():
            claims = self._due.get(lane, deque())
            taken += [claims.popleft() for _ in range(min(take, len(claims)))]
            if not claims:
                self._due.pop(lane, None)
        gated = sum(claim.gated for claim in taken)
        self.gated -= gated
        self._late_at_gate -= gated
        self.due_calls -= sum(claim.work.takes_place for claim in taken)
        self._size -= len(taken)
        return taken

    def take_early(self, now: Instant, limit: int, places: int, share: Share) -> list[Claim]:
        """Take out at most `limit` claims of crowds that begin before their time, among them as many calls as
        there are `places`. If these are too few for a crowd, `share` says how many of each lane get one."""
        taken: list[Claim] = []
        self._line_up(now)
        while len(taken) < limit and self._starts and self._starts[0][0] <= now:
            name, room = self._starts[0][1], limit - len(taken)
            if name.kind is Kind.CALL:
                part = self._take_of(name, self._calls_early(name, now, room, places, share))
                places -= len(part)
            else:
                part = self._take_of(name, _first(self._buckets.get(name, {}), room))
            if not part or name not in self._buckets:
                heapq.heappop(self._starts)
            taken += part
        self._size -= len(taken)
        return taken

    def _calls_early(
        self, name: Bucket, now: Instant, limit: int, places: int, share: Share
    ) -> Mapping[Lane, int]:
        """How many of each lane of a crowd of calls begin now, before their time. The fewer of them there are
        places for, the later they begin, so that no place waits longer than it has to."""
        size = self._sizes.get(name, 0)
        if now < _early_start(name, min(size, places)):
            return {}
        part = min(size, places - self._needed_before(name))
        if now < _early_start(name, part):
            return {}
        waiting = {lane: len(claims) for lane, claims in self._buckets[name].items()}
        return waiting if size <= min(part, limit) else share(waiting, min(part, limit))

    def _needed_before(self, name: Bucket) -> int:
        """How many places may be needed by what starts before the time of a bucket has come."""
        return sum(
            size
            for other, size in self._sizes.items()
            if other.start_at < name.start_at and other.kind is not Kind.AT_ONCE
        )

    def _take_of(self, name: Bucket, takes: Mapping[Lane, int]) -> list[Claim]:
        """The claims of one bucket: from each lane as many as it is given."""
        taken: list[Claim] = []
        for lane, take in takes.items():
            claims = self._buckets[name][lane]
            taken += [claims.popleft() for _ in range(take)]
            if not claims:
                del self._buckets[name][lane]
        if taken:
            self._sizes[name] -= len(taken)
            if not self._sizes[name]:
                self._forget(name)
        return taken

    def pop_all(self) -> list[Claim]:
        """Take everything out."""
        claims = list(self)
        self._buckets.clear()
        self._sizes.clear()
        self._starts.clear()
        self._due.clear()
        self._size = self.gated = self._late_at_gate = self.due_calls = 0
        return claims

    def _put(self, claim: Claim) -> None:
        kind = kind_of(claim)
        before = _started_before(claim, kind, self._lead())
        name = Bucket(claim.run_at - before, kind)
        lanes = self._buckets.get(name)
        if lanes is None:
            lanes = self._buckets[name] = {}
            self._sizes[name] = 0
            heapq.heappush(self._starts, (name.start_at, name))
        lane = claim.lane
        claims = lanes.get(lane)
        if claims is None:
            claims = lanes[lane] = deque()
        claims.append(claim)
        size = self._sizes[name] = self._sizes[name] + 1
        if kind is Kind.GATED:
            self.gated += 1
        elif size % _CROWD_STEP[kind] == 0:
            before = min(before + size * _START_TAKES, CROWD_STARTED_BEFORE)
            heapq.heappush(self._starts, (claim.run_at - before, name))

    def _line_up(self, now: Instant) -> None:
        """Move what has reached its time into the lines of its lanes. A crowd that begins early stays where
        it is."""
        early: list[tuple[Instant, Bucket]] = []
        while self._starts and self._starts[0][0] <= now:
            start = heapq.heappop(self._starts)
            if start[1] not in self._buckets:
                continue
            if start[1].start_at > now:
                early.append(start)
                continue
            self._stand_in_line(start[1])
        for start in early:
            heapq.heappush(self._starts, start)

    def _stand_in_line(self, name: Bucket) -> None:
        if not self._due:
            self._due_since = name.start_at
        self._due_since = min(self._due_since, name.start_at)
        for lane, claims in self._buckets[name].items():
            line = self._due.get(lane)
            if line is None:
                self._due[lane] = claims
            else:
                line.extend(claims)
            if name.kind is Kind.GATED:
                self._late_at_gate += len(claims)
                self.due_calls += sum(claim.work.takes_place for claim in claims)
            elif name.kind is Kind.CALL:
                self.due_calls += len(claims)
        self._forget(name)

    def _forget(self, name: Bucket) -> None:
        del self._buckets[name], self._sizes[name]


def _early_start(name: Bucket, part: int) -> Instant:
    """When to begin with this part of a crowd."""
    return name.start_at - part * _START_TAKES


def _first(lanes: Mapping[Lane, deque[Claim]], limit: int) -> Mapping[Lane, int]:
    """At most `limit` claims of a bucket, lane after lane."""
    takes: dict[Lane, int] = {}
    for lane, claims in lanes.items():
        if limit <= 0:
            break
        takes[lane] = min(limit, len(claims))
        limit -= takes[lane]
    return takes


def kind_of(claim: Claim) -> Kind:
    """How long a claim may wait once it has started."""
    if claim.overlap is not None or claim.limit_key is not None:
        return Kind.GATED
    return Kind.CALL if claim.work.takes_place else Kind.AT_ONCE


def _started_before(claim: Claim, kind: Kind, lead: Span) -> Span:
    """How long before its instant a claim begins that is alone."""
    if claim.work.exact:
        return max(EXACT_STARTED_BEFORE, lead)
    return 0 if kind is Kind.GATED else lead
