"""The timer of executions that are started in the database a moment before their instant, and wait here.

`timetable` says how long before. A kernel timer wakes the process at the instant. For an `exact` execution it
wakes the process a little earlier, and the process then spins on the clock. Nothing fires before its instant,
by this process's estimate of the database's clock.

Firing a crowd takes a while, so executions of one instant fire by priority, and within a priority the tenants
alternate.
"""

import asyncio
import ctypes
import heapq
import os
import sys
from collections import deque
from collections.abc import Callable, Iterator
from itertools import chain
from typing import Final

from tocsin.clock import Clock
from tocsin.domain.instant import MILLISECOND, SECOND, Instant, Span
from tocsin.queue.claims import Claim

# How late the kernel wakes a process on a quiet machine, in microseconds. The process spins on the clock for
# that long before an `exact` instant.
_SPUN: Final[Span] = 300
# The least time between two rings unless an `exact` execution waits: dense instants fire together.
_APART: Final[Span] = MILLISECOND
# The longest wait: then it looks again, for the database's clock may have been set.
_LONGEST: Final[Span] = SECOND
# Alarms that fire before the event loop has its turn.
_AT_ONCE: Final = 500
_CLOCK_MONOTONIC: Final = 1
_NONBLOCK_CLOEXEC: Final = 0o4000 | 0o2000000


class Alarm:
    """Claims that have started and wait for their very instant; `fire` is called with each batch."""

    def __init__(self, clock: Clock, fire: Callable[[list[Claim]], None]) -> None:
        self._clock = clock
        self._fire = fire
        self._waiting: dict[Instant, _Crowd] = {}
        self._exact: set[Instant] = set()
        # When to ring; also instants of which nothing waits any more.
        self._instants: list[Instant] = []
        self._rang_at: Instant = 0
        self._timer: KernelTimer | LoopTimer | None = None
        self._rung_out = asyncio.Event()

    def __len__(self) -> int:
        return sum(map(len, self._waiting.values()))

    def __iter__(self) -> Iterator[Claim]:
        return chain.from_iterable(self._waiting.values())

    def set(self, claims: list[Claim]) -> None:
        """Fire these on their instant."""
        for claim in claims:
            waiting = self._waiting.get(claim.run_at)
            if waiting is None:
                waiting = self._waiting[claim.run_at] = _Crowd()
                heapq.heappush(self._instants, claim.run_at)
            waiting.add(claim)
            if claim.work.exact:
                self._exact.add(claim.run_at)
        self._set_timer()

    def drop(self, claim: Claim) -> bool:
        """Forget a claim that must not fire any more. Whether it was there."""
        waiting = self._waiting.get(claim.run_at)
        if waiting is None or not waiting.drop(claim):
            return False
        self._forget_empty(claim.run_at)
        return True

    def overdue(self, now: Instant) -> bool:
        """Whether the instant of something has come that has not fired yet."""
        instant = self._next_instant()
        return instant is not None and instant <= now

    async def rung_out(self) -> None:
        """Wait until everything has fired."""
        while self._waiting:
            self._rung_out.clear()
            await self._rung_out.wait()

    def close(self) -> list[Claim]:
        """Give the kernel's timer back. Returns what will not fire any more."""
        left = list(self)
        self._waiting.clear()
        if self._timer is not None:
            self._timer.close()
            self._timer = None
        return left

    def _set_timer(self) -> None:
        instant = self._next_instant()
        if instant is None:
            return
        if self._timer is None:
            self._timer = new_timer(self._ring)
        self._timer.set(min(max(1, self._ring_at(instant) - self._clock.now()), _LONGEST))

    def _next_instant(self) -> Instant | None:
        while self._instants and self._instants[0] not in self._waiting:
            heapq.heappop(self._instants)
        return self._instants[0] if self._instants else None

    def _ring_at(self, instant: Instant) -> Instant:
        """When to wake up for the next instant."""
        if instant in self._exact:
            return instant - _SPUN
        if self._exact or instant <= self._rang_at:
            return instant
        return max(instant, self._rang_at + _APART)

    def _ring(self) -> None:
        instant = self._next_instant()
        try:
            if instant is not None and self._ring_at(instant) <= self._clock.now():
                while (now := self._clock.now()) < instant:
                    pass
                self._rang_at = now
                self._fire(self._take_due(now))
        finally:
            self._set_timer()

    def _take_due(self, now: Instant) -> list[Claim]:
        due: list[Claim] = []
        while len(due) < _AT_ONCE and (instant := self._next_instant()) is not None and instant <= now:
            due += self._waiting[instant].take(_AT_ONCE - len(due))
            self._forget_empty(instant)
        return due

    def _forget_empty(self, instant: Instant) -> None:
        if not len(self._waiting[instant]):
            del self._waiting[instant]
            self._exact.discard(instant)
            self._rung_out.set()


