"""What targets are told about an attempt, and the target that does nothing."""

from uuid import UUID

import pytest

from tocsin.domain.ids import parse_execution_text, parse_job_text
from tocsin.domain.instant import MILLISECOND, SECOND
from tocsin.domain.outcome import SUCCEEDED
from tocsin.domain.target import NoopTarget
from tocsin.targets.assignment import Assignment
from tocsin.targets.http.headers import own_headers
from tocsin.targets.noop.caller import NoopCaller

DUE = 1_900_000_000 * SECOND
JOB = UUID(int=7)


def assignment(attempt: int = 1, late: int = 0, **more: int) -> Assignment:
    """The attempt was to run two seconds after its execution was due, and started `late` after that."""
    run_at = DUE + 2 * SECOND
    return Assignment(JOB, DUE, 1, attempt, 99, DUE, run_at, run_at + late, **more)


def test_the_idempotency_key_is_the_same_over_attempts_and_names_the_execution() -> None:
    first, second = own_headers(assignment()), own_headers(assignment(attempt=2, late=SECOND))
    assert first["idempotency-key"] == second["idempotency-key"] == first["tocsin-execution"]
    assert parse_execution_text(first["idempotency-key"]) == (JOB, DUE)
    assert parse_job_text(first["tocsin-job"]) == JOB


def test_a_trace_is_the_executions_and_a_span_the_attempts() -> None:
    first, again, second = (own_headers(assignment(attempt=n))["traceparent"].split("-") for n in (1, 1, 2))
    assert first == again
    assert (first[1] == second[1], first[2] == second[2]) == (True, False)


@pytest.mark.parametrize(("attempt", "late", "lag"), [(1, 0, 2000), (2, 250, 250), (2, -3, 0)])
def test_lag_counts_from_when_the_attempt_was_to_start(attempt: int, late: int, lag: int) -> None:
    assert own_headers(assignment(attempt, late * MILLISECOND))["tocsin-lag-ms"] == str(lag)


def test_an_execution_that_is_run_again_tells_the_fire_time_of_the_first() -> None:
    assert own_headers(assignment())["tocsin-fire-at"] == "2030-03-17T17:46:40Z"
    assert (
        own_headers(assignment(origin_fire_at=DUE - 60 * SECOND))["tocsin-fire-at"] == "2030-03-17T17:45:40Z"
    )


def test_the_noop_target_succeeds_at_once_with_nothing_to_tell() -> None:
    assert NoopTarget.answers_at_once
    assert NoopCaller().answer_at_once(NoopTarget()) is SUCCEEDED
