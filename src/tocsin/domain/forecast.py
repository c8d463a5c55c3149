"""How many fires each coming minute has: pure sums over groups of jobs with equal schedules.

Jobs with one schedule fire together, so a group is computed once. Where each job differs, by its jitter or by
how often it may still fire, a small group is computed job by job, and a large one as a whole: jitter then
spreads it evenly over its window. Excluded dates and calendars are honoured. Work comes in slices of about a
millisecond, so that the event loop can attend to other things in between.
"""

from collections.abc import Iterator, Sequence
from statistics import median
from typing import Final
from uuid import UUID

import msgspec

from tocsin.domain.blackout import Range
from tocsin.domain.instant import MINUTE, Instant, Span, parse_span
from tocsin.domain.planning import Terms, plan, terms_of
from tocsin.domain.policy import Policies
from tocsin.domain.schedule import Every, Rule, Schedule, rule_of

MOST_MEMBERS: Final = 100
"""Jobs of a group up to which each is computed by itself."""
_MOST_APART: Final = 20_000
"""Fires of a group up to which that is done."""
_SLICE: Final = 100
"""Fire times that are computed at a time; they take about a millisecond."""
_DENSE_SLICE: Final = 500
"""Minutes, of a schedule that fires several times in each."""
_PEAK: Final = 3
"""Times as many fires as a usual minute has, that make a peak."""
_LEAST_PEAK: Final = 10
_MOST_PEAKS: Final = 10
_MOST_FREE: Final = 20
_PLAIN: Final = Policies()
Minutes = dict[int, float]
"""Fires by minute, counted from the epoch."""


class Member(msgspec.Struct, frozen=True):
    """A job of a group: how often it has fired, and the first fire time that is not planned yet."""

    id: UUID
    fire_count: int
    cursor: Instant


class Group(msgspec.Struct, frozen=True):
    """Jobs of one schedule and queue; `job_id` and `name` are of one of them."""

    schedule: Schedule
    queue: str
    number: int
    job_id: UUID
    name: str | None
    members: tuple[Member, ...] = ()
    """All of them, if each has to be computed by itself."""


class Load(msgspec.Struct, frozen=True):
    """Fires by minute from `since` on."""

    since: Instant
    minutes: list[float]

    def minute_of(self, at: Instant) -> int | None:
        """The place of an instant's minute, if the forecast has it."""
        place = (at - self.since) // MINUTE
        return place if 0 <= place < len(self.minutes) else None


def foresee(group: Group, calendars: Sequence[Range], since: Instant, until: Instant) -> Iterator[Minutes]:
    """The fires of a group that are due from `since` to before `until`, slice by slice."""
    rule, span = rule_of(group.schedule), (since, until)
    if group.members:
        each = [_of_member(rule, group.schedule, member, calendars, span) for member in group.members]
        first = list(each[0])
        if sum(map(len, first)) * len(each) <= _MOST_APART:
            yield from first
            for one in each[1:]:
                yield from one
            return
    yield from _of_all(rule, group, calendars, span)


def _of_member(
    rule: Rule, schedule: Schedule, member: Member, calendars: Sequence[Range], span: Range
) -> Iterator[Minutes]:
    terms = terms_of(schedule, _PLAIN, member.id, member.fire_count, calendars)
    # What is left of `max_fires` is left from the cursor on.
    first = rule.next_fire(span[0] - terms.offset - 1) if schedule.max_fires is None else member.cursor
    return _planned(rule, first, terms, span, 1)


def _of_all(rule: Rule, group: Group, calendars: Sequence[Range], span: Range) -> Iterator[Minutes]:
    """As if they fired together; jitter spreads them."""
    alike = msgspec.structs.replace(group.schedule, jitter=None, max_fires=None)
    terms = terms_of(alike, _PLAIN, group.job_id, 0, calendars)
    window = parse_span(group.schedule.jitter, "schedule.jitter") if group.schedule.jitter else 0
    if isinstance(rule, Every) and rule.interval < MINUTE:
        yield from _dense(rule, terms, span, group.number)
    else:
        yield from _planned(rule, rule.next_fire(span[0] - window - 1), terms, span, group.number, window)