class _Crowd:
    """Claims of one instant, by priority and tenant."""

    def __init__(self) -> None:
        self._lines: dict[tuple[int, int], deque[Claim]] = {}

    def __len__(self) -> int:
        return sum(map(len, self._lines.values()))

    def __iter__(self) -> Iterator[Claim]:
        return chain.from_iterable(self._lines.values())

    def add(self, claim: Claim) -> None:
        line = self._lines.get((claim.priority, claim.tenant_id))
        if line is None:
            line = self._lines[claim.priority, claim.tenant_id] = deque()
        line.append(claim)

    def drop(self, claim: Claim) -> bool:
        line = self._lines.get((claim.priority, claim.tenant_id), deque())
        kept = deque(other for other in line if other is not claim)
        self._keep(claim.priority, claim.tenant_id, kept)
        return len(kept) < len(line)

    def take(self, limit: int) -> list[Claim]:
        """At most `limit` of them: the most urgent first, of each tenant an equal part."""
        taken: list[Claim] = []
        while self._lines and len(taken) < limit:
            urgent = min(priority for priority, _ in self._lines)
            tenants = [tenant for priority, tenant in self._lines if priority == urgent]
            part = max(1, (limit - len(taken)) // len(tenants))
            for tenant in tenants:
                line = self._lines[urgent, tenant]
                taken += [line.popleft() for _ in range(min(part, len(line), limit - len(taken)))]
                self._keep(urgent, tenant, line)
        return taken

    def _keep(self, priority: int, tenant: int, line: deque[Claim]) -> None:
        if line:
            self._lines[priority, tenant] = line
        else:
            self._lines.pop((priority, tenant), None)


class LoopTimer:
    """Where the kernel has no timer that can be waited for: the event loop's own, to the millisecond."""

    def __init__(self, ring: Callable[[], None]) -> None:
        self._ring = ring
        self._handle: asyncio.TimerHandle | None = None

    def set(self, wait: Span) -> None:
        """Ring after so long; an earlier setting is forgotten."""
        self.close()
        self._handle = asyncio.get_running_loop().call_later(wait / SECOND, self._ring)

    def close(self) -> None:
        if self._handle is not None:
            self._handle.cancel()


class KernelTimer:
    """A timerfd on the event loop: rings within a few hundred microseconds."""

    def __init__(self, ring: Callable[[], None], libc: ctypes.CDLL) -> None:
        self._libc = libc
        self._file = libc.timerfd_create(_CLOCK_MONOTONIC, _NONBLOCK_CLOEXEC)
        if self._file < 0:
            raise OSError(ctypes.get_errno(), "timerfd_create")
        self._ring = ring
        self._loop = asyncio.get_running_loop()
        self._loop.add_reader(self._file, self._read)

    def set(self, wait: Span) -> None:
        """Ring after so long; an earlier setting is forgotten."""
        seconds, microseconds = divmod(wait, SECOND)
        setting = (ctypes.c_long * 4)(0, 0, seconds, microseconds * 1000)
        self._libc.timerfd_settime(self._file, 0, setting, None)

    def close(self) -> None:
        self._loop.remove_reader(self._file)
        os.close(self._file)

    def _read(self) -> None:
        try:
            os.read(self._file, 8)
        except BlockingIOError:
            return  # it was set anew in the meantime
        self._ring()


def new_timer(ring: Callable[[], None]) -> KernelTimer | LoopTimer:
    """The best timer that this system has."""
    if sys.platform != "linux":
        return LoopTimer(ring)
    try:
        return KernelTimer(ring, ctypes.CDLL(None, use_errno=True))
    except (OSError, AttributeError):
        return LoopTimer(ring)
