"""Limits of tenants: defaults and overrides, sizes, intervals, buckets. Time is given."""

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tocsin.domain.audit import Mask
from tocsin.domain.errors import Refused
from tocsin.domain.instant import DAY, HOUR, MINUTE, SECOND, parse_instant
from tocsin.domain.limits import (
    Bucket,
    OverLimit,
    TenantLimits,
    check_interval,
    check_limits,
    check_payload,
    shortest_interval,
)
from tocsin.domain.schedule import Schedule
from tocsin.domain.target import HttpTarget
from tocsin.settings import Settings

NOW = parse_instant("2026-03-01T12:00:30Z", "")


def test_a_tenants_own_limits_win_over_the_defaults_and_the_rest_stays() -> None:
    defaults = TenantLimits(pending_jobs=10, payload_bytes=100)
    assert TenantLimits(pending_jobs=5, in_flight=3).over(defaults) == TenantLimits(
        pending_jobs=5, payload_bytes=100, in_flight=3
    )
    assert TenantLimits().over(TenantLimits()) == TenantLimits()


def test_every_limit_has_a_default_in_the_settings() -> None:
    given = {f"limit_{name}": number for number, name in enumerate(TenantLimits.__struct_fields__, 1)}
    given["history_days"] = given.pop("limit_history_days")
    assert msgspec.structs.asdict(Settings(**given).tenant_limits) == {
        name: number for number, name in enumerate(TenantLimits.__struct_fields__, 1)
    }


def test_stored_limits_of_a_newer_version_are_read_by_an_older_one() -> None:
    stored = b'{"in_flight": 3, "something_new": 1}'
    assert msgspec.json.decode(stored, type=TenantLimits) == TenantLimits(in_flight=3)


@pytest.mark.parametrize("limits", [{"pending_jobs": 0}, {"requests_per_second": 0}, {"in_flight": -1}])
def test_a_limit_of_nothing_is_no_limit_that_anybody_means(limits: dict[str, Any]) -> None:
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert(limits, TenantLimits)


def test_a_shortest_interval_is_a_duration_up_to_a_day() -> None:
    check_limits(TenantLimits(min_interval="1d"))
    for wrong in ("2d", "soon", -1):
        with pytest.raises(Refused):
            check_limits(TenantLimits(min_interval=wrong))


def test_a_target_may_be_as_large_as_the_limit_and_no_larger() -> None:
    target = HttpTarget("https://example.com/", body="x" * 100)
    size = len(msgspec.json.encode(target))
    check_payload(TenantLimits(), target)
    check_payload(TenantLimits(payload_bytes=size), target)
    with pytest.raises(OverLimit, match="payload_bytes") as refused:
        check_payload(TenantLimits(payload_bytes=size - 1), target)
    assert (refused.value.status, refused.value.field) == (413, "target")


@pytest.mark.parametrize(
    ("schedule", "shortest"),
    [
        (Schedule(every="90s"), 90 * SECOND),
        (Schedule(cron="* * * * * *"), SECOND),
        (Schedule(cron="*/5 * * * *"), 5 * MINUTE),
        (Schedule(cron="0,1 0 * * *"), MINUTE),
        (Schedule(cron="0 0 1 1 *"), 365 * DAY),
        (Schedule(any_of=(Schedule(cron="0 * * * *"), Schedule(cron="59 23 * * *"))), MINUTE),
        (Schedule(every="1h", ends_at="2026-03-01T13:30:00Z"), None),
        (Schedule(at="2030-01-01T00:00:00Z"), None),
    ],
)
def test_the_shortest_interval_of_a_schedule(schedule: Schedule, shortest: int | None) -> None:
    assert shortest_interval(schedule, NOW) == shortest


def test_a_schedule_that_fires_too_often_is_refused_by_the_name_of_the_limit() -> None:
    limits = TenantLimits(min_interval="1m")
    check_interval(limits, Schedule(every="60s"), NOW)
    check_interval(limits, Schedule(at="2030-01-01T00:00:00Z"), NOW)
    with pytest.raises(OverLimit, match="min_interval") as refused:
        check_interval(limits, Schedule(every="59s"), NOW)
    assert (refused.value.status, refused.value.field) == (422, "schedule")


def test_a_bucket_gives_its_burst_at_once_and_then_its_rate() -> None:
    bucket = Bucket(10, 5, now=0)
    assert [bucket.take(0).granted for _ in range(6)] == [True] * 5 + [False]
    refusal = bucket.take(0)
    assert refusal.retry_after == pytest.approx(0.1)
    assert refusal.full_after == pytest.approx(0.5)
    assert bucket.take(0.1).granted
    assert not bucket.take(0.15).granted
    assert bucket.take(100).remaining == 4


def test_a_slow_rate_still_lets_one_through() -> None:
    bucket = Bucket(0.1, None, now=0)
    assert bucket.quota == 1
    assert bucket.take(0).granted
    assert not bucket.take(9.9).granted
    assert bucket.take(10).granted


def test_a_changed_rate_forgets_nothing_that_was_used() -> None:
    bucket = Bucket(1, 100, now=0)
    for _ in range(100):
        bucket.take(0)
    bucket.change(1000, 1000)
    assert not bucket.take(0).granted
    assert bucket.take(0.002).granted
    bucket.change(1, 1)
    assert bucket.quota == 1


@given(
    rate=st.floats(0.1, 1000),
    burst=st.integers(1, 100),
    gaps=st.lists(st.floats(0, 2), max_size=200),
)
def test_no_window_ever_sees_more_than_burst_plus_rate(rate: float, burst: int, gaps: list[float]) -> None:
    bucket, now, granted = Bucket(rate, burst, now=0), 0.0, []
    for gap in gaps:
        now += gap
        if bucket.take(now).granted:
            granted.append(now)
    for start in range(len(granted)):
        for end in range(start, len(granted)):
            assert end - start + 1 <= burst + rate * (granted[end] - granted[start]) + 1e-6


def test_a_clock_that_steps_back_gives_nothing_away() -> None:
    bucket = Bucket(1, 1, now=HOUR)
    assert bucket.take(HOUR).granted
    assert not bucket.take(0).granted


# What the audit log shows of a target.


def test_a_mask_hides_what_may_be_secret_and_keeps_the_rest() -> None:
    target = {
        "kind": "http",
        "url": "https://user:SECRET@hooks.example.com:8443/SECRET/path?token=SECRET#SECRET",
        "method": "POST",
        "headers": {"Authorization": "SECRET"},
        "body": {"deep": ["SECRET"]},
        "something_new": "SECRET",
    }
    shown = Mask().target(target)
    assert "SECRET" not in repr(shown)
    assert shown["url"].startswith("https://hooks.example.com:8443/***")
    assert (shown["kind"], shown["method"], list(shown["headers"])) == ("http", "POST", ["Authorization"])
    assert set(shown) == set(target)


def test_a_mask_shows_whether_two_values_are_the_same_and_another_mask_tells_nothing() -> None:
    mask = Mask()
    assert mask.hide({"a": 1, "b": 2}) == mask.hide({"b": 2, "a": 1})
    assert mask.hide("one") != mask.hide("two")
    assert mask.hide("one") != Mask().hide("one")


@pytest.mark.parametrize(
    "url", ["", "http://[", "https://example.com", "//x", "SECRET", "http://h:99999999/"]
)
def test_whatever_stands_for_an_address_is_masked_without_trouble(url: str) -> None:
    assert "SECRET" not in Mask().target({"url": url})["url"]
