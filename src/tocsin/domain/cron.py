"""When a cron expression fires, in any time zone, on its worst day.

The idea: a wall clock without a zone is plain arithmetic (`cron_sets`), and a zone is a row of stretches in
which the wall clock runs evenly (`wall_clock`). So the next fire is the next matching reading of the wall
clock, minus the offset, as long as the stretch lasts that long. Only at a border between two stretches is
there anything to decide, and what to decide is the `dst` policy:

============== ============================================== ========================================
policy         a gap swallows matching readings               an overlap shows matching readings twice
============== ============================================== ========================================
``cron``       fixed times: one fire when the gap ends        fixed times: the first pass only
               others: as ``literal``                         others: as ``literal``
``literal``    nothing fires                                  both passes fire
``once``       nothing fires                                  the first pass only
============== ============================================== ========================================

A change of three hours or more is a correction, not summer time: under ``cron`` it is as ``literal``, so a
day that a zone left out (Apia, 30 December 2011) is not made up for. This is what Debian's cron(8) does.

A *fixed time* is one whose minute and hour fields both do not begin with ``*``. The seconds field plays no
part: ``*/10 30 2 * * *`` is pinned to half past two, whichever of its seconds come. A fire at the end of a
gap and a regular fire at that same instant are one. Day-of-month and day-of-week must both match when either
begins with ``*``, else one is enough.

Invariants: `next_fire` is strictly later than its base, for every base; fire times are whole seconds; the
answer depends on nothing but the arguments. An expression that can never fire does not become a `Cron`.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, Self
from zoneinfo import ZoneInfo

from tocsin.domain.cron_sets import LAST_YEAR, Days, Times
from tocsin.domain.cron_syntax import read_fields, refuse_impossible
from tocsin.domain.instant import SECOND, Instant
from tocsin.domain.wall_clock import Stretch, stretch_at

_DAY: Final = 86_400
_YEAR: Final = 31_556_952  # the mean Gregorian year: 400 of them are exactly one cycle of the calendar
EARLIEST: Final = -1967 * _YEAR  # the year 3: the zone's years around it can still be asked for
_LATEST: Final = (LAST_YEAR - 1969) * _YEAR
# Zone files list their changes up to 2037 and give a yearly rule after that; a few list them up to 2100.
_RULES_SETTLED: Final = 131 * _YEAR


class Dst(StrEnum):
    """What happens to fire times that a change of the zone's offset swallows or repeats."""

    CRON = "cron"
    LITERAL = "literal"
    ONCE = "once"


@dataclass(frozen=True, slots=True)
class Cron:
    """A cron expression: the text as written, and what it means."""

    text: str
    times: Times
    days: Days
    fixed_time: bool

    @classmethod
    def parse(cls, text: str, field: str = "cron") -> Self:
        """Read an expression, or refuse it with words about the part that is wrong. `field` names the
        input."""
        second, minute, hour, date, month, weekday = read_fields(text, field)
        days = Days(
            months=month.bits,
            dates=date.bits,
            date_marks=date.marks,
            weekdays=weekday.bits,
            weekday_marks=weekday.marks,
            either=not (date.starred or weekday.starred),
        )
        if not days.possible():
            refuse_impossible(text, days, field)
        times = Times(second.bits, minute.bits, hour.bits)
        return cls(text, times, days, fixed_time=not (minute.starred or hour.starred))

    def next_fire(self, after: Instant, zone: ZoneInfo, dst: Dst = Dst.CRON) -> Instant | None:
        """The first fire strictly after `after`; None when there is none up to the year 9990."""
        second = max(after // SECOND, EARLIEST)
        if second >= _LATEST:
            return None
        stretch = stretch_at(zone, second)
        reading = second + 1 + stretch.offset
        if stretch.reached > reading:
            reading = max(reading, _first_reading(stretch, self.policy(dst)))
        wall = self.next_wall(reading)
        if wall is not None and wall - stretch.offset < stretch.end:
            return (wall - stretch.offset) * SECOND
        return self._fire_beyond(stretch, wall, zone, self.policy(dst))

    def fires_between(
        self, after: Instant, until: Instant, zone: ZoneInfo, dst: Dst = Dst.CRON
    ) -> Iterator[Instant]:
        """The fires after `after`, up to and including `until`."""
        fire = self.next_fire(after, zone, dst)
        while fire is not None and fire <= until:
            yield fire
            fire = self.next_fire(fire, zone, dst)

    def policy(self, dst: Dst) -> Dst:
        """The policy that `dst` comes to: under `cron` only fixed times are moved, others follow elapsed
        time."""
        return Dst.LITERAL if dst is Dst.CRON and not self.fixed_time else dst

    def next_wall(self, wall: int) -> int | None:
        """The first matching reading from `wall` on, in seconds of a clock that never changes."""
        day, second = divmod(wall, _DAY)
        time = self.times.next_time(second)
        if time is None:
            day, time = day + 1, self.times.first
        matching = self.days.next_day(day)
        if matching is None:
            return None
        return matching * _DAY + (time if matching == day else self.times.first)

    def _fire_beyond(self, stretch: Stretch, wall: int | None, zone: ZoneInfo, policy: Dst) -> Instant | None:
        """Walk to the stretch in which the next fire lies. `wall` is the first match beyond this one's end.

        A match can be lost in a gap every single time (02:30 on the day the clocks change, under `literal`).
        Calendar and zone rules repeat after 400 years, so what did not fire by then never will.
        """
        horizon = max(stretch.end, _RULES_SETTLED) + 400 * _YEAR
        while wall is not None and wall >= stretch.wall_end and stretch.end < horizon:
            searched_to = stretch.wall_end
            stretch = stretch_at(zone, stretch.end)
            reading = _first_reading(stretch, policy)
            if not searched_to <= reading <= wall:
                wall = self.next_wall(reading)
            if wall is not None and wall < stretch.wall_start:
                return stretch.start * SECOND
        if wall is None or wall >= stretch.wall_end:
            return None
        return (wall - stretch.offset) * SECOND


def _first_reading(stretch: Stretch, policy: Dst) -> int:
    """The reading from which matches count as the stretch begins; before `wall_start` lies what a gap
    swallowed."""
    match policy:
        case Dst.CRON:
            return stretch.wall_start if stretch.corrects else stretch.reached
        case Dst.ONCE:
            return max(stretch.reached, stretch.wall_start)
        case Dst.LITERAL:
            return stretch.wall_start
