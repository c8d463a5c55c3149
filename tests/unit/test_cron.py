"""The cron engine on its worst days, worked out by hand.

Fires are written in UTC. Each table of a clock change gives the answer of every `dst` policy.
"""

from datetime import datetime
from itertools import islice
from zoneinfo import ZoneInfo

import pytest

from tocsin.domain.cron import Cron, Dst
from tocsin.domain.errors import Refused
from tocsin.domain.instant import DAY, HOUR, MINUTE, SECOND, format_instant, from_datetime, parse_instant

CRON, LITERAL, ONCE = Dst.CRON, Dst.LITERAL, Dst.ONCE


def at(text: str) -> int:
    return parse_instant(text if len(text) > 10 else f"{text}T00:00:00Z", "test")


def fires(expression: str, after: str, count: int, zone: str = "UTC", dst: Dst = CRON) -> list[str]:
    """The next fires without their seconds when these are zero: 2026-03-29T01:00Z."""
    every = Cron.parse(expression).fires_between(at(after), at("9990-01-01"), ZoneInfo(zone), dst)
    return [format_instant(fire).replace(":00Z", "Z") for fire in islice(every, count)]


def days(expression: str, after: str, count: int) -> list[str]:
    """The dates of the next fires of an expression that fires at midnight UTC."""
    found = fires(expression, after, count)
    assert all(fire.endswith("T00:00Z") for fire in found)
    return [fire[:10] for fire in found]


