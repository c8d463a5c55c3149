"""Backfills: fire times of a past range, run now. Which ones, in which order, and how many at a time."""

from enum import StrEnum
from itertools import takewhile
from typing import Final

import msgspec

from tocsin.domain.blackout import NO_BLACKOUTS, Blackouts
from tocsin.domain.errors import Refused
from tocsin.domain.instant import Instant, Span
from tocsin.domain.schedule import Schedule, fire_times, rule_of

MAX_FIRES: Final = 100_000
_BATCH: Final = 500


class Mode(StrEnum):
    """Whether fire times that have run already run again."""

    ALL = "all"
    MISSING = "missing"


class Order(StrEnum):
    """Which end of the range comes first."""

    OLDEST_FIRST = "oldest_first"
    NEWEST_FIRST = "newest_first"


class Step(msgspec.Struct, frozen=True):
    """What to queue now, and how long to wait before the next step."""

    take: int
    wait: Span


def fires_of(
    schedule: Schedule, start: Instant, end: Instant, order: Order, blackouts: Blackouts = NO_BLACKOUTS
) -> list[Instant]:
    """The fire times in [start, end) outside of blackouts, in the order they are run."""
    rule = rule_of(schedule)
    first = rule.next_fire(start - 1)
    if first is None:
        return []
    fires: list[Instant] = []
    for fire in takewhile(lambda time: time < end, fire_times(rule, first)):
        if blackouts.end_of(fire) is not None:
            continue
        if len(fires) == MAX_FIRES:
            raise Refused(
                f"the range has more than {MAX_FIRES:,} fire times",
                field="from",
                hint="split it into several backfills",
            )
        fires.append(fire)
    return fires if order is Order.OLDEST_FIRST else fires[::-1]


def next_step(*, left: int, live: int, max_parallel: int, pace: Span, idle: Span) -> Step:
    """How many fire times to queue, so that no more than `max_parallel` are live and the pace is kept."""
    take = max(0, min(left, max_parallel - live, _BATCH))
    if pace:
        take = min(take, 1)
        return Step(take, pace if take else idle)
    return Step(take, 0 if take == _BATCH else idle)
