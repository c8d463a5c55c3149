"""Times when a job does not fire: single dates and named calendars of ranges.

A fire time inside a blackout is either dropped, or held: then the last fire time of each range runs when the
range ends, and the earlier ones give way to it.
"""

import re
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from datetime import date, datetime, timedelta
from enum import StrEnum
from typing import Annotated, Final
from zoneinfo import ZoneInfo

import msgspec

from tocsin.domain.errors import Refused
from tocsin.domain.instant import Instant, from_datetime, parse_instant
from tocsin.domain.written import WrittenDate, WrittenInstant, WrittenName, at_most

MAX_RANGES: Final = 1000
MAX_DATES: Final = 366
MAX_CALENDARS: Final = 16
_DATE: Final = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
Range = tuple[Instant, Instant]
"""From (included) to (excluded)."""


class ExcludePolicy(StrEnum):
    """What becomes of a fire time inside a blackout."""

    DROP = "drop"
    HOLD = "hold"


class Exclude(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """When not to fire: dates in the schedule's time zone, and calendars by name."""

    dates: Annotated[tuple[WrittenDate, ...], at_most(MAX_DATES)] = ()
    calendars: Annotated[tuple[WrittenName, ...], at_most(MAX_CALENDARS)] = ()
    policy: ExcludePolicy = ExcludePolicy.DROP


class CalendarRange(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename={"from_": "from"}):
    """One range of a named calendar."""

    from_: WrittenInstant
    to: WrittenInstant
    reason: str | None = None


class Blackouts:
    """Ranges in order, merged where they touch."""

    def __init__(self, ranges: Iterable[Range] = (), policy: ExcludePolicy = ExcludePolicy.DROP) -> None:
        merged: list[Range] = []
        for start, end in sorted(ranges):
            if merged and start <= merged[-1][1]:
                merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
            else:
                merged.append((start, end))
        self._starts = [start for start, _ in merged]
        self._ends = [end for _, end in merged]
        self.hold = policy is ExcludePolicy.HOLD

    def __bool__(self) -> bool:
        return bool(self._starts)

    @property
    def over_at(self) -> Instant | None:
        """When the last of them ends."""
        return self._ends[-1] if self._ends else None

    def end_of(self, fire: Instant) -> Instant | None:
        """When the blackout around `fire` ends; None if there is none."""
        place = bisect_right(self._starts, fire) - 1
        return self._ends[place] if place >= 0 and fire < self._ends[place] else None


NO_BLACKOUTS: Final = Blackouts()


def read_ranges(ranges: Sequence[CalendarRange]) -> list[Range]:
    """Check the ranges of a calendar."""
    if len(ranges) > MAX_RANGES:
        raise Refused(f"a calendar has at most {MAX_RANGES} ranges", field="ranges")
    read = []
    for place, item in enumerate(ranges):
        start = parse_instant(item.from_, f"ranges[{place}].from")
        end = parse_instant(item.to, f"ranges[{place}].to")
        if end <= start:
            raise Refused("a range ends after it begins", field=f"ranges[{place}].to")
        read.append((start, end))
    return read


def ranges_of_dates(dates: Sequence[str], zone: ZoneInfo) -> list[Range]:
    """Whole local days."""
    ranges = []
    for place, text in enumerate(dates):
        try:
            if not _DATE.fullmatch(text):
                raise ValueError
            day = date.fromisoformat(text)
            start = datetime(day.year, day.month, day.day, tzinfo=zone)
            following = day + timedelta(days=1)
            end = datetime(following.year, following.month, following.day, tzinfo=zone)
        except (ValueError, OverflowError):
            raise Refused(
                f"{text[:40]!r} is not a date such as 2030-12-25", field=f"schedule.exclude.dates[{place}]"
            ) from None
        ranges.append((from_datetime(start), from_datetime(end)))
    return ranges