class TestGap:
    """Clocks go forward: readings that never come."""

    @pytest.mark.parametrize(
        ("dst", "expected"),
        [
            (CRON, ["2026-03-28T01:30Z", "2026-03-29T01:00Z", "2026-03-30T00:30Z"]),
            (LITERAL, ["2026-03-28T01:30Z", "2026-03-30T00:30Z", "2026-03-31T00:30Z"]),
            (ONCE, ["2026-03-28T01:30Z", "2026-03-30T00:30Z", "2026-03-31T00:30Z"]),
        ],
    )
    def test_a_swallowed_fixed_time_moves_to_the_end_of_the_gap(self, dst: Dst, expected: list[str]) -> None:
        assert fires("30 2 * * *", "2026-03-28", 3, "Europe/Berlin", dst) == expected

    @pytest.mark.parametrize(
        ("dst", "expected"),
        [
            (CRON, ["2026-03-29T00:45Z", "2026-03-29T01:00Z", "2026-03-29T01:15Z"]),
            (LITERAL, ["2026-03-29T00:45Z", "2026-03-29T01:15Z", "2026-03-29T01:45Z"]),
            (ONCE, ["2026-03-29T00:45Z", "2026-03-29T01:15Z", "2026-03-29T01:45Z"]),
        ],
    )
    def test_several_swallowed_times_are_one_fire(self, dst: Dst, expected: list[str]) -> None:
        assert fires("15,45 1-3 * * *", "2026-03-29T00:30:00Z", 3, "Europe/Berlin", dst) == expected

    @pytest.mark.parametrize("dst", Dst)
    def test_a_moved_fire_and_a_regular_one_at_that_instant_are_one(self, dst: Dst) -> None:
        expected = ["2026-03-29T00:00Z", "2026-03-29T01:00Z", "2026-03-29T02:00Z"]
        assert fires("0 1,2,3,4 * * *", "2026-03-28T12:00:00Z", 3, "Europe/Berlin", dst) == expected

    @pytest.mark.parametrize("dst", Dst)
    def test_a_job_with_a_star_in_the_hour_follows_elapsed_time(self, dst: Dst) -> None:
        expected = ["2026-03-29T00:30Z", "2026-03-29T01:30Z", "2026-03-29T02:30Z"]
        assert fires("30 * * * *", "2026-03-29T00:00:00Z", 3, "Europe/Berlin", dst) == expected

    @pytest.mark.parametrize("dst", Dst)
    @pytest.mark.parametrize("expression", ["*/20 2 * * *", "* 2 * * *"])
    def test_a_star_in_the_minute_is_not_a_fixed_time(self, expression: str, dst: Dst) -> None:
        assert fires(expression, "2026-03-28T12:00:00Z", 1, "Europe/Berlin", dst) == ["2026-03-30T00:00Z"]

    @pytest.mark.parametrize("dst", Dst)
    def test_a_stepped_star_in_the_hour_is_not_a_fixed_time(self, dst: Dst) -> None:
        assert fires("0 */2 * * *", "2026-03-28T23:00:00Z", 1, "Europe/Berlin", dst) == ["2026-03-29T02:00Z"]

    def test_the_full_range_written_out_is_a_fixed_time(self) -> None:
        assert fires("30 0-23 * * *", "2026-03-29T00:30:00Z", 1, "Europe/Berlin", CRON) == [
            "2026-03-29T01:00Z"
        ]

    def test_the_seconds_field_does_not_decide_what_a_fixed_time_is(self) -> None:
        expected = ["2026-03-29T01:00Z", "2026-03-30T00:30Z", "2026-03-30T00:30:20Z"]
        assert fires("*/20 30 2 * * *", "2026-03-29T00:00:00Z", 3, "Europe/Berlin", CRON) == expected

    def test_the_last_reading_before_the_gap_and_the_first_after_it_are_real(self) -> None:
        assert fires("59 1 * * *", "2026-03-29T00:00:00Z", 1, "Europe/Berlin", LITERAL) == [
            "2026-03-29T00:59Z"
        ]
        assert fires("0 3 * * *", "2026-03-29T00:00:00Z", 1, "Europe/Berlin", LITERAL) == [
            "2026-03-29T01:00Z"
        ]

    @pytest.mark.parametrize("lead", [1, SECOND - 1, SECOND, MINUTE])
    def test_every_base_up_to_the_end_of_the_gap_leads_to_the_moved_fire(self, lead: int) -> None:
        cron, zone, moved = Cron.parse("30 2 * * *"), ZoneInfo("Europe/Berlin"), at("2026-03-29T01:00:00Z")
        assert cron.next_fire(moved - lead, zone) == moved
        assert cron.next_fire(moved, zone) == at("2026-03-30T00:30:00Z")

    @pytest.mark.parametrize(
        ("zone", "after", "moved", "next_day"),
        [
            ("America/Sao_Paulo", "2018-11-03T12:00:00Z", "2018-11-04T03:00Z", "2018-11-05T02:00Z"),
            ("Asia/Beirut", "2026-03-28T12:00:00Z", "2026-03-28T22:00Z", "2026-03-29T21:00Z"),
            ("Africa/Cairo", "2026-04-23T12:00:00Z", "2026-04-23T22:00Z", "2026-04-24T21:00Z"),
        ],
    )
    def test_midnight_itself_can_be_swallowed(self, zone: str, after: str, moved: str, next_day: str) -> None:
        assert fires("0 0 * * *", after, 2, zone, CRON) == [moved, next_day]
        assert fires("@daily", after, 2, zone, CRON) == [moved, next_day]
        assert fires("0 0 * * *", after, 1, zone, LITERAL) == [next_day]
        assert fires("0 0 * * *", after, 1, zone, ONCE) == [next_day]

    def test_half_an_hour_can_be_swallowed(self) -> None:
        """Lord Howe goes from 02:00 to 02:30."""
        after = "2026-10-03T12:00:00Z"
        assert fires("15 2 * * *", after, 2, "Australia/Lord_Howe", CRON) == [
            "2026-10-03T15:30Z",
            "2026-10-04T15:15Z",
        ]
        assert fires("15 2 * * *", after, 1, "Australia/Lord_Howe", LITERAL) == ["2026-10-04T15:15Z"]
        assert fires("30 2 * * *", after, 1, "Australia/Lord_Howe", LITERAL) == ["2026-10-03T15:30Z"]

    @pytest.mark.parametrize(
        ("dst", "expected"),
        [
            (CRON, ["2011-12-29T19:00Z", "2011-12-30T19:00Z", "2011-12-31T19:00Z"]),
            (LITERAL, ["2011-12-29T19:00Z", "2011-12-30T19:00Z", "2011-12-31T19:00Z"]),
            (ONCE, ["2011-12-29T19:00Z", "2011-12-30T19:00Z", "2011-12-31T19:00Z"]),
        ],
    )
    def test_a_swallowed_day_is_a_correction_that_makes_nothing_up(
        self, dst: Dst, expected: list[str]
    ) -> None:
        """Apia had no 30 December 2011: at the end of the 29th the 31st began."""
        assert fires("0 9 * * *", "2011-12-29T12:00:00Z", 3, "Pacific/Apia", dst) == expected

    @pytest.mark.parametrize("dst", [CRON, LITERAL, ONCE])
    def test_a_date_that_a_zone_skipped_fires_next_year(self, dst: Dst) -> None:
        assert fires("0 9 30 12 *", "2011-06-01", 1, "Pacific/Apia", dst) == ["2012-12-29T19:00Z"]

    def test_a_jump_of_three_hours_is_a_correction_in_both_directions(self) -> None:
        """Casey went from UTC+8 to UTC+11 on 17 October 2009 at 18:00Z, and back on 4 March 2010 at
        15:00Z."""
        assert fires("30 3 * * *", "2009-10-17T12:00:00Z", 1, "Antarctica/Casey", CRON) == [
            "2009-10-18T16:30Z"
        ]
        after = "2010-03-04T11:00:00Z"
        twice = ["2010-03-04T12:30Z", "2010-03-04T15:30Z"]
        assert fires("30 23 * * *", after, 2, "Antarctica/Casey", CRON) == twice
        assert fires("30 23 * * *", after, 2, "Antarctica/Casey", ONCE)[1] == "2010-03-05T15:30Z"

    def test_a_job_that_follows_elapsed_time_does_not_notice_a_skipped_day(self) -> None:
        expected = ["2011-12-30T09:30Z", "2011-12-30T10:00Z", "2011-12-30T10:30Z"]
        assert fires("*/30 * * * *", "2011-12-30T09:00:00Z", 3, "Pacific/Apia", CRON) == expected

    @pytest.mark.parametrize(
        ("zone", "expression", "after", "moved", "literal"),
        [
            (
                "America/Caracas",
                "45 2 * * *",
                "2016-05-01T00:00:00Z",
                "2016-05-01T07:00Z",
                "2016-05-02T06:45Z",
            ),
            (
                "Asia/Pyongyang",
                "45 23 * * *",
                "2018-05-04T12:00:00Z",
                "2018-05-04T15:00Z",
                "2018-05-05T14:45Z",
            ),
        ],
    )
    def test_zone_changes_that_are_no_summer_time_are_gaps_too(
        self, zone: str, expression: str, after: str, moved: str, literal: str
    ) -> None:
        assert fires(expression, after, 2, zone, CRON) == [moved, literal]
        assert fires(expression, after, 1, zone, LITERAL) == [literal]
        assert fires(expression, after, 1, zone, ONCE) == [literal]

    def test_a_time_that_is_swallowed_every_year_never_fires_under_literal(self) -> None:
        """Half past two on the last Sunday of March does not exist in Berlin, this year or any other."""
        assert (
            Cron.parse("30 2 * 3 SUNL").next_fire(at("2026-01-01"), ZoneInfo("Europe/Berlin"), LITERAL)
            is None
        )
        assert fires("30 2 * 3 SUNL", "2026-01-01", 2, "Europe/Berlin", CRON) == [
            "2026-03-29T01:00Z",
            "2027-03-28T01:00Z",
        ]


