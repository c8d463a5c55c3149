"""Blackouts: whole local days, ranges that touch, and what lies on their edges."""

from zoneinfo import ZoneInfo

import pytest

from tocsin.domain.blackout import Blackouts, CalendarRange, ExcludePolicy, ranges_of_dates, read_ranges
from tocsin.domain.errors import Refused
from tocsin.domain.instant import DAY, HOUR, parse_instant


def test_a_range_includes_its_start_and_excludes_its_end() -> None:
    blackouts = Blackouts([(10, 20)])
    assert [blackouts.end_of(time) for time in (9, 10, 19, 20)] == [None, 20, 20, None]


@pytest.mark.parametrize(
    ("ranges", "end"),
    [
        ([(10, 20), (20, 30)], 30),
        ([(10, 20), (15, 30)], 30),
        ([(10, 30), (12, 15)], 30),
        ([(20, 30), (10, 20)], 30),
        ([(10, 20), (21, 30)], 20),
    ],
)
def test_ranges_that_touch_or_overlap_are_one(ranges: list[tuple[int, int]], end: int) -> None:
    assert Blackouts(ranges).end_of(12) == end


def test_between_ranges_there_is_no_blackout_however_many_there_are() -> None:
    blackouts = Blackouts((start, start + 5) for start in range(0, 10_000, 10))
    assert all((blackouts.end_of(time) is not None) == (time % 10 < 5) for time in range(10_000))


def test_no_ranges_are_no_blackout() -> None:
    assert not Blackouts()
    assert Blackouts().end_of(0) is None
    assert Blackouts().over_at is None
    assert Blackouts([(1, 5), (7, 9)]).over_at == 9


def test_policies_are_drop_unless_told_otherwise() -> None:
    assert Blackouts([(1, 2)]).hold is False
    assert Blackouts([(1, 2)], ExcludePolicy.HOLD).hold is True


@pytest.mark.parametrize(
    ("day", "zone", "start", "hours"),
    [
        ("2031-03-30", "Europe/Berlin", "2031-03-29T23:00:00Z", 23),
        ("2031-10-26", "Europe/Berlin", "2031-10-25T22:00:00Z", 25),
        ("2031-07-01", "Europe/Berlin", "2031-06-30T22:00:00Z", 24),
        ("2031-07-01", "UTC", "2031-07-01T00:00:00Z", 24),
        ("2032-02-29", "Asia/Kolkata", "2032-02-28T18:30:00Z", 24),
        # Midnight itself does not exist on this day: it begins at one o'clock.
        ("2018-11-04", "America/Sao_Paulo", "2018-11-04T03:00:00Z", 23),
        # The whole day was left out when the islands changed sides of the date line.
        ("2011-12-30", "Pacific/Apia", "2011-12-30T10:00:00Z", 0),
    ],
)
def test_a_date_is_a_whole_local_day_however_long_that_is(
    day: str, zone: str, start: str, hours: int
) -> None:
    ((begin, end),) = ranges_of_dates([day], ZoneInfo(zone))
    assert end - begin == hours * HOUR
    if hours:
        assert begin == parse_instant(start, "")


@pytest.mark.parametrize(
    "text", ["", "2031-02-29", "31.12.2031", "2031-12-31T00:00:00Z", "9999-12-31", "tomorrow"]
)
def test_what_is_no_date_is_refused_with_its_place(text: str) -> None:
    with pytest.raises(Refused) as refusal:
        ranges_of_dates(["2031-01-01", text], ZoneInfo("UTC"))
    assert refusal.value.field == "schedule.exclude.dates[1]"


def test_ranges_of_a_calendar_are_checked_one_by_one() -> None:
    good = CalendarRange("2031-01-01T00:00:00Z", "2031-01-02T00:00:00+01:00")
    ((start, end),) = read_ranges([good])
    assert end - start == DAY - HOUR
    for bad, field in (
        (CalendarRange("2031-01-02T00:00:00Z", "2031-01-02T00:00:00Z"), "ranges[1].to"),
        (CalendarRange("2031-01-02", "2031-01-03T00:00:00Z"), "ranges[1].from"),
        (CalendarRange("2031-01-02T00:00:00Z", "soon"), "ranges[1].to"),
    ):
        with pytest.raises(Refused) as refusal:
            read_ranges([good, bad])
        assert refusal.value.field == field


def test_a_calendar_has_a_bounded_number_of_ranges() -> None:
    with pytest.raises(Refused, match="at most 1000"):
        read_ranges([CalendarRange("2031-01-01T00:00:00Z", "2031-01-02T00:00:00Z")] * 1001)
