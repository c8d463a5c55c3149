"""What a user should know about a cron expression before trusting it.

Warnings are for surprises, not for rules at work: a job that runs in every hour is not disturbed by a gap, a
nightly one is. Looked for in the coming year: changes of the zone's offset that swallow or repeat a fire.
Looked for at any time: an expression that fires no more, day fields that combine in a way few expect, and
steps that reach beyond their field.
"""

import re
from collections.abc import Iterator
from datetime import datetime, timedelta
from itertools import islice, pairwise
from typing import Final
from zoneinfo import ZoneInfo

from tocsin.domain.cron import EARLIEST, Cron, Dst
from tocsin.domain.cron_sets import ALL_DATES, ALL_HOURS, ALL_WEEKDAYS, Days
from tocsin.domain.cron_syntax import KINDS, split
from tocsin.domain.instant import SECOND, Instant, format_instant
from tocsin.domain.wall_clock import Stretch, stretch_at

_COMING_YEAR: Final = 366 * 86_400
_MOST_READINGS_NAMED: Final = 3
_WALL_EPOCH: Final = datetime(1970, 1, 1)  # noqa: DTZ001 - a reading of a wall clock has no zone


def warnings(cron: Cron, zone: ZoneInfo, dst: Dst, after: Instant) -> list[str]:
    """The surprises of an expression, each as a sentence, the gravest first."""
    if cron.next_fire(after, zone, dst) is None:
        return [f"never fires after {format_instant(after)}"]
    return [*_day_rule(cron.days), *_long_steps(cron.text), *_changes(cron, zone, dst, after)]


def _day_rule(days: Days) -> Iterator[str]:
    if days.either:
        yield "day-of-month and day-of-week are both set: it fires when either of them matches"
    elif days.dates != ALL_DATES and days.weekdays != ALL_WEEKDAYS:
        yield "a day field begins with *: it fires only when day-of-month and day-of-week both match"


def _long_steps(text: str) -> Iterator[str]:
    for kind, written in zip(KINDS, split(text, "cron"), strict=True):
        for step in re.findall(r"\*/([0-9]+)", written):
            if int(step) >= kind.size:
                yield f"{kind.name} */{step} means {kind.low}: the step is longer than the field"


def _changes(cron: Cron, zone: ZoneInfo, dst: Dst, after: Instant) -> Iterator[str]:
    policy = cron.policy(dst)
    in_every_hour = cron.times.hours == ALL_HOURS
    for before, stretch in pairwise(_coming_stretches(zone, max(after // SECOND, EARLIEST))):
        rule = Dst.LITERAL if stretch.corrects and policy is Dst.CRON else policy
        swallowed = _matches(cron, stretch.reached, stretch.wall_start)
        if swallowed and not in_every_hour:
            yield _gap_words(before, stretch, swallowed, zone, rule)
        repeated = _matches(cron, stretch.wall_start, min(stretch.reached, stretch.wall_end))
        if repeated and not (in_every_hour and rule is Dst.LITERAL):
            yield _overlap_words(before, stretch, repeated, zone, rule)


def _coming_stretches(zone: ZoneInfo, second: int) -> Iterator[Stretch]:
    stretch = stretch_at(zone, second)
    while stretch.start < second + _COMING_YEAR:
        yield stretch
        stretch = stretch_at(zone, stretch.end)


def _matches(cron: Cron, wall: int, end: int) -> list[int]:
    """The matching readings from `wall` up to `end`, no more than are needed to name some."""
    return list(islice(_walls(cron, wall, end), _MOST_READINGS_NAMED + 1))


def _walls(cron: Cron, wall: int, end: int) -> Iterator[int]:
    found = cron.next_wall(wall) if wall < end else None
    while found is not None and found < end:
        yield found
        found = cron.next_wall(found + 1)


def _gap_words(before: Stretch, stretch: Stretch, swallowed: list[int], zone: ZoneInfo, policy: Dst) -> str:
    day, instead = _reading(before.wall_end), _reading(stretch.wall_start)
    remedy = (
        f"it fires once at {_clock(instead, day)} instead" if policy is Dst.CRON else "it does not fire then"
    )
    return (
        f"{day:%Y-%m-%d}: clocks in {zone} go forward from {_clock(day, day)} to {_clock(instead, day)}, "
        f"so there is no {_named(swallowed, day)}; {remedy}"
    )


def _overlap_words(
    before: Stretch, stretch: Stretch, repeated: list[int], zone: ZoneInfo, policy: Dst
) -> str:
    day, again = _reading(before.wall_end), _reading(stretch.wall_start)
    remedy = "it fires both times" if policy is Dst.LITERAL else "it fires the first time only"
    return (
        f"{day:%Y-%m-%d}: clocks in {zone} go back from {_clock(day, day)} to {_clock(again, day)}, "
        f"so {_named(repeated, day)} {'comes' if len(repeated) == 1 else 'come'} twice; {remedy}"
    )


def _named(walls: list[int], day: datetime) -> str:
    named = [_clock(_reading(wall), day) for wall in walls[:_MOST_READINGS_NAMED]]
    return ", ".join(named) + (" and more" if len(walls) > _MOST_READINGS_NAMED else "")


def _clock(reading: datetime, day: datetime) -> str:
    """The time of a reading; its date too when that is another day than the one being talked about."""
    time = f"{reading:%H:%M:%S}" if reading.second else f"{reading:%H:%M}"
    return time if reading.date() == day.date() else f"{reading:%Y-%m-%d} {time}"


def _reading(wall: int) -> datetime:
    return _WALL_EPOCH + timedelta(seconds=wall)