class TestOverlap:
    """Clocks go back: readings that come twice."""

    @pytest.mark.parametrize(
        ("dst", "expected"),
        [
            (CRON, ["2026-10-25T00:30Z", "2026-10-26T01:30Z"]),
            (LITERAL, ["2026-10-25T00:30Z", "2026-10-25T01:30Z"]),
            (ONCE, ["2026-10-25T00:30Z", "2026-10-26T01:30Z"]),
        ],
    )
    def test_a_fixed_time_fires_in_the_first_pass(self, dst: Dst, expected: list[str]) -> None:
        assert fires("30 2 * * *", "2026-10-24T12:00:00Z", 2, "Europe/Berlin", dst) == expected

    @pytest.mark.parametrize(
        ("dst", "expected"),
        [
            (CRON, ["2026-10-25T00:30Z", "2026-10-25T01:00Z", "2026-10-25T01:30Z", "2026-10-25T02:00Z"]),
            (LITERAL, ["2026-10-25T00:30Z", "2026-10-25T01:00Z", "2026-10-25T01:30Z", "2026-10-25T02:00Z"]),
            (ONCE, ["2026-10-25T00:30Z", "2026-10-25T02:00Z", "2026-10-25T02:30Z", "2026-10-25T03:00Z"]),
        ],
    )
    def test_other_jobs_run_on_through_both_passes_unless_once_is_asked(
        self, dst: Dst, expected: list[str]
    ) -> None:
        assert fires("*/30 * * * *", "2026-10-25T00:00:00Z", 4, "Europe/Berlin", dst) == expected

    @pytest.mark.parametrize(
        ("after", "cron", "literal"),
        [
            ("2026-10-25T00:29:59Z", "2026-10-25T00:30Z", "2026-10-25T00:30Z"),
            ("2026-10-25T00:45:00Z", "2026-10-26T01:30Z", "2026-10-25T01:30Z"),
            ("2026-10-25T01:15:00Z", "2026-10-26T01:30Z", "2026-10-25T01:30Z"),
            ("2026-10-25T01:45:00Z", "2026-10-26T01:30Z", "2026-10-26T01:30Z"),
        ],
    )
    def test_a_base_inside_the_overlap_knows_its_pass(self, after: str, cron: str, literal: str) -> None:
        assert fires("30 2 * * *", after, 1, "Europe/Berlin", CRON) == [cron]
        assert fires("30 2 * * *", after, 1, "Europe/Berlin", ONCE) == [cron]
        assert fires("30 2 * * *", after, 1, "Europe/Berlin", LITERAL) == [literal]

    @pytest.mark.parametrize("dst", Dst)
    def test_the_first_reading_after_the_overlap_comes_once(self, dst: Dst) -> None:
        expected = ["2026-10-25T02:00Z", "2026-10-26T02:00Z"]
        assert fires("0 3 * * *", "2026-10-24T12:00:00Z", 2, "Europe/Berlin", dst) == expected

    @pytest.mark.parametrize(
        ("zone", "expression", "after", "first", "second", "next_day"),
        [
            # Lord Howe goes back by half an hour, at 02:00.
            (
                "Australia/Lord_Howe",
                "45 1 * * *",
                "2026-04-04T12:00:00Z",
                "2026-04-04T14:45Z",
                "2026-04-04T15:15Z",
                "2026-04-05T15:15Z",
            ),
            # In Cairo and São Paulo the last hour of the day comes twice.
            (
                "Africa/Cairo",
                "30 23 * * *",
                "2026-10-29T12:00:00Z",
                "2026-10-29T20:30Z",
                "2026-10-29T21:30Z",
                "2026-10-30T21:30Z",
            ),
            (
                "America/Sao_Paulo",
                "30 23 * * *",
                "2018-02-17T12:00:00Z",
                "2018-02-18T01:30Z",
                "2018-02-18T02:30Z",
                "2018-02-19T02:30Z",
            ),
            # Caracas 2007 and Pyongyang 2015 changed their standard time by half an hour.
            (
                "America/Caracas",
                "45 2 * * *",
                "2007-12-09T00:00:00Z",
                "2007-12-09T06:45Z",
                "2007-12-09T07:15Z",
                "2007-12-10T07:15Z",
            ),
            (
                "Asia/Pyongyang",
                "45 23 * * *",
                "2015-08-14T12:00:00Z",
                "2015-08-14T14:45Z",
                "2015-08-14T15:15Z",
                "2015-08-15T15:15Z",
            ),
        ],
    )
    def test_overlaps_of_every_size(
        self, zone: str, expression: str, after: str, first: str, second: str, next_day: str
    ) -> None:
        assert fires(expression, after, 2, zone, CRON) == [first, next_day]
        assert fires(expression, after, 2, zone, ONCE) == [first, next_day]
        assert fires(expression, after, 3, zone, LITERAL) == [first, second, next_day]

    @pytest.mark.parametrize(("dst", "number"), [(CRON, 2), (LITERAL, 2), (ONCE, 1)])
    def test_a_day_that_a_zone_lived_through_twice_is_a_correction(self, dst: Dst, number: int) -> None:
        """Kwajalein crossed the date line and lived through 23 hours of 30 September 1969 twice."""
        both = ["1969-09-30T01:00Z", "1969-10-01T00:00Z"]
        expected = [*both[:number], "1969-10-02T00:00Z"]
        assert fires("0 12 * * *", "1969-09-30T00:00:00Z", number + 1, "Pacific/Kwajalein", dst) == expected


