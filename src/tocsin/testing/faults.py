"""What a test lets go wrong: attempts that fail, attempts that take their time, workers that vanish, and a
fleet that is away."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import msgspec

from tocsin.domain.errors import Refused
from tocsin.domain.instant import DAY, Instant, Span, from_datetime, parse_instant, to_datetime

_DAYS_WITH_A_CHANGE = 400


class Failing(msgspec.Struct):
    """The next attempts at a task that fail."""

    times: int
    error: Callable[[], BaseException]


class Faults:
    """All of it, by the name of the task or the instant."""

    def __init__(self) -> None:
        self._failing: dict[str, Failing] = {}
        self._slow: dict[str, Span] = {}
        self._outages: list[tuple[Instant, Instant]] = []
        self.vanishes_at: Instant | None = None
        """When the worker vanishes, with whatever it runs then or begins next."""

    def fail(self, task: str, times: int, error: Callable[[], BaseException]) -> None:
        """Let the next attempts at a task fail without running it."""
        self._failing[task] = Failing(times, error)

    def error_of(self, task: str) -> BaseException | None:
        """How the next attempt at a task fails, if it is to."""
        failing = self._failing.get(task)
        if failing is None or failing.times <= 0:
            return None
        failing.times -= 1
        return failing.error()

    def failing(self) -> dict[str, int]:
        """Tasks whose next attempts fail, and how many."""
        return {task: one.times for task, one in self._failing.items() if one.times > 0}

    def slow(self, task: str, by: Span) -> None:
        """Let each attempt at a task take so long."""
        self._slow[task] = by

    def takes(self, task: str) -> Span:
        """How long an attempt at a task takes."""
        return self._slow.get(task, 0)

    def outage(self, begin: Instant, end: Instant) -> None:
        """Let nothing be planned or run from one instant to another."""
        if end <= begin:
            raise Refused("an outage ends after it begins", field="end")
        self._outages.append((begin, end))

    def away_until(self, now: Instant) -> Instant | None:
        """When the outage ends in which `now` lies."""
        return max((end for begin, end in self._outages if begin <= now < end), default=None)

    def next_outage(self, now: Instant) -> Instant | None:
        """When the next one begins."""
        return min((begin for begin, _ in self._outages if begin > now), default=None)


def error_maker(error: type[BaseException] | BaseException) -> Callable[[], BaseException]:
    """How a test gives an exception: a class, or one that is there already."""
    if isinstance(error, BaseException):
        return lambda: error
    return lambda: error("as the test wants it")


def instant_of(value: "str | datetime", now: Instant, field: str) -> Instant:
    """An instant as a test writes it: RFC 3339, a datetime with a zone, or ``02:40``, the next such time of
    the day in UTC."""
    if isinstance(value, datetime):
        if value.tzinfo is None:
            raise Refused("a datetime needs a time zone", field=field)
        return from_datetime(value)
    if len(value) == len("02:40") and value[2] == ":":
        return _next_time_of_day(value, now, field)
    return parse_instant(value, field)


def next_clock_change(time_zone: str, now: Instant) -> Instant:
    """When the clocks of a zone are next put forward or back."""
    zone = ZoneInfo(time_zone)
    day = to_datetime(now)
    for _ in range(_DAYS_WITH_A_CHANGE):
        later = day + timedelta(days=1)
        if _offset(day, zone) != _offset(later, zone):
            return _change_between(day, later, zone)
        day = later
    raise Refused(f"the clocks of {time_zone} do not change", field="time_zone")


def _next_time_of_day(text: str, now: Instant, field: str) -> Instant:
    try:
        time = datetime.strptime(text, "%H:%M").time()  # noqa: DTZ007 - a time of the day in UTC
    except ValueError:
        raise Refused(f"{text!r} is no time of the day", field=field) from None
    today = from_datetime(datetime.combine(to_datetime(now).date(), time, UTC))
    return today if today >= now else today + DAY


def _change_between(before: datetime, after: datetime, zone: ZoneInfo) -> Instant:
    while after - before > timedelta(seconds=1):
        middle = before + (after - before) / 2
        before, after = (
            (middle, after) if _offset(middle, zone) == _offset(before, zone) else (before, middle)
        )
    return from_datetime(after.replace(microsecond=0))


def _offset(moment: datetime, zone: ZoneInfo) -> Any:
    return moment.astimezone(zone).utcoffset()
