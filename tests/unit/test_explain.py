"""Every way an execution can stand is put into words that say why."""

from typing import Any

import pytest

from tocsin.domain.explain import HELD, SKIP_REASONS, Facts, Step, Surroundings, explain
from tocsin.domain.instant import HOUR, MINUTE, SECOND, parse_instant
from tocsin.domain.lifecycle import State
from tocsin.domain.outcome import Attempt, Verdict
from tocsin.domain.waits import Held, Reason, Wait, kind_of

NOON = parse_instant("2031-05-05T12:00:00Z", "")
PLAIN: dict[str, Any] = {
    "state": State.QUEUED, "cause": "schedule", "due_at": NOON, "run_at": NOON, "started_at": None, "finished_at": None,
    "deadline_at": None, "attempt": 1, "attempts": [], "reason": None, "cancel_requested": False, "start_by": None,
    "overlap": None, "limit_key": None, "waits_for": None, "waits": [], "late_for": None,
}  # fmt: skip
HEALTHY = Surroundings(running=3, workers_of_queue=2, workers=2)


def steps(now: int = NOON, around: Surroundings = HEALTHY, **facts: Any) -> list[Step]:
    return explain(Facts(**(PLAIN | facts)), around, now)


def words(now: int = NOON, around: Surroundings = HEALTHY, **facts: Any) -> str:
    return " ".join(step.words for step in steps(now, around, **facts))


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
        ({"state": State.CLAIMED}, "has claimed it and has not started it yet"),
        ({"state": State.RUNNING, "started_at": NOON}, "Attempt 1 is running."),
        ({"state": State.RUNNING, "started_at": NOON, "cancel_requested": True}, "asked to stop"),
        ({"state": State.SUCCEEDED, "started_at": NOON + 3000}, "3.0 ms after it was due"),
        (
            {"state": State.SUCCEEDED, "started_at": NOON + 3 * MINUTE},
            "3m after it was due. For 3m of that no cause was recorded",
        ),
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


@pytest.mark.parametrize(
    ("waits_for", "known", "said"),
    [
        ("host", "host:line", "The line of calls for the host of its target is too long"),
        ("host", "host:rest", "The host of its target is given a rest after failing"),
        ("host", "host:name", "The name of its target's host has no answer yet"),
        ("host", "host:token", "The host that gives tokens for its target is given a rest after failing"),
        ("host", "slot", "It waits for the host of its target"),
        ("host", "host:of a newer version", "It waits for the host of its target"),
        ("version", "version:newer", "It waits for a worker that can read it: a newer version wrote it"),
        ("version", "version:key", "It waits for a worker that has the key of its secrets"),
        ("version", None, "It waits for a worker that can use it"),
        ("task", "task", "Its task put it off"),
        ("descriptors", "descriptors", "A worker had no file descriptor left for its call"),
    ],
)
def test_what_was_put_off_says_what_is_known_of_why_and_no_more(
    waits_for: str, known: str | None, said: str
) -> None:
    told = steps(waits_for=waits_for, waits=[Wait(known, NOON)] if known else [], run_at=NOON + 5 * SECOND)[
        -1
    ]
    assert (told.kind, told.words) == (waits_for, f"{said}: the next try is at 2031-05-05T12:00:05Z.")


def test_no_sentence_about_a_wait_leaves_open_which_of_two_causes_it_was() -> None:
    kinds = {kind_of(reason) for reason in Reason} - {Reason.SUSPENSION, Reason.QUEUE_PAUSED}
    assert kinds <= HELD.keys()
    assert [words for words in HELD.values() if " or " in words] == []
    for state in (State.CLAIMED, State.QUEUED):
        assert " or " not in words(NOON + MINUTE, state=state)


@pytest.mark.parametrize("cause", ["schedule", "catch_up", "manual", "backfill", "rerun"])
def test_where_an_execution_comes_from_is_told_first(cause: str) -> None:
    first = steps(cause=cause)[0]
    assert first.kind == "origin"
    assert len(first.words) > 20


def test_earlier_attempts_are_told_in_order_and_a_lost_worker_is_named() -> None:
    attempts = [
        Attempt(1, Verdict.FAILED, NOON, NOON + SECOND, 1, "500"),
        Attempt(2, Verdict.LOST, NOON + 2 * SECOND, NOON + 12 * SECOND, 1, None),
    ]
    said = words(attempts=attempts, attempt=3, run_at=NOON + 20 * SECOND)
    assert (
        said.index("Attempt 1 failed: 500")
        < said.index("Attempt 2 was lost")
        < said.index("waits for attempt 3")
    )


LATE: dict[str, Any] = {"state": State.SUCCEEDED, "finished_at": NOON + HOUR}