class TestCalendar:
    """Which days match, where no zone interferes."""

    def test_leap_days(self) -> None:
        assert days("0 0 29 2 *", "2023-01-01", 2) == ["2024-02-29", "2028-02-29"]

    def test_leap_days_over_a_century_that_has_none(self) -> None:
        assert days("0 0 29 2 *", "2096-02-28", 2) == ["2096-02-29", "2104-02-29"]
        assert days("0 0 29 2 *", "1996-03-01", 2) == ["2000-02-29", "2004-02-29"]

    def test_a_leap_day_on_one_weekday_is_a_matter_of_decades(self) -> None:
        assert days("0 0 * 2 MON#5", "2026-01-01", 2) == ["2044-02-29", "2072-02-29"]

    def test_the_31st_skips_short_months(self) -> None:
        expected = ["2026-01-31", "2026-03-31", "2026-05-31", "2026-07-31", "2026-08-31", "2026-10-31"]
        assert days("0 0 31 * *", "2026-01-01", 6) == expected

    def test_the_last_day_of_the_month(self) -> None:
        assert days("0 0 L * *", "2028-01-01", 4) == ["2028-01-31", "2028-02-29", "2028-03-31", "2028-04-30"]

    def test_days_before_the_last(self) -> None:
        assert days("0 0 L-3 * *", "2026-01-01", 3) == ["2026-01-28", "2026-02-25", "2026-03-28"]
        assert days("0 0 L-29 * *", "2026-01-01", 3) == ["2026-01-02", "2026-03-02", "2026-04-01"]

    def test_the_last_weekday_of_the_month(self) -> None:
        """31 January 2026 is a Saturday, 28 February too, 31 May a Sunday."""
        assert days("0 0 LW * *", "2026-01-01", 3) == ["2026-01-30", "2026-02-27", "2026-03-31"]
        assert days("0 0 LW 5 *", "2026-01-01", 1) == ["2026-05-29"]

    def test_the_nearest_weekday(self) -> None:
        """15 August 2026 is a Saturday, 15 November a Sunday."""
        assert days("0 0 15W 8-11 *", "2026-08-01", 4) == [
            "2026-08-14",
            "2026-09-15",
            "2026-10-15",
            "2026-11-16",
        ]

    def test_the_nearest_weekday_stays_in_its_month(self) -> None:
        """1 August 2026 is a Saturday, 31 May a Sunday."""
        assert days("0 0 1W 8 *", "2026-01-01", 1) == ["2026-08-03"]
        assert days("0 0 31W 5 *", "2026-01-01", 1) == ["2026-05-29"]

    def test_the_nearest_weekday_to_a_date_that_a_month_lacks_is_none(self) -> None:
        assert days("0 0 31W * *", "2026-02-01", 2) == ["2026-03-31", "2026-05-29"]

    def test_the_second_monday(self) -> None:
        assert days("0 0 * * MON#2", "2026-01-01", 3) == ["2026-01-12", "2026-02-09", "2026-03-09"]
        assert days("0 0 * * 1#2", "2026-01-01", 3) == ["2026-01-12", "2026-02-09", "2026-03-09"]

    def test_the_fifth_friday_skips_months(self) -> None:
        assert days("0 0 * * FRI#5", "2026-01-01", 3) == ["2026-01-30", "2026-05-29", "2026-07-31"]

    @pytest.mark.parametrize("written", ["5L", "FRIL", "fril"])
    def test_the_last_friday(self, written: str) -> None:
        assert days(f"0 0 * * {written}", "2026-01-01", 3) == ["2026-01-30", "2026-02-27", "2026-03-27"]

    def test_special_days_in_a_list(self) -> None:
        assert days("0 0 1,15W,L 8 *", "2026-01-01", 3) == ["2026-08-01", "2026-08-14", "2026-08-31"]
        assert days("0 0 * 8 MON#1,5L,3", "2026-08-01", 3) == ["2026-08-03", "2026-08-05", "2026-08-12"]

    @pytest.mark.parametrize("sunday", ["0", "7", "SUN", "sun", "Sun", "7-7", "0,7"])
    def test_sunday_has_many_names(self, sunday: str) -> None:
        assert days(f"0 0 * * {sunday}", "2026-01-01", 2) == ["2026-01-04", "2026-01-11"]

    @pytest.mark.parametrize("written", ["FRI-MON", "5-1", "fri-mon", "5-7,1", "0-1,5-6"])
    def test_weekdays_may_wrap_around(self, written: str) -> None:
        expected = ["2026-01-02", "2026-01-03", "2026-01-04", "2026-01-05", "2026-01-09"]
        assert days(f"0 0 * * {written}", "2026-01-01", 5) == expected

    def test_a_step_goes_on_through_a_range_that_wraps_around(self) -> None:
        assert days("0 0 * * FRI-TUE/2", "2026-01-01", 4) == [
            "2026-01-02",
            "2026-01-04",
            "2026-01-06",
            "2026-01-09",
        ]

    @pytest.mark.parametrize("written", ["NOV-FEB", "11-2", "1,2,11,12"])
    def test_months_may_wrap_around(self, written: str) -> None:
        expected = ["2026-02-01", "2026-11-01", "2026-12-01", "2027-01-01"]
        assert days(f"0 0 1 {written} *", "2026-01-01", 4) == expected


