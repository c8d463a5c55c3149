"""The only module that reads a clock.

Nodes run on database time: `DatabaseClock` keeps the offset between the database's clock and this process's
monotonic clock, so a wrong or jumping wall clock on a node changes nothing. The offset comes from exchanges
with the database (who asks records its own time before and after); of the recent samples the one with the
shortest round trip is believed. The clock may be behind the database's by that trip, but never ahead of it:
nothing may fire early, however long an exchange took. A sample that contradicts earlier ones says that a
clock was set, or that this machine slept, or that another server answers; then what was known before counts
no longer.
"""

import time
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Final, NamedTuple, Protocol

from tocsin.domain.instant import SECOND, Instant

_SAMPLES_KEPT: Final = 8
_DRIFT: Final = 0.01
"""Seconds by which clocks may drift apart while samples are kept."""


class Clock(Protocol):
    """What services ask. Production runs on `DatabaseClock`, tests on `VirtualClock`."""

    def now(self) -> Instant:
        """Database time, as well as this process knows it."""

    def monotonic(self) -> float:
        """Seconds that only ever grow; for durations and trust windows."""


def system_now() -> Instant:
    """The wall clock of this machine. Only for what has no database to ask (the CLI, a log line)."""
    return time.time_ns() // 1000


class _Sample(NamedTuple):
    """The database is ahead of the monotonic clock by `offset`, or by up to `round_trip` more."""

    round_trip: float
    offset: float

    def contradicts(self, other: "_Sample") -> bool:
        """Whether a clock must have been set between the two."""
        least = max(self.offset, other.offset)
        most = min(self.offset + self.round_trip, other.offset + other.round_trip)
        return least > most + _DRIFT


class DatabaseClock:
    """Database time on the monotonic clock. `observe` feeds it; before the first sample it is the wall
    clock."""

    def __init__(self) -> None:
        self._samples: deque[_Sample] = deque(maxlen=_SAMPLES_KEPT)
        self._offset = time.time() - time.monotonic()

    def now(self) -> Instant:
        return round((time.monotonic() + self._offset) * SECOND)

    def monotonic(self) -> float:
        return time.monotonic()

    async def ask(self, database_now: Callable[[], Awaitable[Instant]]) -> None:
        """Learn from an exchange for nothing else, which is the shortest there is."""
        asked = self.monotonic()
        self.observe(asked, await database_now(), self.monotonic())

    def observe(self, asked: float, database_now: Instant, answered: float) -> None:
        """Learn from one exchange: monotonic seconds around it and the instant the database gave.

        The database looked at its clock at some moment of the exchange, at the latest when it answered.
        """
        sample = _Sample(answered - asked, database_now / SECOND - answered)
        if any(sample.contradicts(earlier) for earlier in self._samples):
            self._samples.clear()
        self._samples.append(sample)
        self._offset = min(self._samples).offset

    @property
    def uncertainty(self) -> float:
        """How far behind it may be, in seconds: the believed round trip."""
        return min(self._samples).round_trip if self._samples else float("inf")


class VirtualClock:
    """Time that passes when a test says so."""

    def __init__(self, now: Instant) -> None:
        self._start = now
        self._now = now

    def now(self) -> Instant:
        return self._now

    def monotonic(self) -> float:
        return (self._now - self._start) / SECOND

    def advance(self, span: int) -> None:
        """Let `span` microseconds pass."""
        self._now += span
