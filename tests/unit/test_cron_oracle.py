"""The engine against the oracle, and the properties that hold for every expression.

`TOCSIN_ORACLE_DRAWS=10000` makes the long run, `TOCSIN_ORACLE_SEED` another one.
"""

import os
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from functools import lru_cache
from itertools import islice
from random import Random
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.cron_oracle import Expression, draw_expression, oracle_fires
from tocsin.domain.cron import Cron, Dst
from tocsin.domain.errors import Refused
from tocsin.domain.instant import SECOND, from_datetime, to_datetime

# Twenty-one zones, each with the first of five years in which something happened to its clocks.
ZONES = {
    "UTC": 2022,
    "Europe/Berlin": 2022,
    "Europe/Dublin": 2023,
    "Europe/Istanbul": 2013,
    "America/New_York": 2022,
    "America/St_Johns": 2008,
    "America/Havana": 2021,
    "America/Sao_Paulo": 2015,
    "America/Caracas": 2014,
    "Africa/Cairo": 2022,
    "Africa/Casablanca": 2017,
    "Asia/Beirut": 2020,
    "Asia/Gaza": 2021,
    "Asia/Tehran": 2019,
    "Asia/Kathmandu": 1984,
    "Asia/Pyongyang": 2014,
    "Australia/Lord_Howe": 2022,
    "Antarctica/Troll": 2020,
    "Antarctica/Casey": 2009,  # three hours forward and back
    "Pacific/Apia": 2009,
    "Pacific/Chatham": 2021,
}
DRAWS = int(os.environ.get("TOCSIN_ORACLE_DRAWS", "200"))
SEED = os.environ.get("TOCSIN_ORACLE_SEED", "0")
FIRES_COMPARED = 20

expressions = st.builds(draw_expression, st.randoms(use_true_random=False), with_seconds=st.booleans())
zones = st.sampled_from([ZoneInfo(name) for name in ZONES])
policies = st.sampled_from(list(Dst))
bases = st.integers(
    from_datetime(datetime(1972, 2, 1, tzinfo=UTC)), from_datetime(datetime(2120, 1, 1, tzinfo=UTC))
)


def property_of(*arguments: st.SearchStrategy[Any]) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """`given` without a deadline: how long a draw takes is no property of the engine."""
    return lambda test: settings(deadline=None)(given(*arguments)(test))