class TestDayRule:
    """Day-of-month and day-of-week: both when either begins with ``*``, else one is enough."""

    def test_two_plain_fields_are_either(self) -> None:
        assert days("0 0 13 * FRI", "2026-01-01", 4) == [
            "2026-01-02",
            "2026-01-09",
            "2026-01-13",
            "2026-01-16",
        ]

    def test_a_stepped_star_makes_it_both(self) -> None:
        """Mondays on odd dates."""
        assert days("0 0 */2 * MON", "2026-01-01", 3) == ["2026-01-05", "2026-01-19", "2026-02-09"]

    def test_a_stepped_star_in_the_weekday_makes_it_both(self) -> None:
        """*/5 is Sunday and Friday."""
        assert days("0 0 13 * */5", "2026-01-01", 3) == ["2026-02-13", "2026-03-13", "2026-09-13"]

    def test_a_full_range_is_not_a_star(self) -> None:
        assert days("0 0 1-31 * MON", "2026-01-01", 2) == ["2026-01-02", "2026-01-03"]

    @pytest.mark.parametrize("expression", ["0 0 ? * MON", "0 0 * * MON"])
    def test_a_question_mark_is_a_star(self, expression: str) -> None:
        assert days(expression, "2026-01-01", 2) == ["2026-01-05", "2026-01-12"]

    def test_special_days_follow_the_same_rule(self) -> None:
        assert days("0 0 L * MON#1", "2026-01-01", 4) == [
            "2026-01-05",
            "2026-01-31",
            "2026-02-02",
            "2026-02-28",
        ]


