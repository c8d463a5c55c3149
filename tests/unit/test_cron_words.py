"""Expressions in words, and the warnings that come with them."""

import calendar
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.cron_oracle import Expression, draw_expression
from tocsin.domain.cron import Cron, Dst
from tocsin.domain.cron_warnings import warnings
from tocsin.domain.cron_words import explain
from tocsin.domain.errors import Refused
from tocsin.domain.instant import parse_instant


@pytest.mark.parametrize(
    ("expression", "words"),
    [
        ("* * * * *", "every minute"),
        ("*/5 * * * *", "every 5 minutes"),
        ("0,30 * * * *", "every 30 minutes"),
        ("*/7 * * * *", "at 0, 7, 14, 21, 28, 35, 42, 49 and 56 minutes past every hour"),
        ("1 * * * *", "at 1 minute past every hour"),
        ("15 */2 * * *", "at 15 minutes past every 2nd hour from 00:00"),
        ("5,20,50 9,12,15 * * *", "at 5, 20 and 50 minutes past 09:00, 12:00 and 15:00 every day"),
        ("10,20 9-17 * * *", "at 10 and 20 minutes past every hour from 09:00 to 17:00"),
        ("@hourly", "every hour"),
        ("0 */2 * * *", "every 2 hours"),
        ("0 9-17 * * *", "every hour from 09:00 to 17:00"),
        ("0 1,3,5,9,11 * * *", "at 01:00, 03:00, 05:00, 09:00 and 11:00 every day"),
        ("30 2 * * *", "at 02:30 every day"),
        ("0 0,12 * * *", "at 00:00 and 12:00 every day"),
        ("*/5 9-17 * * 1-5", "every 5 minutes from 09:00 to 17:55, Monday to Friday"),
        ("*/10 1,5,9 * * *", "every 10 minutes in the hours from 01:00, 05:00 and 09:00"),
    ],
)
def test_times_in_words(expression: str, words: str) -> None:
    assert explain(Cron.parse(expression)) == words


@pytest.mark.parametrize(
    ("expression", "words"),
    [
        ("* * * * * *", "every second"),
        ("*/10 * * * * *", "every 10 seconds"),
        ("30 * * * * *", "at second 30 of every minute"),
        ("30 0 9 * * *", "at 09:00:30 every day"),
        ("*/10 30 2 * * *", "every 10 seconds of the minute 02:30"),
        ("*/10 30 * * * *", "every 10 seconds of minute 30 of every hour"),
        ("*/10 * 9-17 * * *", "every 10 seconds from 09:00 to 17:59"),
    ],
)
def test_seconds_in_words(expression: str, words: str) -> None:
    assert explain(Cron.parse(expression)) == words


@pytest.mark.parametrize(
    ("expression", "words"),
    [
        ("0 9 * * MON#2", "at 09:00 on the second Monday of every month"),
        ("0 9 * * 5L", "at 09:00 on the last Friday of every month"),
        ("0 9 * * MON", "at 09:00 on Mondays"),
        ("0 9 * * SAT,SUN", "at 09:00 on Saturdays and Sundays"),
        ("0 9 * * TUE-THU", "at 09:00, Tuesday to Thursday"),
        ("0 9 1,15 * *", "at 09:00 on the 1st and 15th of every month"),
        ("0 9 1-7 * *", "at 09:00 on the 1st to 7th of every month"),
        ("0 9 */2 * *", "at 09:00 on every 2nd day from the 1st of every month"),
        ("0 9 L * *", "at 09:00 on the last day of every month"),
        ("0 9 L-3 * *", "at 09:00 on the 3rd day before the last of every month"),
        ("0 9 15W,1 * *", "at 09:00 on the 1st and the weekday nearest the 15th of every month"),
        ("30 2 LW JAN,JUL *", "at 02:30 on the last weekday of the month in January and July"),
        ("@yearly", "at 00:00 on the 1st of January"),
        ("0 0 * 1 MON#1", "at 00:00 on the first Monday of January"),
        ("0 9 * 1 *", "at 09:00 every day in January"),
        ("0 9 * 1 MON", "at 09:00 on Mondays in January"),
        ("0 9 * 1 *,MON#2", "at 09:00 every day in January"),
        ("0 9 * JUN-AUG 1-5", "at 09:00, Monday to Friday from June to August"),
        ("0 0 13 * FRI", "at 00:00 on the 13th of every month, or on Fridays"),
        ("0 0 1 1 1-5", "at 00:00 on the 1st of the month, or Monday to Friday in January"),
        ("0 0 13 * */5", "at 00:00 on the 13th of every month if that is a Friday or a Sunday"),
    ],
)
def test_days_in_words(expression: str, words: str) -> None:
    assert explain(Cron.parse(expression)) == words


