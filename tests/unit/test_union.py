"""A list of schedules is one job with several rules: every fire time of any of them, once."""

from itertools import islice

import pytest

from tocsin.domain.errors import Refused
from tocsin.domain.instant import HOUR, MINUTE, Instant, parse_instant
from tocsin.domain.schedule import Schedule, Written, fire_times, read_schedule, rule_of

NOON = parse_instant("2031-05-05T12:00:00Z", "")


def fires(written: Written, count: int, after: Instant = NOON) -> list[Instant]:
    rule = rule_of(read_schedule(written, NOON))
    first = rule.next_fire(after)
    return [] if first is None else list(islice(fire_times(rule, first), count))


def test_fire_times_of_all_parts_come_in_order_and_shared_ones_once() -> None:
    found = fires(["*/20 * * * *", "*/30 * * * *"], 8)
    assert [(time - NOON) // MINUTE for time in found] == [20, 30, 40, 60, 80, 90, 100, 120]


def test_parts_keep_their_own_zones_windows_and_dst() -> None:
    parts: list[Schedule | str] = [
        Schedule(cron="30 2 * * *", time_zone="Europe/Berlin"),
        Schedule(cron="0 12 * * *", time_zone="America/New_York", ends_at="2031-05-06T23:00:00Z"),
    ]
    found = fires(parts, 4)
    expected = [
        "2031-05-05T16:00:00Z",
        "2031-05-06T00:30:00Z",
        "2031-05-06T16:00:00Z",
        "2031-05-07T00:30:00Z",
    ]
    assert found == [parse_instant(text, "") for text in expected]


def test_a_zone_beside_a_union_is_that_of_its_parts_that_name_none() -> None:
    union = Schedule(
        any_of=(
            Schedule(cron="0 9 * * *"),
            Schedule(cron="0 9 * * *", time_zone="UTC"),
            Schedule(every="1d"),
        ),
        time_zone="Asia/Tokyo",
    )
    read = read_schedule(union, NOON)
    assert (read.time_zone, [part.time_zone for part in read.any_of or ()]) == (
        None,
        ["Asia/Tokyo", "UTC", None],
    )
    assert read_schedule(read, NOON) == read
    with pytest.raises(Refused, match="only applies to cron"):
        read_schedule(Schedule(any_of=(Schedule(every="1d"),), time_zone="Asia/Tokyo"), NOON)


def test_a_union_ends_when_its_last_part_does() -> None:
    parts: list[Schedule | str] = [
        Schedule(every="1h", ends_at="2031-05-05T14:00:00Z"),
        Schedule(every="30m", ends_at="2031-05-05T13:00:00Z"),
    ]
    assert [(time - NOON) // MINUTE for time in fires(parts, 10)] == [30, 60, 120]


def test_a_window_around_the_union_holds_for_all_parts() -> None:
    written = Schedule(any_of=(Schedule(every="1h"), Schedule(every="90m")), starts_at="2031-05-05T15:00:00Z")
    assert fires(written, 2) == [NOON + 3 * HOUR, NOON + 4 * HOUR]


def test_one_off_instants_may_be_part_of_a_union() -> None:
    found = fires(["2031-05-05T12:45:00Z", "0 * * * *"], 3)
    assert [(time - NOON) // MINUTE for time in found] == [45, 60, 120]


def test_next_is_later_than_its_base_for_every_base() -> None:
    rule = rule_of(read_schedule(["*/7 * * * *", "*/5 * * * *", "0 0 29 2 *"], NOON))
    for base in range(NOON, NOON + 2 * HOUR, 41_000_000):
        after = rule.next_fire(base)
        assert after is not None
        assert after > base
        assert rule.next_fire(after - 1) == after


@pytest.mark.parametrize(
    ("written", "field"),
    [
        ([], "schedule"),
        (["* * * * *"] * 17, "schedule"),
        ([Schedule(any_of=(Schedule(every="1h"),))], "schedule.any_of"),
        ([Schedule(every="1h", max_fires=3)], "schedule.any_of.max_fires"),
        ([Schedule(every="1h", jitter="5m")], "schedule.any_of.jitter"),
        (["61 * * * *"], "schedule.cron"),
        ([Schedule(every="1h", ends_at="2031-05-05T11:00:00Z")], "schedule"),
        (Schedule(any_of=(Schedule(every="1h"),), every="2h"), "schedule"),
    ],
)
def test_a_bad_list_is_refused_by_the_name_of_its_fault(written: Written, field: str) -> None:
    with pytest.raises(Refused) as refusal:
        read_schedule(written, NOON)
    assert refusal.value.field == field