class TestTimes:
    """Seconds, minutes and hours."""

    def test_seconds_come_first(self) -> None:
        expected = ["2026-01-01T00:00:20Z", "2026-01-01T00:00:40Z", "2026-01-01T00:01Z"]
        assert fires("*/20 * * * * *", "2026-01-01", 3) == expected
        assert fires("15,45 30 9 * * *", "2026-01-01", 3) == [
            "2026-01-01T09:30:15Z",
            "2026-01-01T09:30:45Z",
            "2026-01-02T09:30:15Z",
        ]

    def test_the_end_of_the_day_runs_into_the_next(self) -> None:
        assert fires("59 59 23 * * *", "2026-12-31T23:59:58Z", 2) == [
            "2026-12-31T23:59:59Z",
            "2027-01-01T23:59:59Z",
        ]

    @pytest.mark.parametrize(
        ("expression", "expected"),
        [
            ("5/20 * * * *", ["00:05", "00:25", "00:45", "01:05"]),
            ("10-40/15 * * * *", ["00:10", "00:25", "00:40", "01:10"]),
            ("0 8-10,22 * * *", ["08:00", "09:00", "10:00", "22:00"]),
            ("*/45 * * * *", ["00:45", "01:00", "01:45", "02:00"]),
            ("*/90 * * * *", ["01:00", "02:00", "03:00", "04:00"]),
            ("07 09 * * *", ["09:07"]),
        ],
    )
    def test_ranges_steps_and_lists(self, expression: str, expected: list[str]) -> None:
        assert [fire[11:16] for fire in fires(expression, "2026-01-01", len(expected))] == expected

    @pytest.mark.parametrize(
        ("shorthand", "same"),
        [
            ("@yearly", "0 0 1 1 *"),
            ("@annually", "0 0 1 1 *"),
            ("@monthly", "0 0 1 * *"),
            ("@weekly", "0 0 * * 0"),
            ("@daily", "0 0 * * *"),
            ("@midnight", "0 0 * * *"),
            ("@hourly", "0 * * * *"),
            ("@Daily", "0 0 * * *"),
        ],
    )
    def test_shorthands(self, shorthand: str, same: str) -> None:
        short, long = Cron.parse(shorthand), Cron.parse(same)
        assert (short.times, short.days, short.fixed_time) == (long.times, long.days, long.fixed_time)
        assert short.text == shorthand


