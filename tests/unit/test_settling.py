"""What follows from an attempt's outcome: the same for a worker, a gateway and the reclaimer."""

import json
from typing import Any

import pytest

from tocsin.domain.instant import MINUTE, SECOND
from tocsin.domain.lifecycle import State
from tocsin.domain.outcome import SUCCEEDED, Outcome, Verdict, fingerprint
from tocsin.domain.policy import Retry
from tocsin.domain.settling import STOPPED, Ended, Retried, Tried, settle

NOW = 1_000_000 * SECOND
FAILED = Outcome(Verdict.FAILED, "answered 500", {"status": 500})


def tried(**changes: Any) -> Tried:
    return Tried(
        **{"number": 1, "counted": 1, "started_at": NOW, "finished_at": NOW + SECOND, "node_id": 7} | changes
    )


def test_a_success_ends_it_and_leaves_no_reason_and_no_fingerprint() -> None:
    ended = settle(tried(), SUCCEEDED, Retry(), 0.5)
    assert ended == Ended(State.SUCCEEDED, '{"verdict":"succeeded"}', None, None)


def test_a_failure_is_tried_again_with_a_record_of_itself_and_an_end_in_case_it_is_stopped() -> None:
    again = settle(tried(worker_id=9), FAILED, Retry(max_attempts=2), 0.5)
    assert isinstance(again, Retried)
    assert again.run_at > NOW + SECOND
    assert json.loads(again.record) == {
        "number": 1,
        "verdict": "failed",
        "started_at": NOW,
        "finished_at": NOW + SECOND,
        "node_id": 7,
        "error": "answered 500",
        "detail": {"status": 500},
        "worker_id": 9,
    }
    assert (again.if_stopped.state, again.if_stopped.reason) == (State.CANCELLED, STOPPED)
    assert json.loads(again.if_stopped.outcome)["error"] == "answered 500"
    assert again.if_stopped.fingerprint is None, "only what is dead has one"


@pytest.mark.parametrize(
    ("attempt", "outcome", "retry"),
    [
        (tried(counted=2), FAILED, Retry(max_attempts=2)),
        (tried(), Outcome(Verdict.REJECTED, "answered 500"), Retry(max_attempts=2)),
        (tried(due_at=NOW - MINUTE), FAILED, Retry(max_attempts=9, max_age="1m")),
    ],
)
def test_without_another_attempt_it_is_dead_and_its_error_has_a_fingerprint(
    attempt: Tried, outcome: Outcome, retry: Retry
) -> None:
    ended = settle(attempt, outcome, retry, 0.5)
    assert isinstance(ended, Ended)
    assert (ended.state, ended.reason, ended.fingerprint) == (
        State.DEAD,
        "answered 500",
        fingerprint("answered 500"),
    )


def test_what_a_task_skipped_says_why_and_has_no_fingerprint() -> None:
    ended = settle(tried(), Outcome(Verdict.SKIPPED, "nothing new"), Retry(), 0.5)
    assert isinstance(ended, Ended)
    assert (ended.state, ended.reason, ended.fingerprint) == (State.SKIPPED, "nothing new", None)


def test_what_the_database_cannot_store_is_replaced_everywhere() -> None:
    nul = Outcome(Verdict.FAILED, "a\x00b")
    ended, again = (settle(tried(), nul, Retry(max_attempts=count), 0.5) for count in (1, 2))
    assert isinstance(ended, Ended)
    assert isinstance(again, Retried)
    assert "\x00" not in (ended.reason or "")
    assert all("\\u0000" not in text for text in (ended.outcome, again.record, again.if_stopped.outcome))


def test_an_attempt_ends_no_earlier_than_it_began() -> None:
    again = settle(tried(finished_at=NOW - SECOND), FAILED, Retry(max_attempts=2), 0.5)
    assert isinstance(again, Retried)
    record = json.loads(again.record)
    assert record["finished_at"] == record["started_at"]
