"""Backoff keeps its bounds, and policies that make no sense are refused by the field's name."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tocsin.domain.errors import Refused
from tocsin.domain.instant import DAY, SECOND, parse_span
from tocsin.domain.policy import (
    MAX_ATTEMPTS,
    Limit,
    Misfire,
    MisfirePolicy,
    Policies,
    Retry,
    backoff,
    check_policies,
    may_retry,
)


@st.composite
def retries(draw: st.DrawFn) -> Retry:
    longest = draw(st.floats(0, 30 * 86400))
    return Retry(
        draw(st.integers(1, MAX_ATTEMPTS)),
        draw(st.floats(0, longest)),
        longest,
        draw(st.floats(1, 100)),
        draw(st.floats(0, 1)),
    )


chances = st.floats(0, 1, exclude_max=True)


@given(retries(), st.integers(1, MAX_ATTEMPTS), chances)
def test_backoff_lies_between_the_jittered_least_and_the_longest(
    retry: Retry, attempt: int, chance: float
) -> None:
    wait = backoff(retry, attempt, chance)
    initial, longest = (parse_span(span, "") for span in (retry.initial_backoff, retry.max_backoff))
    assert int(initial * (1 - retry.jitter)) <= wait <= longest


@given(retries(), chances)
def test_backoff_never_shrinks_from_one_attempt_to_the_next(retry: Retry, chance: float) -> None:
    waits = [backoff(retry, attempt, chance) for attempt in range(1, MAX_ATTEMPTS + 1)]
    assert waits == sorted(waits)


@given(retries(), st.integers(1, MAX_ATTEMPTS))
def test_without_jitter_chance_does_not_matter(retry: Retry, attempt: int) -> None:
    plain = msgspec.structs.replace(retry, jitter=0.0)
    assert backoff(plain, attempt, 0.0) == backoff(plain, attempt, 0.999)


def test_backoff_doubles_from_the_first_wait_to_the_longest() -> None:
    retry = Retry(initial_backoff="1s", max_backoff="10s", jitter=0.0)
    assert [backoff(retry, n, 0.5) // SECOND for n in range(1, 7)] == [1, 2, 4, 8, 10, 10]


@given(st.integers(1, MAX_ATTEMPTS), st.integers(0, 2 * MAX_ATTEMPTS))
def test_attempts_end_exactly_at_the_most_allowed(most: int, made: int) -> None:
    assert may_retry(Retry(most), made) == (made < most)


@given(retries())
def test_every_retry_within_the_limits_is_accepted_and_survives_storage(retry: Retry) -> None:
    policies = Policies(retry)
    check_policies(policies)
    assert msgspec.json.decode(msgspec.json.encode(policies), type=Policies) == policies


@given(st.sampled_from(MisfirePolicy), st.integers(1, 1000))
def test_a_misfire_policy_says_how_many_missed_fire_times_run(policy: MisfirePolicy, most: int) -> None:
    kept = {MisfirePolicy.SKIP: 0, MisfirePolicy.FIRE_ONCE: 1, MisfirePolicy.FIRE_ALL: most}
    assert Misfire(policy, max=most).kept == kept[policy]


@pytest.mark.parametrize(
    ("policies", "field"),
    [
        (Policies(Retry(max_attempts=0)), "retry.max_attempts"),
        (Policies(Retry(max_attempts=MAX_ATTEMPTS + 1)), "retry.max_attempts"),
        (Policies(Retry(multiplier=0.99)), "retry.multiplier"),
        (Policies(Retry(multiplier=101)), "retry.multiplier"),
        (Policies(Retry(multiplier=float("nan"))), "retry.multiplier"),
        (Policies(Retry(jitter=-0.1)), "retry.jitter"),
        (Policies(Retry(jitter=1.1)), "retry.jitter"),
        (Policies(Retry(initial_backoff="6m")), "retry.initial_backoff"),
        (Policies(Retry(initial_backoff=-1)), "retry.initial_backoff"),
        (Policies(Retry(max_backoff=float(31 * DAY // SECOND))), "retry.max_backoff"),
        (Policies(Retry(max_backoff="soon")), "retry.max_backoff"),
        (Policies(misfire=Misfire(lookback="367d")), "misfire.lookback"),
        (Policies(misfire=Misfire(max=0)), "misfire.max"),
        (Policies(misfire=Misfire(pace="2h")), "misfire.pace"),
        (Policies(timeout="10ms"), "timeout"),
        (Policies(timeout="25h"), "timeout"),
        (Policies(start_within="500ms"), "start_within"),
        (Policies(pause_after=0), "pause_after"),
        (Policies(pause_after=101), "pause_after"),
        (Policies(limit=Limit("")), "limit.key"),
        (Policies(limit=Limit("k")), "limit"),
        (Policies(limit=Limit("k", max_parallel=0)), "limit.max_parallel"),
        (Policies(limit=Limit("k", rate=0)), "limit.rate"),
        (Policies(limit=Limit("k", rate=1, per="2d")), "limit.per"),
    ],
)
def test_a_policy_without_sense_is_refused_by_the_name_of_its_field(policies: Policies, field: str) -> None:
    with pytest.raises(Refused) as refusal:
        check_policies(policies)
    assert refusal.value.field == field
