"""Every way an execution can stand is put into words that say why."""

from typing import Any

import pytest

from tocsin.domain.explain import SKIP_REASONS, Facts, explain
from tocsin.domain.instant import HOUR, MINUTE, SECOND, parse_instant
from tocsin.domain.lifecycle import State
from tocsin.domain.outcome import Attempt, Verdict

NOON = parse_instant("2031-05-05T12:00:00Z", "")
PLAIN: dict[str, Any] = {
    "state": State.QUEUED, "cause": "schedule", "due_at": NOON, "run_at": NOON, "started_at": None, "finished_at": None,
    "deadline_at": None, "attempt": 1, "attempts": [], "reason": None, "cancel_requested": False, "start_by": None,
    "overlap": None, "limit_key": None, "waits_for": None,
}  # fmt: skip


def words(now: int = NOON, **facts: Any) -> str:
    return " ".join(explain(Facts(**(PLAIN | facts)), now))


@pytest.mark.parametrize("reason", sorted(SKIP_REASONS))
def test_every_reason_for_a_skip_is_spelled_out(reason: str) -> None:
    said = words(state=State.SKIPPED, reason=reason, finished_at=NOON)
    assert SKIP_REASONS[reason] in said
    assert reason not in said or reason in SKIP_REASONS[reason]


def test_the_planner_gives_no_reason_that_cannot_be_explained() -> None:
    given = {
        "misfire_too_old",
        "misfire_skipped",
        "misfire_superseded",
        "misfire_over_max",
        "blackout",
        "paused",
    }
    assert given | {"overlap", "skip_next"} <= SKIP_REASONS.keys()


@pytest.mark.parametrize(
    ("facts", "said"),
    [
        ({"due_at": NOON + HOUR, "run_at": NOON + HOUR}, "due in 1h"),
        ({"due_at": NOON - MINUTE, "run_at": NOON - MINUTE}, "due for 1m"),
        (
            {"waits_for": "turn", "overlap": "queue"},
            "waits for an earlier execution of the job (overlap: queue)",
        ),
        ({"waits_for": "slot", "limit_key": "db"}, "'db'"),
        ({"waits_for": "rate", "limit_key": "mail", "run_at": NOON + 5 * SECOND}, "12:00:05"),
        ({"state": State.CLAIMED, "run_at": NOON + 2 * SECOND}, "starts it in 2s"),
        ({"waits_for": "version", "run_at": NOON + 5 * SECOND}, "a worker of a newer version"),
        ({"state": State.CLAIMED}, "about to start"),
        ({"state": State.RUNNING, "started_at": NOON}, "Attempt 1 is running."),
        ({"state": State.RUNNING, "started_at": NOON, "cancel_requested": True}, "asked to stop"),
        ({"state": State.SUCCEEDED, "started_at": NOON + 3000}, "3.0 ms after it was due"),
        ({"state": State.SUCCEEDED, "started_at": NOON + 3 * MINUTE}, "3m late"),
        (
            {"state": State.SUCCEEDED, "started_at": NOON + HOUR, "cause": "catch_up"},
            "because it had been missed",
        ),
        (
            {"state": State.CANCELLED, "reason": "replaced by a newer execution"},
            "replaced by a newer execution",
        ),
        ({"state": State.EXPIRED}, "start_within"),
        ({"state": State.DEAD, "reason": "500", "started_at": NOON, "attempt": 3}, "Attempt 3 failed"),
    ],
)
def test_where_an_execution_stands_is_told(facts: dict[str, Any], said: str) -> None:
    assert said in words(**facts)


@pytest.mark.parametrize("cause", ["schedule", "catch_up", "manual", "backfill", "rerun"])
def test_where_an_execution_comes_from_is_told_first(cause: str) -> None:
    assert len(explain(Facts(**(PLAIN | {"cause": cause})), NOON)[0]) > 20


def test_earlier_attempts_are_told_in_order_and_a_lost_worker_is_named() -> None:
    attempts = [
        Attempt(1, Verdict.FAILED, NOON, NOON + SECOND, 1, "500"),
        Attempt(2, Verdict.LOST, NOON + 2 * SECOND, NOON + 12 * SECOND, 1, None),
    ]
    said = words(attempts=attempts, attempt=3, run_at=NOON + 20 * SECOND)
    assert (
        said.index("waits for attempt 3")
        < said.index("Attempt 1 failed: 500")
        < said.index("Attempt 2 was lost")
    )