def _planned(
    rule: Rule, first: Instant | None, terms: Terms, span: Range, number: int, window: Span = 0
) -> Iterator[Minutes]:
    """As the planner will decide about them."""
    while first is not None and first < span[1]:
        done = plan(rule, first, terms, now=first, until=span[1] - 1, limit=_SLICE)
        found: Minutes = {}
        for fire in done.fires:
            for minute, share in _spread(fire.due_at, window):
                if span[0] // MINUTE <= minute < span[1] // MINUTE:
                    found[minute] = found.get(minute, 0.0) + share * number
        yield found
        first, terms = done.cursor, terms.after(done)


def _dense(rule: Every, terms: Terms, span: Range, number: int) -> Iterator[Minutes]:
    """By arithmetic; only minutes in which an exclusion begins or ends are looked at fire by fire."""
    found: Minutes = {}
    for minute in range(span[0] // MINUTE, span[1] // MINUTE):
        fires = _in_minute(rule, terms, minute * MINUTE)
        if fires:
            found[minute] = float(fires * number)
        if minute % _DENSE_SLICE == 0:
            yield found
            found = {}
    yield found


def _in_minute(rule: Every, terms: Terms, begin: Instant) -> int:
    end, excluded = begin + MINUTE, terms.blackouts.end_of
    first = rule.next_fire(begin - 1)
    held = terms.blackouts.hold and _released(terms, begin)
    if first is None or first >= end:
        return int(held)
    if not terms.blackouts or (excluded(begin) is None and excluded(end - 1) is None):
        return rule.count(first, end) + held
    return sum(excluded(at) is None for at in range(first, end, rule.interval)) + held


def _released(terms: Terms, begin: Instant) -> bool:
    """Whether a blackout ends in the minute from `begin` on: then the last fire that it held runs."""
    ends = (terms.blackouts.end_of(begin - 1), terms.blackouts.end_of(begin))
    return any(end is not None and begin <= end < begin + MINUTE for end in ends)


def _spread(due_at: Instant, window: Span) -> Iterator[tuple[int, float]]:
    """The minutes that a fire of a group falls into, each with its share."""
    first, last = due_at // MINUTE, (due_at + max(0, window - 1)) // MINUTE
    for minute in range(first, last + 1):
        yield minute, 1 / (last - first + 1)


def peaks(load: Load) -> list[int]:
    """The minutes with far more fires than usual, the highest first."""
    usual = median(load.minutes) if load.minutes else 0.0
    high = [p for p, n in enumerate(load.minutes) if n >= max(_LEAST_PEAK, _PEAK * usual)]
    return sorted(high, key=lambda place: (-load.minutes[place], place))[:_MOST_PEAKS]


def free(load: Load, begin: int = 0, end: int | None = None) -> list[int]:
    """The minutes with the fewest fires, in order of time."""
    places = range(begin, len(load.minutes) if end is None else min(end, len(load.minutes)))
    return sorted(sorted(places, key=lambda place: (load.minutes[place], place))[:_MOST_FREE])


def makers(groups: Sequence[Group], at: Instant, most: int = 5) -> list[tuple[Group, float]]:
    """Which groups make the fires of the minute from `at` on, the largest first. Exclusions are not looked up
    for this."""
    found = []
    for group in groups:
        fires = sum(sum(part.values()) for part in foresee(_without_exclusions(group), (), at, at + MINUTE))
        if fires:
            found.append((group, fires))
    return sorted(found, key=lambda pair: -pair[1])[:most]


def _without_exclusions(group: Group) -> Group:
    schedule = msgspec.structs.replace(group.schedule, exclude=None)
    return msgspec.structs.replace(group, schedule=schedule)
