"""Stretches of constant offset tile the time line and tell what a change did to the wall clock."""

from datetime import UTC, datetime, timedelta, tzinfo
from typing import cast
from zoneinfo import ZoneInfo

import pytest

from tocsin.domain.wall_clock import Stretch, stretch_at

ZONES = (
    *("UTC", "Europe/Berlin", "Africa/Casablanca", "Asia/Gaza", "America/Recife", "Pacific/Apia"),
    *("Antarctica/Casey", "Asia/Pyongyang", "America/Caracas", "Australia/Lord_Howe"),
)


def second(text: str) -> int:
    return int(datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp())


def stretches(zone: str, begin: str, end: str) -> list[Stretch]:
    found = [stretch_at(ZoneInfo(zone), second(begin))]
    while found[-1].end < second(end):
        found.append(stretch_at(ZoneInfo(zone), found[-1].end))
    return found


@pytest.mark.parametrize("zone", ZONES)
def test_stretches_tile_the_time_line(zone: str) -> None:
    found = stretches(zone, "1995-01-01", "2045-01-01")
    assert all(stretch.start < stretch.end for stretch in found)
    assert [stretch.end for stretch in found[:-1]] == [stretch.start for stretch in found[1:]]


@pytest.mark.parametrize("zone", ZONES)
def test_every_offset_is_the_one_that_zoneinfo_gives(zone: str) -> None:
    instant, end = datetime(2000, 1, 1, tzinfo=UTC), datetime(2020, 1, 1, tzinfo=UTC)
    while instant < end:
        expected = instant.astimezone(ZoneInfo(zone)).utcoffset()
        assert stretch_at(ZoneInfo(zone), int(instant.timestamp())).offset == expected.total_seconds()
        instant += timedelta(hours=7)


@pytest.mark.parametrize("zone", ZONES)
def test_a_border_lies_on_the_very_second(zone: str) -> None:
    for stretch in stretches(zone, "2000-01-01", "2030-01-01"):
        for moment in (stretch.start, stretch.end - 1):
            offset = datetime.fromtimestamp(moment, ZoneInfo(zone)).utcoffset()
            assert stretch.offset == offset.total_seconds()


def test_a_gap_is_told_by_a_clock_that_had_not_reached_the_first_reading() -> None:
    summer = stretch_at(ZoneInfo("Europe/Berlin"), second("2026-03-29T01:00"))
    assert (summer.start, summer.offset) == (second("2026-03-29T01:00"), 7200)
    assert (summer.reached, summer.wall_start) == (second("2026-03-29T02:00"), second("2026-03-29T03:00"))


def test_an_overlap_is_told_by_a_clock_that_had_been_further() -> None:
    winter = stretch_at(ZoneInfo("Europe/Berlin"), second("2026-10-25T01:00"))
    assert (winter.start, winter.offset) == (second("2026-10-25T01:00"), 3600)
    assert (winter.reached, winter.wall_start) == (second("2026-10-25T03:00"), second("2026-10-25T02:00"))


def test_a_border_between_blocks_disturbs_nothing() -> None:
    clock = stretches("Asia/Tokyo", "2000-01-01", "2030-01-01")
    assert len(clock) > 20
    assert all(stretch.reached == stretch.wall_start for stretch in clock)


@pytest.mark.parametrize("lag", [0, 1, 600, 3599, 4000])
def test_an_overlap_that_runs_across_a_border_between_blocks_is_remembered(lag: int) -> None:
    border = 53 << 25
    stretch = stretch_at(cast("ZoneInfo", GoesBackAnHour(at=border - lag)), border)
    assert (stretch.start, stretch.offset) == (border, 0)
    assert stretch.reached == border + max(3600 - lag, 0)


class GoesBackAnHour(tzinfo):
    """A zone that is an hour ahead of UTC until an instant and keeps UTC from then on."""

    def __init__(self, at: int) -> None:
        self._at = datetime.fromtimestamp(at, UTC).replace(tzinfo=self)

    def fromutc(self, moment: datetime) -> datetime:
        return moment if moment >= self._at else moment + timedelta(hours=1)