class TestBases:
    """Any instant is a fine base."""

    @pytest.mark.parametrize("base", [-(10**30), at("0001-01-01"), at("1883-11-18"), -1, 0, 1])
    def test_bases_of_long_ago(self, base: int) -> None:
        fire = Cron.parse("* * * * *").next_fire(base, ZoneInfo("America/New_York"))
        assert fire is not None
        assert fire > base

    @pytest.mark.parametrize("base", [at("9990-12-31T23:59:59Z"), at("9999-12-31"), 10**30])
    def test_the_end_of_the_calendar_is_the_end(self, base: int) -> None:
        assert Cron.parse("0 0 1 1 *").next_fire(base, ZoneInfo("Pacific/Auckland")) is None

    def test_the_last_year_still_fires(self) -> None:
        assert fires("0 12 31 12 *", "9988-12-31T12:00:00Z", 2, "Europe/Berlin") == ["9989-12-31T11:00Z"]
        assert Cron.parse("0 12 31 12 *").next_fire(at("9990-01-01"), ZoneInfo("Europe/Berlin")) is not None

    @pytest.mark.parametrize("part", [1, SECOND - 1])
    def test_parts_of_a_second_never_lead_back(self, part: int) -> None:
        cron, noon = Cron.parse("0 12 * * *"), at("2026-01-01T12:00:00Z")
        assert cron.next_fire(noon - part, ZoneInfo("UTC")) == noon
        assert cron.next_fire(noon + part, ZoneInfo("UTC")) == noon + DAY

    def test_the_zone_of_the_base_does_not_matter(self) -> None:
        """The same instant told in three zones, once in the second pass of an overlap."""
        told = [
            datetime(2026, 10, 25, 1, 15, tzinfo=ZoneInfo("UTC")),
            datetime(2026, 10, 25, 2, 15, tzinfo=ZoneInfo("Europe/Berlin"), fold=1),
            datetime(2026, 10, 25, 6, 45, tzinfo=ZoneInfo("Asia/Kolkata")),
        ]
        cron = Cron.parse("30 2 * * *")
        answers = {cron.next_fire(from_datetime(base), ZoneInfo("Europe/Berlin"), LITERAL) for base in told}
        assert answers == {at("2026-10-25T01:30:00Z")}

    def test_fires_between_includes_the_end_and_not_the_beginning(self) -> None:
        start = at("2026-01-01")
        found = Cron.parse("0 * * * *").fires_between(start, start + 2 * HOUR, ZoneInfo("UTC"))
        assert list(found) == [start + HOUR, start + 2 * HOUR]

    def test_offsets_with_odd_seconds(self) -> None:
        """Liberia kept 44 minutes and 30 seconds behind Greenwich until 1972."""
        assert fires("0 12 * * *", "1971-06-01", 1, "Africa/Monrovia") == ["1971-06-01T12:44:30Z"]


class TestValue:
    """A `Cron` is a value."""

    def test_equal_texts_are_equal_values(self) -> None:
        assert Cron.parse("0 9 * * MON") == Cron.parse("0 9 * * MON")
        assert len({Cron.parse("0 9 L * 5L"), Cron.parse("0 9 L * 5L")}) == 1

    def test_the_text_is_kept_as_written(self) -> None:
        assert Cron.parse(" 0  9 * * mon ").text == " 0  9 * * mon "

    def test_marks_of_different_kinds_differ(self) -> None:
        assert Cron.parse("0 0 5W * *").days != Cron.parse("0 0 L-5 * *").days

    def test_it_cannot_be_changed(self) -> None:
        with pytest.raises(AttributeError):
            Cron.parse("* * * * *").text = "0 0 * * *"  # type: ignore[misc]


ITEM_HINT = "write it like 5, 1-5, */15 or 1,15,30"


