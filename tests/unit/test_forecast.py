"""Fires of the coming minutes: what the preview of each job shows, summed up; jitter spreads many, and peaks
name their makers."""

from collections import Counter
from typing import Any
from uuid import UUID

import pytest

from tocsin.api.forecast import fit_of
from tocsin.domain import forecast
from tocsin.domain.blackout import Exclude, ExcludePolicy, Range
from tocsin.domain.forecast import Group, Load, Member, Minutes, foresee, free, makers, peaks
from tocsin.domain.instant import DAY, HOUR, MINUTE, SECOND, format_instant, parse_instant
from tocsin.domain.planning import terms_of
from tocsin.domain.policy import Policies
from tocsin.domain.preview import preview
from tocsin.domain.schedule import Schedule, rule_of

NOON = parse_instant("2027-03-27T12:00:00Z", "")  # the night before a clock change in Europe
HOLIDAY = [(NOON + 3 * HOUR, NOON + 9 * HOUR + 30 * SECOND)]
DATES = Exclude(dates=("2027-03-28",))
HELD = Exclude(calendars=("holiday",), policy=ExcludePolicy.HOLD)
MIXED = [
    Schedule(cron="30 * * * *"),
    Schedule(cron="30 2 * * *", time_zone="Europe/Berlin"),
    Schedule(cron="*/7 1-4 * * *", time_zone="Europe/Berlin"),
    Schedule(cron="15 0 12 * * *", exclude=DATES),
    Schedule(every="90s", exclude=HELD),
    Schedule(every="7s"),
    Schedule(every="7s", exclude=DATES),
    Schedule(every="20s", exclude=HELD),
    Schedule(every="1h", starts_at=format_instant(NOON + 5 * HOUR), ends_at=format_instant(NOON + 8 * HOUR)),
    Schedule(cron="0 * * * *", jitter="45m"),
    Schedule(every="10m", max_fires=5),
    Schedule(every="25m", max_fires=9, jitter="10m", exclude=HELD),
    Schedule(any_of=(Schedule(cron="5 * * * *"), Schedule(cron="*/50 * * * *"))),
]


def group(number: int, members: tuple[Member, ...] = (), **schedule: Any) -> Group:
    return Group(Schedule(**schedule), "default", number, UUID(int=number), f"group of {number}", members)


def total(of: Group, calendars: list[Range] | None = None, span: int = DAY) -> Minutes:
    found: Counter[int] = Counter()
    for part in foresee(of, calendars or [], NOON, NOON + span):
        found.update(part)  # type: ignore[arg-type]
    return dict(found)


def load_of(*groups: Group, span: int = DAY) -> Load:
    minutes = [0.0] * (span // MINUTE)
    for one in groups:
        for minute, fires in total(one, span=span).items():
            minutes[minute - NOON // MINUTE] += fires
    return Load(NOON, minutes)


def _most(schedule: Schedule) -> int:
    """More than it fires in a day."""
    return 13_000 if schedule.every in ("7s", "20s") else 1_000


def _named(schedule: Schedule) -> list[Range]:
    return HOLIDAY if schedule.calendars else []


def previewed(schedule: Schedule, job_id: UUID, fire_count: int) -> Counter[int]:
    """The oracle: what the preview of one job shows of the coming day, by minute."""
    terms = terms_of(schedule, Policies(), job_id, fire_count, _named(schedule))
    since = NOON - 1 if schedule.max_fires else NOON - terms.offset - 1
    shown = [parse_instant(fire.at, "") for fire in preview(schedule, since, _most(schedule), terms).fires]
    return Counter(at // MINUTE for at in shown if NOON <= at < NOON + DAY)


@pytest.mark.parametrize("schedule", MIXED, ids=range(len(MIXED)))
def test_a_group_has_the_fires_that_the_previews_of_its_jobs_show(schedule: Schedule) -> None:
    first = rule_of(schedule).next_fire(NOON - 1)
    assert first is not None
    ids = [UUID(int=number << 20 | number * 977_777_777_777) for number in range(1, 4)]
    members = tuple(Member(job_id, number % 3, first) for number, job_id in enumerate(ids))
    apart = schedule.jitter is not None or schedule.max_fires is not None
    found = total(Group(schedule, "default", 3, ids[0], None, members if apart else ()), _named(schedule))
    wanted: Counter[int] = Counter()
    for number, job_id in enumerate(ids):
        wanted += previewed(schedule, job_id, number % 3)
    assert wanted
    assert {minute: fires for minute, fires in found.items() if fires} == dict(wanted)


def test_many_jobs_with_jitter_are_spread_evenly_over_its_window() -> None:
    found = load_of(group(600, cron="0 * * * *", jitter="10m"), span=HOUR).minutes
    assert found[:11] == [pytest.approx(60.0)] * 10 + [0.0]
    assert sum(found) == pytest.approx(600)


def test_jobs_that_would_take_too_long_one_by_one_are_summed_up_together(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(forecast, "_MOST_APART", 100)
    members = tuple(Member(UUID(int=n << 100), 0, NOON) for n in range(50))
    found = total(group(50, members, every="1m", jitter="1m"))
    assert set(found.values()) == {50.0}


def test_work_comes_in_small_slices() -> None:
    for schedule in ({"every": "1m"}, {"every": "1s"}, {"every": "1m", "exclude": DATES}):
        parts = list(foresee(group(1, **schedule), (), NOON, NOON + 8 * DAY))
        assert max(map(len, parts)) <= 500
        assert len(parts) > 20


def test_peaks_name_their_makers_and_the_emptiest_minutes_are_free() -> None:
    groups = [group(500, cron="0 * * * *"), group(20, cron="* * * * *"), group(7, cron="30 * * * *")]
    load = load_of(*groups, span=HOUR)
    assert peaks(load) == [0]
    assert [(found.number, fires) for found, fires in makers(groups, NOON)] == [(500, 500), (20, 20)]
    assert 0 not in free(load)


def test_a_schedule_that_joins_a_peak_is_shown_a_free_minute_of_the_same_hour() -> None:
    load = load_of(group(500, cron="0 * * * *"))
    fitted = fit_of(load, Schedule(cron="0 15 * * *"), NOON)
    assert (fitted.joins, fitted.joins_peak, fitted.at) == (500, True, format_instant(NOON + 3 * HOUR))
    assert fitted.free_slots[0] == format_instant(NOON + 3 * HOUR + MINUTE)
    beside = fit_of(load, Schedule(cron="7 15 * * *"), NOON)
    assert (beside.joins, beside.joins_peak) == (0, False)
    assert fit_of(load, Schedule(cron="0 0 1 1 *"), NOON).at is None


def test_an_excluded_minute_that_begins_within_a_blackout_is_counted_fire_by_fire() -> None:
    exclude = Exclude(calendars=("holiday",))
    of = Group(Schedule(every="10s", exclude=exclude), "default", 1, UUID(int=1), None)
    found = total(of, [(NOON + 25 * SECOND, NOON + 2 * MINUTE + 30 * SECOND)])
    first = NOON // MINUTE
    assert [found.get(first + n, 0) for n in range(4)] == [3, 0, 3, 6]
