"""What a test may say about times: instants, times of the day, and changes of the clocks."""

from datetime import UTC, datetime

import pytest

from tocsin.domain.errors import Refused
from tocsin.domain.instant import format_instant, parse_instant
from tocsin.testing.faults import Faults, instant_of, next_clock_change

NOW = parse_instant("2030-06-30T23:59:20Z", "now")


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("2030-07-02T00:00:00+02:00", "2030-07-01T22:00:00Z"),
        ("02:40", "2030-07-01T02:40:00Z"),
        ("23:59", "2030-07-01T23:59:00Z"),
        (datetime(2030, 7, 1, tzinfo=UTC), "2030-07-01T00:00:00Z"),
    ],
)
def test_an_instant_is_written_as_people_write_it(written: str | datetime, meant: str) -> None:
    assert instant_of(written, NOW, "at") == parse_instant(meant, "meant")


@pytest.mark.parametrize("written", ["25:00", "soon", datetime(2030, 7, 1)])
def test_what_is_no_instant_is_refused(written: str | datetime) -> None:
    with pytest.raises(Refused):
        instant_of(written, NOW, "at")


@pytest.mark.parametrize(
    ("zone", "change"),
    [
        ("Europe/Berlin", "2030-10-27T01:00:00Z"),
        ("America/New_York", "2030-11-03T06:00:00Z"),
        ("Australia/Lord_Howe", "2030-10-05T15:30:00Z"),
    ],
)
def test_the_next_change_of_the_clocks_is_found_to_the_second(zone: str, change: str) -> None:
    assert format_instant(next_clock_change(zone, NOW)) == change


def test_a_zone_without_changes_is_refused() -> None:
    with pytest.raises(Refused, match="do not change"):
        next_clock_change("Asia/Tokyo", NOW)


def test_an_outage_ends_after_it_begins() -> None:
    with pytest.raises(Refused, match="ends after"):
        Faults().outage(NOW, NOW)