@pytest.mark.parametrize("name", ZONES)
def test_minutes_agree_with_the_oracle(name: str) -> None:
    rng = Random(f"{SEED} {name}")
    until = datetime(ZONES[name] + 5, 1, 1, tzinfo=UTC)
    for _ in range(max(1, DRAWS // len(ZONES))):
        expression, base = _draw(rng, name, timedelta(days=3))
        _compare(expression, name, rng.choice(list(Dst)), base, until, step=60)


@pytest.mark.parametrize("name", ZONES)
def test_seconds_agree_with_the_oracle(name: str) -> None:
    rng = Random(f"{SEED} {name} seconds")
    for _ in range(max(1, DRAWS // len(ZONES) // 5)):
        expression, base = _draw(rng, name, timedelta(hours=2), with_seconds=True)
        _compare(expression, name, rng.choice(list(Dst)), base, base + timedelta(hours=4), step=1)


def _compare(expression: Expression, name: str, dst: Dst, base: datetime, until: datetime, step: int) -> None:
    zone = ZoneInfo(name)
    cron = _parse_possible(expression)
    if cron is None:
        return
    expected = list(islice(oracle_fires(expression, zone, dst, base, until, step), FIRES_COMPARED))
    last = from_datetime(until) - 1
    found = islice(cron.fires_between(from_datetime(base), last, zone, dst), FIRES_COMPARED)
    assert [to_datetime(fire) for fire in found] == expected, (expression.text, name, dst, base)


def _parse_possible(expression: Expression) -> Cron | None:
    """The expression compiled; None when it is refused as impossible and 28 years of days agree."""
    read = _parse(expression.text)
    if isinstance(read, Cron):
        return read
    assert "can never fire" in read.detail, (expression.text, read.detail)
    days = (date(2000, 1, 1) + timedelta(days=n) for n in range(28 * 366))
    assert not any(expression.matches_day(day) for day in days), expression.text
    return None


def _parse(text: str) -> Cron | Refused:
    try:
        return Cron.parse(text, "schedule.cron")
    except Refused as refused:
        return refused


def _draw(
    rng: Random, name: str, lead: timedelta, *, with_seconds: bool = False
) -> tuple[Expression, datetime]:
    """An expression and a base in the zone's five years, mostly aimed at a change of the zone's clocks."""
    changes = _changes(name)
    if changes and rng.random() < 0.75:
        change = rng.choice(changes)
        near_hour = change.astimezone(ZoneInfo(name)).hour
        base = change + rng.choice((-lead, -lead, timedelta(hours=1))) * rng.random()
    else:
        near_hour = None
        base = datetime(ZONES[name], 1, 1, tzinfo=UTC) + timedelta(days=5 * 365) * rng.random()
    expression = draw_expression(rng, with_seconds=with_seconds, near_hour=near_hour)
    return expression, base if rng.random() < 0.5 else base.replace(second=0, microsecond=0)


@lru_cache
def _changes(name: str) -> list[datetime]:
    """The hours in which the zone's offset changes."""
    zone = ZoneInfo(name)
    start = datetime(ZONES[name], 1, 1, tzinfo=UTC)
    hours = [start + timedelta(hours=n) for n in range(5 * 365 * 24)]
    offsets = [hour.astimezone(zone).utcoffset() for hour in hours]
    return [hours[n] for n in range(1, len(hours)) if offsets[n] != offsets[n - 1]]


@property_of(expressions, zones, policies, bases)
def test_fires_come_strictly_after_their_base_and_in_whole_seconds(
    expression: Expression, zone: ZoneInfo, dst: Dst, base: int
) -> None:
    cron = _parse_possible(expression)
    for _ in range(5 if cron else 0):
        fire = cron.next_fire(base, zone, dst)
        if fire is None:
            return
        assert fire > base
        assert fire % SECOND == 0
        base = fire


@property_of(expressions, zones, policies, bases, st.floats(0, 1))
def test_any_base_before_a_fire_and_not_before_the_previous_one_leads_to_it(
    expression: Expression, zone: ZoneInfo, dst: Dst, base: int, part: float
) -> None:
    cron = _parse_possible(expression)
    fire = cron and cron.next_fire(base, zone, dst)
    if not cron or fire is None:
        return
    between = min(base + int((fire - base) * part), fire - 1)
    assert cron.next_fire(between, zone, dst) == fire
    assert cron.next_fire(fire - 1, zone, dst) == fire


@property_of(expressions, zones, policies, bases)
def test_parsing_the_text_again_gives_an_equal_expression(
    expression: Expression, zone: ZoneInfo, dst: Dst, base: int
) -> None:
    cron = _parse_possible(expression)
    if cron is None:
        return
    again = Cron.parse(cron.text)
    assert again == cron
    assert hash(again) == hash(cron)
    assert again.next_fire(base, zone, dst) == cron.next_fire(base, zone, dst)


@property_of(expressions, zones, policies, bases)
def test_the_way_it_is_written_does_not_matter(
    expression: Expression, zone: ZoneInfo, dst: Dst, base: int
) -> None:
    cron = _parse_possible(expression)
    if cron is None:
        return
    rewritten = Cron.parse("  " + expression.text.lower().replace("?", "*").replace(" ", "\t  "))
    fresh_zone = ZoneInfo.no_cache(zone.key)
    assert (rewritten.times, rewritten.days) == (cron.times, cron.days)
    assert rewritten.next_fire(base, fresh_zone, dst) == cron.next_fire(base, zone, dst)


field_like = st.text("0123456789*/-,?LW#MONJAN", max_size=8)


@property_of(st.text(max_size=300) | st.lists(field_like, min_size=5, max_size=6).map(" ".join))
def test_any_text_is_read_or_refused_with_a_field_and_a_hint(text: str) -> None:
    read = _parse(text)
    if isinstance(read, Refused):
        assert read.field == "schedule.cron"
        assert read.hint
