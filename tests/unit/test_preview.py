"""A preview says what will fire, in words and instants, and warns where clocks bite."""

from uuid import UUID

import pytest

from tocsin.domain.blackout import Exclude, ExcludePolicy
from tocsin.domain.instant import HOUR, MINUTE, Instant, parse_instant
from tocsin.domain.planning import terms_of
from tocsin.domain.policy import Policies
from tocsin.domain.preview import Preview, explanation, preview
from tocsin.domain.schedule import Schedule

NOON = parse_instant("2031-05-05T12:00:00Z", "")


def look(written: Schedule, limit: int = 5, after: Instant = NOON, fired: int = 0, **more: object) -> Preview:
    return preview(written, after, limit, terms_of(written, Policies(), UUID(int=1 << 60), fired), **more)  # type: ignore[arg-type]


def ats(found: Preview) -> list[str]:
    return [fire.at for fire in found.fires]


def test_instants_come_with_the_local_time_of_the_schedules_zone() -> None:
    found = look(Schedule(cron="0 9 * * *", time_zone="Asia/Kolkata"), 1)
    (fire,) = found.fires
    assert (fire.at, fire.local) == ("2031-05-06T03:30:00Z", "2031-05-06T09:00:00+05:30")


def test_blackouts_and_held_fires_are_shown_as_they_will_run() -> None:
    dropped = Schedule(every="1h", exclude=Exclude(dates=("2031-05-05",)))
    assert ats(look(dropped, 2)) == ["2031-05-06T00:00:00Z", "2031-05-06T01:00:00Z"]
    held = Schedule(every="50m", exclude=Exclude(dates=("2031-05-05",), policy=ExcludePolicy.HOLD))
    assert ats(look(held, 2))[0] == "2031-05-06T00:00:00Z", (
        "the last one of the day runs when the day is over"
    )


def test_max_fires_and_what_has_fired_end_the_list() -> None:
    written = Schedule(every="1h", max_fires=5)
    assert len(look(written, 10).fires) == 5
    assert len(look(written, 10, fired=3).fires) == 2
    over = look(written, 10, fired=5)
    assert over.fires == []
    assert any("does not fire again" in warning for warning in over.warnings)


def test_what_is_planned_already_comes_first() -> None:
    written = Schedule(every="1h", max_fires=3)
    found = look(written, 10, after=NOON + HOUR, fired=1, planned=[NOON + HOUR])
    assert ats(found) == ["2031-05-05T13:00:00Z", "2031-05-05T14:00:00Z", "2031-05-05T15:00:00Z"]
    assert len(look(written, 1, after=NOON + HOUR, fired=1, planned=[NOON + HOUR]).fires) == 1
    assert ats(look(written, 5, after=None, planned=[NOON + HOUR])) == ["2031-05-05T13:00:00Z"]  # type: ignore[arg-type]


def test_an_end_in_the_past_is_told() -> None:
    found = look(Schedule(every="1h", ends_at="2031-05-05T11:00:00Z"))
    assert found.fires == []
    assert found.warnings == ["the schedule does not fire again"]


@pytest.mark.parametrize(
    ("dst", "words"), [("cron", "2031-03-30"), ("literal", "2031-03-30"), ("once", "2031-03-30")]
)
def test_a_gap_in_the_coming_year_is_warned_of_by_its_date(dst: str, words: str) -> None:
    after = parse_instant("2031-01-01T00:00:00Z", "")
    written = Schedule(cron="30 2 * * *", time_zone="Europe/Berlin", dst=dst)  # type: ignore[arg-type]
    assert any(words in warning for warning in look(written, after=after).warnings)
    assert look(Schedule(cron="30 12 * * *", time_zone="Europe/Berlin"), after=after).warnings == []


@pytest.mark.parametrize(
    ("written", "words"),
    [
        (Schedule(every="90m"), "every 1h30m"),
        (Schedule(at="2031-05-05T12:00:00Z"), "once, at 2031-05-05T12:00:00Z"),
        (Schedule(every="1h", max_fires=3), "3 times at most"),
        (Schedule(every="1h", starts_at="2031-06-01T00:00:00Z"), "from 2031-06-01T00:00:00Z"),
        (Schedule(every="1h", ends_at="2031-06-01T00:00:00Z"), "until 2031-06-01T00:00:00Z"),
        (Schedule(every="1h", jitter="5m"), "own offset within 5m"),
        (Schedule(every="1h", exclude=Exclude(calendars=("holidays",))), "except on calendar holidays"),
        (Schedule(cron="0 9 * * 1", time_zone="Europe/Berlin"), "(Europe/Berlin)"),
        (Schedule(any_of=(Schedule(every="1h"), Schedule(every="7m"))), "every 1h; and every 7m"),
    ],
)
def test_a_schedule_is_told_in_words(written: Schedule, words: str) -> None:
    assert words in explanation(written)


def test_a_schedule_that_never_fires_outside_its_blackouts_is_looked_at_for_a_bounded_time() -> None:
    """A per-second job that is excluded for a year: the preview gives up instead of walking through it
    all."""
    dates = tuple(f"2031-{month:02}-{day:02}" for month in range(5, 13) for day in range(1, 29))
    found = look(Schedule(every="1s", exclude=Exclude(dates=dates)), 3, after=NOON + MINUTE)
    assert len(found.fires) <= 3