class TestRefused:
    """What is wrong, in which field, and a way out."""

    @pytest.mark.parametrize(
        ("text", "detail", "hint"),
        [
            ("* 24 * * *", "hour 24 is out of range 0–23", "did you mean 0?"),
            ("9 30 * * *", "hour 30 is out of range 0–23", "the minute comes before the hour"),
            ("60 * * * *", "minute 60 is out of range 0–59", "did you mean 0?"),
            ("75 * * * *", "minute 75 is out of range 0–59", "use 0–59"),
            ("60 * * * * *", "second 60 is out of range 0–59", "did you mean 0?"),
            ("* * 0 * *", "day-of-month 0 is out of range 1–31", "did you mean 1?"),
            (
                "* * 1-32 * *",
                "day-of-month 32 is out of range 1–31",
                "did you mean L, the last day of the month?",
            ),
            (
                "* * 32W * *",
                "day-of-month 32 is out of range 1–31",
                "did you mean L, the last day of the month?",
            ),
            ("* * * 0 *", "month 0 is out of range 1–12", "did you mean 1?"),
            ("* * * 13 *", "month 13 is out of range 1–12", "use 1–12 or JAN–DEC"),
            ("* * * * 8", "day-of-week 8 is out of range 0–7", "use 0–7 or SUN–SAT"),
            ("* * * * 8L", "day-of-week 8 is out of range 0–7", "use 0–7 or SUN–SAT"),
        ],
    )
    def test_values_out_of_range(self, text: str, detail: str, hint: str) -> None:
        self.check(text, detail, hint)

    @pytest.mark.parametrize(
        ("text", "detail", "hint"),
        [
            ("x * * * *", "minute 'X' is not a number 0–59", ITEM_HINT),
            ("-1 * * * *", "minute '-1' is not a value, a range or a step", ITEM_HINT),
            ("٣ * * * *", "minute '٣' is not a value, a range or a step", ITEM_HINT),
            ("1,,2 * * * *", "minute has an empty item", "remove the extra comma"),
            ("*-5 * * * *", "minute '*-5' is not a value, a range or a step", ITEM_HINT),
            ("*/0 * * * *", "minute step 0 is not in the range 1–9999", "*/15 is every 15th value"),
            ("*/x * * * *", "minute step X is not in the range 1–9999", "*/15 is every 15th value"),
            ("30-10 * * * *", "minute range 30-10 runs backwards", "write 30-59,0-10 to go around"),
            ("0 22-6 * * *", "hour range 22-6 runs backwards", "write 22-23,0-6 to go around"),
            ("* ? * * *", "hour '?' is only for the day fields", "use * for every value"),
            ("* * 1,? * *", "day-of-month '?' stands alone", "use * for every value"),
            (
                "* * L-31 * *",
                "day-of-month L-31 is not in the range 1–30",
                "L-3 is three days before the last",
            ),
            ("* * 1-15W * *", "day-of-month '15W' is not a number 1–31", ITEM_HINT),
            (
                "* * * JANUARY *",
                "month 'JANUARY' is not a number 1–12 or a name JAN–DEC",
                "did you mean JAN?",
            ),
            ("* * * * MNO", "day-of-week 'MNO' is not a number 0–7 or a name SUN–SAT", "did you mean MON?"),
            ("* * * * MON#6", "day-of-week #6 is not in the range 1–5", "MON#2 is the second Monday"),
            (
                "* * * * L",
                "day-of-week L needs a day before it",
                "5L is the last Friday; the last day of the month is L in day-of-month",
            ),
        ],
    )
    def test_items_that_cannot_be_read(self, text: str, detail: str, hint: str) -> None:
        self.check(text, detail, hint)

    @pytest.mark.parametrize(
        ("text", "detail", "hint"),
        [
            ("", "the cron expression is empty", "for example 0 9 * * MON-FRI"),
            (" \t ", "the cron expression is empty", "for example 0 9 * * MON-FRI"),
            (
                "* * * *",
                "a cron expression has 5 fields, or 6 with seconds first; got 4",
                "the fields are: minute hour day-of-month month day-of-week",
            ),
            (
                "0 0 0 1 1 ? 2026",
                "a cron expression has 5 fields, or 6 with seconds first; got 7",
                "years are not part of an expression; use starts_at and ends_at",
            ),
            ("@dayly", "'@dayly' is not a known shorthand", "did you mean @daily?"),
            (
                "@reboot",
                "'@reboot' is not a known shorthand",
                "use one of @yearly @annually @monthly @weekly @daily @midnight @hourly",
            ),
            (
                "@every 5m",
                "'@every 5m' is not a known shorthand",
                "an interval is a schedule of its own: every",
            ),
            ("@daily 3", "'@daily 3' is not a known shorthand", "a shorthand stands alone"),
            (
                "CRON_TZ=UTC 0 0 * * *",
                "'CRON_TZ=UTC' does not belong in the expression",
                "the time zone has a field of its own",
            ),
            (
                "0," * 150 + "0 * * * *",
                "a cron expression has at most 256 characters; got 309",
                "use ranges and steps instead of long lists",
            ),
        ],
    )
    def test_expressions_of_the_wrong_shape(self, text: str, detail: str, hint: str) -> None:
        self.check(text, detail, hint)

    @pytest.mark.parametrize(
        ("text", "months", "hint"),
        [
            ("0 0 30 2 *", "FEB", "the longest month there has 29 days"),
            ("0 0 31 4,6 *", "APR, JUN", "the longest month there has 30 days"),
            ("0 0 31W 2 *", "FEB", "the longest month there has 29 days"),
            ("0 0 L-30 4 *", "APR", "the longest month there has 30 days"),
            ("0 0 */31 2 MON#5", "FEB", "a day field begins with *, so date and weekday must both match"),
            (
                "0 0 */40 * MON#3",
                "any month",
                "a day field begins with *, so date and weekday must both match",
            ),
        ],
    )
    def test_days_that_never_come(self, text: str, months: str, hint: str) -> None:
        self.check(text, f"{text!r} can never fire: no such day exists in {months}", hint)

    def test_a_weekday_beside_an_impossible_date_saves_the_expression(self) -> None:
        assert days("0 0 30 2 MON", "2026-01-01", 1) == ["2026-02-02"]

    def check(self, text: str, detail: str, hint: str) -> None:
        with pytest.raises(Refused) as caught:
            Cron.parse(text, "schedule.cron")
        refused = caught.value
        assert (refused.detail, refused.hint, refused.field) == (detail, hint, "schedule.cron")