@pytest.mark.parametrize(
    ("reason", "said"),
    [
        ("turn", "an earlier execution of the job had the turn (overlap: queue)"),
        ("slot", "no slot of its limit key 'db' was free"),
        ("rate", "the rate of its limit key 'db'"),
        ("tenant_limit", "its tenant's limits were used up"),
        ("tenant_limit:in_flight", "limit of executions in flight was used up"),
        ("tenant_limit:fires", "limit of fires per second was used up"),
        ("host", "it waited for the host of its target"),
        ("host:line", "the line of calls for the host of its target was too long"),
        ("host:rest", "the host of its target was at rest after failing"),
        ("host:name", "the name of its target's host had no answer yet"),
        ("host:token", "the host that gives tokens for its target was at rest after failing"),
        ("place", "its worker was busy with other executions"),
        ("place:others", "other workers were running and did not take it"),
        ("descriptors", "no file descriptor left"),
        ("version", "no worker was there that can use it"),
        ("version:newer", "a newer version wrote it"),
        ("version:key", "has the key of its secrets"),
        ("outage", "no worker was running"),
        ("outage:database", "its worker could not reach the database"),
        ("worker", "vanished before starting it"),
        ("planning", "no scheduler had planned it"),
        ("of a newer version", "it waited (of a newer version)"),
        ("host:of a newer version", "it waited for the host of its target"),
    ],
)
def test_each_wait_is_told_with_its_reason_and_its_length(reason: str, said: str) -> None:
    told = steps(
        **LATE, overlap="queue", limit_key="db", waits=[Wait(reason, NOON)], run_at=NOON + 5 * SECOND,
        started_at=NOON + 5 * SECOND,
    )  # fmt: skip
    wait = next(step for step in told if step.kind == kind_of(reason))
    assert wait == Step(kind_of(reason), wait.words, NOON, NOON + 5 * SECOND)
    assert said in wait.words
    assert "For 5s" in wait.words
    assert "no cause" not in " ".join(step.words for step in told)


def test_waits_follow_each_other_and_the_rest_is_what_the_worker_said_when_it_started() -> None:
    told = steps(
        **LATE, waits=[Wait("slot", NOON), Wait("turn", NOON + 3 * SECOND)], late_for="place",
        run_at=NOON + 7 * SECOND, started_at=NOON + 9 * SECOND,
    )  # fmt: skip
    waits = [(step.kind, step.since, step.until) for step in told if step.until and step.kind != "succeeded"]
    assert waits == [
        ("slot", NOON, NOON + 3 * SECOND),
        ("turn", NOON + 3 * SECOND, NOON + 7 * SECOND),
        ("place", NOON + 7 * SECOND, NOON + 9 * SECOND),
    ]


def test_lateness_that_no_record_covers_is_said_to_have_no_recorded_cause() -> None:
    said = words(**LATE, waits=[Wait("slot", NOON, NOON + 2 * SECOND)], started_at=NOON + 10 * SECOND)
    assert "For 8s of that no cause was recorded" in said


def test_waits_of_later_attempts_are_not_taken_for_the_lateness_of_the_first() -> None:
    attempts = [Attempt(1, Verdict.FAILED, NOON, NOON + SECOND, 1, "500")]
    told = steps(
        **LATE, attempts=attempts, attempt=2, waits=[Wait("host", NOON + 5 * SECOND)], run_at=NOON + MINUTE,
        started_at=NOON + MINUTE,
    )  # fmt: skip
    assert "host" not in [step.kind for step in told]


@pytest.mark.parametrize(
    ("around", "kind"),
    [
        (Surroundings(running=3, workers_of_queue=2, workers=2, tenant_suspended=True), "suspension"),
        (Surroundings(running=3, workers_of_queue=2, workers=2, queue_paused_at=NOON), "queue_paused"),
        (Surroundings(), "outage"),
        (Surroundings(task="shop.send", running=2, workers_of_queue=2), "unserved"),
        (Surroundings(running=1), "unserved"),
        (Surroundings(running=2, workers_of_queue=1), "unserved"),
        (
            Surroundings(running=3, workers_of_queue=2, workers=2, in_flight=5, in_flight_limit=5),
            "tenant_limit",
        ),
        (Surroundings(running=3, workers_of_queue=2, workers=2, in_flight=4, in_flight_limit=5), "ready"),
        (Surroundings(running=3, workers_of_queue=2, workers=2, saturated=2), "place"),
        (Surroundings(running=3, workers_of_queue=2, workers=2, saturated=1), "ready"),
        (Surroundings(running=3, workers_of_queue=2, workers=2, fires_per_second=0.5), "tenant_limit"),
    ],
)
def test_what_is_due_and_queued_is_told_what_stands_in_its_way_now(around: Surroundings, kind: str) -> None:
    assert steps(NOON + MINUTE, around)[-1].kind == kind


def test_while_its_queue_was_paused_nothing_else_held_an_execution_back() -> None:
    facts = Facts(**(PLAIN | LATE | {"started_at": NOON + 10 * SECOND, "late_for": "place"}))
    pauses = [
        Held(NOON - HOUR, NOON + 2 * SECOND, "key_a"),
        Held(NOON + 4 * SECOND, NOON + 9 * SECOND, "key_b", "vendor down"),
    ]
    told = explain(facts, HEALTHY, NOON + HOUR, pauses)
    waits = [(step.kind, step.since, step.until) for step in told if step.until is not None][:4]
    assert waits == [
        ("queue_paused", NOON, NOON + 2 * SECOND),
        ("place", NOON + 2 * SECOND, NOON + 4 * SECOND),
        ("queue_paused", NOON + 4 * SECOND, NOON + 9 * SECOND),
        ("place", NOON + 9 * SECOND, NOON + 10 * SECOND),
    ]
    assert "For 5s its queue was paused by key_b (vendor down)." in [step.words for step in told]
    assert "no cause" not in " ".join(step.words for step in told)


def test_a_further_attempt_in_a_paused_queue_says_so() -> None:
    attempts = [Attempt(1, Verdict.FAILED, NOON, NOON + SECOND, 1, "500")]
    around = Surroundings(running=1, workers=1, queue_paused_at=NOON, queue_paused_by="key_a")
    assert steps(NOON + HOUR, around, attempts=attempts, attempt=2)[-1].kind == "queue_paused"