def test_equal_meanings_have_equal_words() -> None:
    same = ["0 9 * * 1-5", "0 9 ? * MON,TUE,WED,THU,FRI", "0 0 9 * * mon-fri"]
    assert len({explain(Cron.parse(expression)) for expression in same}) == 1


@settings(deadline=None)
@given(
    st.builds(draw_expression, st.randoms(use_true_random=False), with_seconds=st.booleans()),
    st.sampled_from(["UTC", "Europe/Berlin", "Australia/Lord_Howe"]),
    st.sampled_from(Dst),
)
def test_every_expression_has_words_that_name_its_months(drawn: Expression, zone: str, dst: Dst) -> None:
    try:
        cron = Cron.parse(drawn.text)
    except Refused:
        return
    words = explain(cron)
    assert any(name in words for name in MONTHS) == (len(drawn.months) < 12), words
    assert all(warnings(cron, ZoneInfo(zone), dst, 0))


MONTHS = calendar.month_name[1:]


def warned(expression: str, zone: str, dst: Dst = Dst.CRON, after: str = "2026-01-01T00:00:00Z") -> list[str]:
    return warnings(Cron.parse(expression), ZoneInfo(zone), dst, parse_instant(after, "after"))


BERLIN_FORWARD = "2026-03-29: clocks in Europe/Berlin go forward from 02:00 to 03:00, so there is no "
BERLIN_BACK = "2026-10-25: clocks in Europe/Berlin go back from 03:00 to 02:00, so "


@pytest.mark.parametrize(
    ("dst", "gap", "overlap"),
    [
        (Dst.CRON, "it fires once at 03:00 instead", "it fires the first time only"),
        (Dst.LITERAL, "it does not fire then", "it fires both times"),
        (Dst.ONCE, "it does not fire then", "it fires the first time only"),
    ],
)
def test_a_nightly_job_is_warned_of_both_changes(dst: Dst, gap: str, overlap: str) -> None:
    assert warned("30 2 * * *", "Europe/Berlin", dst) == [
        f"{BERLIN_FORWARD}02:30; {gap}",
        f"{BERLIN_BACK}02:30 comes twice; {overlap}",
    ]


def test_only_the_first_readings_are_named() -> None:
    assert warned("*/10 2 * * *", "Europe/Berlin") == [
        f"{BERLIN_FORWARD}02:00, 02:10, 02:20 and more; it does not fire then",
        f"{BERLIN_BACK}02:00, 02:10, 02:20 and more come twice; it fires both times",
    ]


@pytest.mark.parametrize("expression", ["0 9 * * *", "*/5 * * * *", "@hourly", "30 2 * 7 *", "0 0 29 2 *"])
def test_a_job_that_no_change_touches_is_not_warned(expression: str) -> None:
    assert warned(expression, "Europe/Berlin") == []


def test_a_zone_without_changes_has_no_warnings() -> None:
    assert warned("30 2 * * *", "Asia/Tokyo") == []


def test_an_hour_of_silence_is_worth_a_warning() -> None:
    assert warned("*/30 * * * *", "Europe/Berlin", Dst.ONCE) == [
        f"{BERLIN_BACK}02:00, 02:30 come twice; it fires the first time only",
    ]


def test_a_skipped_day_is_told_with_its_dates() -> None:
    first, *_ = warned("0 9 * * *", "Pacific/Apia", after="2011-06-01T00:00:00Z")
    assert first == (
        "2011-12-30: clocks in Pacific/Apia go forward from 00:00 to 2011-12-31 00:00, "
        "so there is no 09:00; it does not fire then"
    )


def test_changes_in_the_past_or_beyond_a_year_are_not_told() -> None:
    told = warned("30 2 * * *", "Europe/Berlin", after="2026-03-29T01:00:00Z")
    assert [warning[:10] for warning in told] == ["2026-10-25", "2027-03-28"]


def test_the_day_rule_is_told() -> None:
    assert warned("0 0 13 * FRI", "UTC") == [
        "day-of-month and day-of-week are both set: it fires when either of them matches"
    ]
    assert warned("0 0 */2 * FRI", "UTC") == [
        "a day field begins with *: it fires only when day-of-month and day-of-week both match"
    ]


def test_a_step_longer_than_its_field_is_told() -> None:
    assert warned("*/90 * * * *", "UTC") == ["minute */90 means 0: the step is longer than the field"]
    assert warned("0 */24 * * *", "UTC") == ["hour */24 means 0: the step is longer than the field"]


def test_a_schedule_that_fires_no_more_is_told() -> None:
    assert warned("30 2 * 3 SUNL", "Europe/Berlin", Dst.LITERAL) == ["never fires after 2026-01-01T00:00:00Z"]


def test_any_instant_can_be_asked_about() -> None:
    assert warned("0 0 * * *", "UTC", after="0001-01-01T00:00:00Z") == []
