"""Instants and durations: text there and back without loss, and a refusal for anything that could be
misread."""

from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tocsin.domain.errors import Refused
from tocsin.domain.instant import (
    DAY,
    HOUR,
    MILLISECOND,
    MINUTE,
    SECOND,
    format_instant,
    format_span,
    from_datetime,
    has_passed,
    parse_instant,
    parse_span,
    to_datetime,
)

FIRST, LAST = from_datetime(datetime.min.replace(tzinfo=UTC)), from_datetime(datetime.max.replace(tzinfo=UTC))
instants = st.integers(FIRST, LAST)
spans = st.integers(0, 100 * 366 * DAY)
offsets = st.integers(-14 * 60, 14 * 60).map(lambda minutes: timezone(timedelta(minutes=minutes)))


@given(instants)
def test_an_instant_reads_back_from_its_text(instant: int) -> None:
    assert parse_instant(format_instant(instant), "at") == instant


@given(instants)
def test_an_instant_reads_back_from_its_datetime(instant: int) -> None:
    assert from_datetime(to_datetime(instant)) == instant


@given(st.integers(FIRST + DAY, LAST - DAY), offsets)
def test_an_offset_changes_the_text_but_not_the_instant(instant: int, offset: timezone) -> None:
    assert parse_instant(to_datetime(instant).astimezone(offset).isoformat(), "at") == instant


@given(st.integers(FIRST, LAST - 1))
def test_texts_of_whole_seconds_sort_by_time(instant: int) -> None:
    whole = instant - instant % SECOND
    if whole + SECOND <= LAST:
        assert format_instant(whole) < format_instant(whole + SECOND)


@given(st.datetimes())
def test_a_local_time_without_an_offset_is_refused(moment: datetime) -> None:
    with pytest.raises(Refused, match="no offset"):
        parse_instant(moment.isoformat(), "at")


@pytest.mark.parametrize(
    "text", ["2030-01-31t09:00:00z", "2030-01-31 09:00:00Z", "2030-01-31T10:00:00.000+01:00"]
)
def test_rfc_3339_allows_small_letters_a_space_and_fractions(text: str) -> None:
    assert parse_instant(text, "at") == parse_instant("2030-01-31T09:00:00Z", "at")


@pytest.mark.parametrize(
    "text", ["", "tomorrow", "2030-13-01T00:00:00Z", "2030-02-30T00:00:00Z", "12:00Z", "1900000000"]
)
def test_what_is_no_instant_is_refused_by_the_name_of_its_field(text: str) -> None:
    with pytest.raises(Refused) as refusal:
        parse_instant(text, "schedule.at")
    assert refusal.value.field == "schedule.at"


@pytest.mark.parametrize("text", ["0001-01-01T00:00:00+14:00", "9999-12-31T23:59:59-14:00"])
def test_what_lies_outside_the_calendar_in_utc_is_refused(text: str) -> None:
    with pytest.raises(Refused, match="outside the years"):
        parse_instant(text, "at")


@given(spans)
def test_a_span_reads_back_from_its_text(span: int) -> None:
    assert parse_span(format_span(span), "in") == span


@given(st.integers(0, 10**9))
def test_a_number_is_seconds(seconds: int) -> None:
    assert parse_span(seconds, "in") == seconds * SECOND


@given(st.integers(0, 99), st.integers(0, 23), st.integers(0, 59), st.integers(0, 59), st.integers(0, 999))
def test_parts_of_a_span_add_up(days: int, hours: int, minutes: int, seconds: int, ms: int) -> None:
    text = f"{days}d {hours}h{minutes}m {seconds}s{ms}ms"
    assert (
        parse_span(text, "in")
        == days * DAY + hours * HOUR + minutes * MINUTE + seconds * SECOND + ms * MILLISECOND
    )


@pytest.mark.parametrize(
    "value",
    ["", " ", "5", "m", "-5s", "5 parsecs", "1h 5", "1..5s", "1e3s", "0x5s", "s5", "5S", "∞s", "1h" * 40,
     -1, -0.1, float("nan"), float("inf"), "101w" * 60, 1e300, "99999w"],
)  # fmt: skip
def test_what_is_no_span_is_refused_by_the_name_of_its_field(value: str | float) -> None:
    with pytest.raises(Refused) as refusal:
        parse_span(value, "retry.max_backoff")
    assert refusal.value.field == "retry.max_backoff"


@given(st.one_of(st.text(), st.floats(), st.integers()))
def test_anything_at_all_is_read_or_refused_within_bounds(value: str | float) -> None:
    try:
        span = parse_span(value, "in")
    except Refused:
        return
    assert 0 <= span <= 100 * 366 * DAY


def test_a_text_is_read_once_and_no_moment_is_remembered() -> None:
    before = parse_instant.cache_info().hits
    assert parse_instant("2031-05-05T12:00:01Z", "at") == parse_instant("2031-05-05T12:00:01Z", "at")
    assert parse_instant.cache_info().hits == before + 1
    assert not hasattr(has_passed, "cache_info"), "it is asked with another `now` each time"
