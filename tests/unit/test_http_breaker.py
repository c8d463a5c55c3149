"""The breaker: a host that fails in a row rests, one probe at a time looks after it, and nothing waits for
ever."""

import pytest

from tocsin.domain.instant import SECOND
from tocsin.domain.outcome import Outcome, Verdict
from tocsin.targets.http.breaker import (
    FIRST_REST,
    LONGEST_REST,
    LONGEST_WAIT,
    TRIP_AFTER,
    Host,
    HostBreaker,
    is_away,
)

HOST: Host = (1, "example.com", 443)


def _tripped(now: int = 0) -> HostBreaker:
    breaker = HostBreaker()
    for _ in range(TRIP_AFTER):
        assert breaker.wait(HOST, now, now) is None
        breaker.report(HOST, now, failed=True)
    return breaker


def test_calls_flow_until_a_host_has_failed_often_enough_in_a_row() -> None:
    breaker = HostBreaker()
    for turn in range(10 * TRIP_AFTER):
        assert breaker.wait(HOST, 0, 0) is None
        breaker.report(HOST, 0, failed=turn % TRIP_AFTER != TRIP_AFTER - 1)
    assert _tripped().wait(HOST, 0, 0) is not None


def test_a_rest_puts_calls_off_until_it_is_over_and_a_little_spread() -> None:
    breaker = _tripped()
    waits = [breaker.wait(HOST, 0, 0) for _ in range(100)]
    assert all(wait is not None and FIRST_REST <= wait <= 2 * FIRST_REST for wait in waits)
    assert len(set(waits)) > 50


def test_after_the_rest_one_call_goes_through_and_the_others_wait_for_it() -> None:
    breaker = _tripped()
    now = FIRST_REST
    assert breaker.wait(HOST, now, now) is None
    assert all(breaker.wait(HOST, now, now) is not None for _ in range(10))
    breaker.report(HOST, now, failed=False)
    assert all(breaker.wait(HOST, now, now) is None for _ in range(10))


def test_each_failed_probe_makes_the_rest_longer_up_to_a_bound() -> None:
    breaker, now, rests = _tripped(), 0, []
    for _ in range(6):
        rest = next(n for n in range(60) if _is_open_after(breaker, now, n))
        rests.append(rest * SECOND)
        now += rest * SECOND
        assert breaker.wait(HOST, now, now) is None
        breaker.report(HOST, now, failed=True)
    assert rests == [1 * SECOND, 2 * SECOND, 4 * SECOND, 8 * SECOND, LONGEST_REST, LONGEST_REST]


def _is_open_after(breaker: HostBreaker, now: int, seconds: int) -> bool:
    """Whether a probe would go through then; it is taken back at once."""
    if breaker.wait(HOST, now + seconds * SECOND, now + seconds * SECOND) is not None:
        return False
    breaker.forget(HOST)
    return True


def test_a_probe_that_tells_nothing_leaves_its_place_to_the_next() -> None:
    breaker = _tripped()
    assert breaker.wait(HOST, 0, FIRST_REST) is None
    assert breaker.wait(HOST, 0, FIRST_REST) is not None
    breaker.forget(HOST)
    assert breaker.wait(HOST, 0, FIRST_REST) is None


def test_calls_that_were_under_way_when_the_rest_began_do_not_make_it_longer() -> None:
    breaker = _tripped()
    for _ in range(100):
        breaker.report(HOST, 0, failed=True)
    assert breaker.wait(HOST, 0, FIRST_REST) is None


def test_what_has_been_due_for_long_is_called_regardless() -> None:
    assert _tripped(LONGEST_WAIT).wait(HOST, 0, LONGEST_WAIT) is None


@pytest.mark.parametrize("other", [(2, "example.com", 443), (1, "example.org", 443), (1, "example.com", 80)])
def test_other_tenants_hosts_and_ports_are_not_concerned(other: Host) -> None:
    assert _tripped().wait(other, 0, 0) is None


def test_what_counts_against_a_host_is_that_it_is_away() -> None:
    away = [
        Outcome(Verdict.TIMED_OUT),
        *(Outcome(Verdict.FAILED, failure=f) for f in ("network", "502", "503", "504")),
    ]
    there = [Outcome(Verdict.SUCCEEDED), *(Outcome(Verdict.FAILED, failure=f) for f in ("500", "429", "404"))]
    assert all(is_away(outcome) for outcome in away)
    assert not any(is_away(outcome) for outcome in there)
