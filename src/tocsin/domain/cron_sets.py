"""Times of the day and days of the calendar as bit sets: what the fields of a cron expression compile to.

Pure calendar arithmetic on one endless wall clock, counted in seconds and days from 1970-01-01; zones and
their changes do not exist here. A set of values is an int whose bit n says whether n is in it, so "the next
one from here" is a shift and a lowest bit. A month is one such set, bit 0 its 1st, made on the spot from its
length and the weekday of its 1st: nothing else about a month matters to a cron expression.
"""

from calendar import isleap
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import date
from typing import Final

LAST_YEAR: Final = 9990
ALL_HOURS: Final = (1 << 24) - 1
ALL_DATES: Final = (1 << 32) - 2
ALL_MONTHS: Final = (1 << 13) - 2
ALL_WEEKDAYS: Final = (1 << 7) - 1

SATURDAY: Final = 6
SUNDAY: Final = 0

_EPOCH_ORDINAL: Final = date(1970, 1, 1).toordinal()
_EPOCH_WEEKDAY: Final = 4  # a Thursday
_FEBRUARY: Final = 2
_LENGTHS: Final = (0, 31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)
_SIX_WEEKS: Final = sum(1 << 7 * week for week in range(6))


def lowest(bits: int) -> int:
    """The smallest value of a set that is not empty."""
    return (bits & -bits).bit_length() - 1


def values(bits: int) -> list[int]:
    """The values of a set, in order."""
    return [value for value in range(bits.bit_length()) if bits >> value & 1]


def longest_month(months: int) -> int:
    """How many days the longest of these months can have."""
    return max(_LENGTHS[month] + (month == _FEBRUARY) for month in values(months))


@dataclass(frozen=True, slots=True)
class Times:
    """The seconds of a day at which hours, minutes and seconds all match. No set is empty."""

    seconds: int
    minutes: int
    hours: int
    first: int = field(init=False, repr=False, compare=False)
    _minutes_of_day: int = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        minutes_of_day = sum(self.minutes << 60 * hour for hour in values(self.hours))
        object.__setattr__(self, "_minutes_of_day", minutes_of_day)
        object.__setattr__(self, "first", 60 * lowest(minutes_of_day) + lowest(self.seconds))

    def next_time(self, second: int) -> int | None:
        """The first matching second of the day from `second` on."""
        minute, rest = divmod(second, 60)
        minutes = self._minutes_of_day >> minute
        if minutes & 1:
            seconds = self.seconds >> rest
            if seconds:
                return second + lowest(seconds)
            minutes -= 1
        return 60 * (minute + lowest(minutes)) + lowest(self.seconds) if minutes else None


@dataclass(frozen=True, slots=True)
class LastDay:
    """`L`, or `L-3` for three days before it.

    Like every mark: the set of matching days of a month, bit 0 the 1st; empty when it has no such day.
    """

    days_before: int = 0

    def days(self, length: int, first_weekday: int) -> int:  # noqa: ARG002 - the shape of every mark
        return (1 << length) >> (self.days_before + 1)


@dataclass(frozen=True, slots=True)
class NearestWorkday:
    """`15W`, the day from Monday to Friday nearest to the date in the same month; `LW` when there is no
    date."""

    date: int | None = None

    def days(self, length: int, first_weekday: int) -> int:
        day = length if self.date is None else self.date
        if day > length:
            return 0
        weekday = (first_weekday + day - 1) % 7
        if weekday == SATURDAY:
            day += -1 if day > 1 else 2
        elif weekday == SUNDAY:
            day += 1 if day < length else -2
        return 1 << day - 1


@dataclass(frozen=True, slots=True)
class NthWeekday:
    """`MON#2`, the second Monday."""

    weekday: int
    nth: int

    def days(self, length: int, first_weekday: int) -> int:
        day = (self.weekday - first_weekday) % 7 + 7 * (self.nth - 1)
        return 1 << day if day < length else 0


@dataclass(frozen=True, slots=True)
class LastWeekday:
    """`5L`, the last Friday."""

    weekday: int

    def days(self, length: int, first_weekday: int) -> int:
        last_weekday = (first_weekday + length - 1) % 7
        return 1 << length - 1 - (last_weekday - self.weekday) % 7


Mark = LastDay | NearestWorkday | NthWeekday | LastWeekday


@dataclass(frozen=True, slots=True)
class Days:
    """The days that match by month, and by date and weekday: either of the two, or both of them."""

    months: int
    dates: int
    date_marks: tuple[Mark, ...]
    weekdays: int
    weekday_marks: tuple[Mark, ...]
    either: bool
    _every_day: bool = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        every_day = (self.months, self.dates, self.weekdays) == (ALL_MONTHS, ALL_DATES, ALL_WEEKDAYS)
        object.__setattr__(self, "_every_day", every_day)

    def next_day(self, day: int) -> int | None:
        """The first matching day from `day` on, counted from 1970-01-01; None past the last year."""
        if self._every_day:
            return day
        today = date.fromordinal(day + _EPOCH_ORDINAL)
        year, month = today.year, today.month
        if self.months >> month & 1:
            first = day + 1 - today.day
            days = self._days_of(year, month, first) >> today.day - 1
            if days:
                return day + lowest(days)
        for later_year, later_month in self._months_after(year, month):
            first = date(later_year, later_month, 1).toordinal() - _EPOCH_ORDINAL
            days = self._days_of(later_year, later_month, first)
            if days:
                return first + lowest(days)
        return None

    def possible(self) -> bool:
        """Whether any day ever matches: in 400 years every month begins on every weekday, 29 Februaries
        too."""
        return any(
            self._days_in(length, first_weekday)
            for month in values(self.months)
            for length in {_LENGTHS[month], _LENGTHS[month] + (month == _FEBRUARY)}
            for first_weekday in range(7)
        )

    def _months_after(self, year: int, month: int) -> Iterator[tuple[int, int]]:
        while year <= LAST_YEAR:
            later = self.months >> month + 1
            if later:
                month += 1 + lowest(later)
                yield year, month
            else:
                year, month = year + 1, 0

    def _days_of(self, year: int, month: int, first: int) -> int:
        length = _LENGTHS[month] + (month == _FEBRUARY and isleap(year))
        return self._days_in(length, (first + _EPOCH_WEEKDAY) % 7)

    def _days_in(self, length: int, first_weekday: int) -> int:
        by_date = self.dates >> 1
        by_weekday = self.weekdays * _SIX_WEEKS >> first_weekday
        for mark in self.date_marks:
            by_date |= mark.days(length, first_weekday)
        for mark in self.weekday_marks:
            by_weekday |= mark.days(length, first_weekday)
        days = by_date | by_weekday if self.either else by_date & by_weekday
        return days & (1 << length) - 1
