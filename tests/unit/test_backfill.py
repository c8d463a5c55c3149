"""Which fire times a backfill runs, in which order, and how many at a time."""

import pytest

from tocsin.domain.backfill import MAX_FIRES, Order, Step, fires_of, next_step
from tocsin.domain.blackout import Blackouts
from tocsin.domain.errors import Refused
from tocsin.domain.instant import DAY, HOUR, MINUTE, SECOND, parse_instant
from tocsin.domain.schedule import Schedule

NOON = parse_instant("2031-05-05T12:00:00Z", "")


def test_a_range_includes_its_start_and_excludes_its_end_in_both_orders() -> None:
    oldest = fires_of(Schedule(every="1h"), NOON, NOON + 3 * HOUR, Order.OLDEST_FIRST)
    assert oldest == [NOON, NOON + HOUR, NOON + 2 * HOUR]
    assert fires_of(Schedule(every="1h"), NOON, NOON + 3 * HOUR, Order.NEWEST_FIRST) == oldest[::-1]


def test_a_range_over_a_change_of_clocks_has_the_fire_times_that_the_schedule_named_then() -> None:
    start = parse_instant("2031-10-25T22:00:00Z", "")
    hourly = Schedule(cron="0 * * * *", time_zone="Europe/Berlin")
    assert len(fires_of(hourly, start, start + 25 * HOUR, Order.OLDEST_FIRST)) == 25
    fixed = Schedule(cron="30 2 * * *", time_zone="Europe/Berlin")
    assert len(fires_of(fixed, start, start + 25 * HOUR, Order.OLDEST_FIRST)) == 1


def test_outside_of_the_schedules_own_window_and_in_blackouts_there_is_nothing_to_fill() -> None:
    written = Schedule(every="1h", starts_at="2031-05-05T13:00:00Z", ends_at="2031-05-05T15:00:00Z")
    assert len(fires_of(written, NOON - DAY, NOON + DAY, Order.OLDEST_FIRST)) == 3
    blackouts = Blackouts([(NOON + 90 * MINUTE, NOON + 150 * MINUTE)])
    found = fires_of(written, NOON - DAY, NOON + DAY, Order.OLDEST_FIRST, blackouts)
    assert found == [NOON + HOUR, NOON + 3 * HOUR]
    assert fires_of(written, NOON + DAY, NOON + 2 * DAY, Order.OLDEST_FIRST) == []


def test_too_many_fire_times_are_refused_with_a_way_out() -> None:
    fires_of(Schedule(every="1s"), NOON, NOON + MAX_FIRES * SECOND, Order.OLDEST_FIRST)
    with pytest.raises(Refused) as refusal:
        fires_of(Schedule(every="1s"), NOON, NOON + (MAX_FIRES + 1) * SECOND, Order.OLDEST_FIRST)
    assert refusal.value.field == "from"
    assert refusal.value.hint


@pytest.mark.parametrize(
    ("left", "live", "most", "pace", "step"),
    [
        (100, 0, 10, 0, Step(10, SECOND)),
        (100, 7, 10, 0, Step(3, SECOND)),
        (100, 10, 10, 0, Step(0, SECOND)),
        (100, 12, 10, 0, Step(0, SECOND)),
        (2, 0, 10, 0, Step(2, SECOND)),
        (0, 3, 10, 0, Step(0, SECOND)),
        (10_000, 0, 10_000, 0, Step(500, 0)),
        (100, 0, 10, 5 * MINUTE, Step(1, 5 * MINUTE)),
        (100, 10, 10, 5 * MINUTE, Step(0, SECOND)),
        (0, 0, 10, 5 * MINUTE, Step(0, SECOND)),
    ],
)
def test_a_step_never_goes_over_max_parallel_and_keeps_the_pace(
    left: int, live: int, most: int, pace: int, step: Step
) -> None:
    assert next_step(left=left, live=live, max_parallel=most, pace=pace, idle=SECOND) == step
