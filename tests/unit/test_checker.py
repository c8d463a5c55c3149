"""The checker of the fault runs must itself be trusted: it passes a good history and fails each bad one.

The good history has a one-off, a one-off whose first worker was lost, one that failed once, one that was
cancelled in time, one that was cancelled too late and one that was asked to stop, a recurring job, a refused
and two unanswered creations. Each bad history is that one with a single fact changed, and names the promise
that is thereby broken.
"""

from collections.abc import Callable

import pytest

from tests.support.checker import check
from tests.support.history import (
    SECOND,
    AttemptRecord,
    Cancel,
    Create,
    Fault,
    History,
    Hit,
    Job,
    Key,
    LeaseChange,
    Row,
    answer_to,
)

T = 1_800_000_000 * SECOND
PLAIN = Key("job_plain", T + 10 * SECOND)
LOST = Key("job_lost", T + 11 * SECOND)
FAILED = Key("job_failed", T + 12 * SECOND)
CALLED_OFF = Key("job_called_off", T + 13 * SECOND)
TOO_LATE = Key("job_too_late", T + 14 * SECOND)
UNANSWERED = Key("job_unanswered", T + 15 * SECOND)
STOPPED = Key("job_stopped", T + 16 * SECOND)
EVERY = [Key("job_every", T + second * SECOND) for second in (6, 8, 10)]


def good() -> History:
    """A run in which every promise was kept."""
    once = [PLAIN, LOST, FAILED, CALLED_OFF, TOO_LATE, STOPPED]
    return History(
        creates=[
            *(_once(key.job_id.removeprefix("job_"), key.fire_at, job_id=key.job_id) for key in once),
            _once("unanswered", UNANSWERED.fire_at, answer="unknown"),
            _once("vanished", T + 15 * SECOND, answer="unknown"),
            _once("refused", T + 15 * SECOND, answer="refused"),
            Create(
                label="every", answer="ok", invoked_at=T + SECOND, answered_at=T + 5 * SECOND, job_id="job_every",
                every=2 * SECOND, until=T + 11 * SECOND,
            ),
        ],
        cancels=[
            Cancel(key=CALLED_OFF, answer="cancelled", mono=12.0, final_state="cancelled"),
            Cancel(key=TOO_LATE, answer="too_late", mono=15.0),
            Cancel(key=STOPPED, answer="asked_to_stop", mono=16.0),
            Cancel(key=STOPPED, answer="asked_to_stop", mono=17.0, final_state="cancelled"),
        ],
        hits=[
            *(_hit(key) for key in (PLAIN, TOO_LATE, UNANSWERED, *EVERY)),
            _hit(LOST, status=0),
            _hit(STOPPED, status=0),
            _hit(LOST, attempt=2, after=3.0),
            _hit(FAILED, status=500),
            _hit(FAILED, attempt=2, after=1.0),
        ],
        jobs=[
            *(Job(key.job_id, key.job_id.removeprefix("job_"), "once", "active") for key in (*once, UNANSWERED)),
            Job("job_every", "every", "recurring", "completed"),
        ],
        finals=[
            *(_row(key) for key in (PLAIN, TOO_LATE, UNANSWERED, *EVERY)),
            _row(LOST, attempt=2, attempts=[AttemptRecord(1, "lost")]),
            _row(FAILED, attempt=2, attempts=[AttemptRecord(1, "failed")]),
            Row(key=CALLED_OFF, state="cancelled", finished_at=T + 12 * SECOND),
            Row(key=STOPPED, state="cancelled", started_at=T + 16 * SECOND, finished_at=T + 17 * SECOND),
        ],
        leases=[
            _lease(at=1, owner=1, epoch=1, before=(None, 0, None)),
            _lease(at=9, owner=2, epoch=2, before=(1, 1, 8)),
            _lease(at=12, owner=None, epoch=2, before=(2, 2, 15)),
            _lease(at=12, owner=3, epoch=3, before=(None, 2, 12)),
        ],
        faults=[Fault(what="kill", victim="node-1", began_at=T + 11 * SECOND)],
    )  # fmt: skip


def test_a_good_history_passes() -> None:
    verdict = check(good())
    assert verdict.good, verdict.report()
    assert verdict.counts["calls"] == 11
    assert verdict.counts["calls repeated"] == 2
    assert verdict.counts["attempts lost"] == 1


# Each function spoils a good history in one way.


def an_acknowledged_job_is_gone(h: History) -> None:
    h.jobs = [job for job in h.jobs if job.id != PLAIN.job_id]
    h.finals = [row for row in h.finals if row.key != PLAIN]
    h.hits = [hit for hit in h.hits if hit.key != PLAIN]


def an_acknowledged_job_exists_twice(h: History) -> None:
    h.jobs.append(Job("job_twin", "plain", "once", "active"))


def a_refused_job_exists(h: History) -> None:
    h.jobs.append(Job("job_refused", "refused", "once", "active"))


def an_unanswered_creation_took_effect_twice(h: History) -> None:
    h.jobs.append(Job("job_unanswered_2", "unanswered", "once", "active"))


def a_one_off_never_fired(h: History) -> None:
    h.finals = [row for row in h.finals if row.key != PLAIN]
    h.hits = [hit for hit in h.hits if hit.key != PLAIN]


def an_unanswered_job_exists_but_never_fired(h: History) -> None:
    h.finals = [row for row in h.finals if row.key != UNANSWERED]
    h.hits = [hit for hit in h.hits if hit.key != UNANSWERED]


def a_recurring_job_missed_a_fire_time(h: History) -> None:
    h.finals = [row for row in h.finals if row.key != EVERY[1]]
    h.hits = [hit for hit in h.hits if hit.key != EVERY[1]]


def a_recurring_job_fired_off_its_grid(h: History) -> None:
    astray = Key("job_every", T + 7 * SECOND)
    h.finals.append(_row(astray))
    h.hits.append(_hit(astray))


def a_recurring_job_fired_after_its_end(h: History) -> None:
    late = Key("job_every", T + 12 * SECOND)
    h.finals.append(_row(late))
    h.hits.append(_hit(late))


def a_recurring_job_fired_before_it_was_asked_for(h: History) -> None:
    early = Key("job_every", T)
    h.finals.append(_row(early))
    h.hits.append(_hit(early))


def a_fire_time_has_two_final_rows(h: History) -> None:
    h.finals.append(_row(PLAIN))


def an_execution_is_final_and_live_at_once(h: History) -> None:
    h.lives.append(Row(key=PLAIN, state="queued"))


def a_job_came_out_of_nowhere(h: History) -> None:
    h.jobs.append(Job("job_nobody", "nobody", "once", "active"))


def an_execution_came_out_of_nowhere(h: History) -> None:
    h.finals.append(_row(Key("job_nobody", T)))


def a_call_has_no_execution(h: History) -> None:
    h.hits.append(_hit(Key("job_plain", T + 20 * SECOND)))


def a_number_is_missing_among_the_attempts(h: History) -> None:
    _of(h, LOST).attempt = 3


def an_attempt_followed_a_success(h: History) -> None:
    _of(h, FAILED).attempts[0].verdict = "succeeded"


def an_epoch_was_used_twice(h: History) -> None:
    h.leases[1] = _lease(at=9, owner=2, epoch=1, before=(1, 1, 8))


def a_lease_was_taken_before_it_expired(h: History) -> None:
    h.leases[1] = _lease(at=9, owner=2, epoch=2, before=(1, 1, 10))


def a_lease_changed_hands_unseen(h: History) -> None:
    h.leases[1] = _lease(at=9, owner=2, epoch=3, before=(5, 2, 8))


def a_call_was_repeated_without_a_reason(h: History) -> None:
    _of(h, LOST).attempts = []
    _of(h, LOST).attempt = 1


def an_attempt_called_twice(h: History) -> None:
    h.hits.append(_hit(LOST, attempt=2, after=4.0))


def an_attempt_called_that_is_not_in_the_record(h: History) -> None:
    h.hits.append(_hit(PLAIN, attempt=2, after=4.0))


def a_worker_was_lost_without_a_fault(h: History) -> None:
    h.faults.clear()


def a_success_was_never_called(h: History) -> None:
    h.hits = [hit for hit in h.hits if hit.key != PLAIN]


def a_success_was_answered_with_an_error(h: History) -> None:
    next(hit for hit in h.hits if hit.key == PLAIN).status = 500


def a_success_belongs_to_another_attempt(h: History) -> None:
    h.hits = [hit for hit in h.hits if (hit.key, hit.attempt) != (FAILED, 2)]


def a_success_rests_on_the_answer_to_another_attempt(h: History) -> None:
    _of(h, LOST).answer = answer_to(1)


def a_cancelled_execution_was_called(h: History) -> None:
    h.hits.append(_hit(CALLED_OFF))


def a_cancelled_execution_was_called_again_after_the_answer(h: History) -> None:
    _of(h, CALLED_OFF).attempt = 2
    _of(h, CALLED_OFF).attempts = [AttemptRecord(1, "failed")]
    h.hits.append(_hit(CALLED_OFF, status=500))
    h.hits.append(_hit(CALLED_OFF, attempt=2, after=5.0))


def a_cancelled_execution_ended_as_a_success(h: History) -> None:
    _of(h, CALLED_OFF).state = "succeeded"
    h.hits.append(_hit(CALLED_OFF))


def a_cancel_that_came_too_late_had_an_effect(h: History) -> None:
    _of(h, TOO_LATE).state = "cancelled"


def an_execution_was_asked_to_stop_that_never_started(h: History) -> None:
    _of(h, STOPPED).started_at = None


def an_end_was_told_that_never_came(h: History) -> None:
    h.cancels[-1].final_state = "succeeded"


def an_execution_was_cancelled_by_nobody(h: History) -> None:
    _of(h, PLAIN).state = "cancelled"


def a_fire_time_was_skipped(h: History) -> None:
    _of(h, EVERY[0]).state = "skipped"
    h.hits = [hit for hit in h.hits if hit.key != EVERY[0]]


def an_execution_had_too_many_attempts(h: History) -> None:
    _create(h, "lost").max_attempts = 1


def an_execution_was_given_up_too_early(h: History) -> None:
    _of(h, FAILED).state = "dead"


def a_call_came_before_its_fire_time(h: History) -> None:
    next(hit for hit in h.hits if hit.key == PLAIN).received_at = PLAIN.fire_at - 1


def an_execution_is_still_running(h: History) -> None:
    h.finals = [row for row in h.finals if row.key != PLAIN]
    h.lives.append(Row(key=PLAIN, state="running", started_at=PLAIN.fire_at))


def a_final_row_is_not_final(h: History) -> None:
    _of(h, PLAIN).state = "running"


def an_execution_never_finished(h: History) -> None:
    _of(h, PLAIN).finished_at = None


def an_execution_finished_before_it_started(h: History) -> None:
    _of(h, PLAIN).finished_at = T


def a_schedule_was_not_played_to_its_end(h: History) -> None:
    next(job for job in h.jobs if job.id == "job_every").state = "active"


BAD: list[tuple[str, Callable[[History], None]]] = [
    ("I1", an_acknowledged_job_is_gone),
    ("I1", an_acknowledged_job_exists_twice),
    ("I1", a_refused_job_exists),
    ("I1", an_unanswered_creation_took_effect_twice),
    ("I2", a_one_off_never_fired),
    ("I2", an_unanswered_job_exists_but_never_fired),
    ("I2", a_recurring_job_missed_a_fire_time),
    ("I2", a_recurring_job_fired_off_its_grid),
    ("I2", a_recurring_job_fired_after_its_end),
    ("I2", a_recurring_job_fired_before_it_was_asked_for),
    ("I2", a_fire_time_has_two_final_rows),
    ("I2", an_execution_is_final_and_live_at_once),
    ("I3", a_job_came_out_of_nowhere),
    ("I3", an_execution_came_out_of_nowhere),
    ("I3", a_call_has_no_execution),
    ("I4", a_number_is_missing_among_the_attempts),
    ("I4", an_attempt_followed_a_success),
    ("I5", an_epoch_was_used_twice),
    ("I5", a_lease_was_taken_before_it_expired),
    ("I5", a_lease_changed_hands_unseen),
    ("I8", a_call_was_repeated_without_a_reason),
    ("I8", an_attempt_called_twice),
    ("I8", an_attempt_called_that_is_not_in_the_record),
    ("I8", a_worker_was_lost_without_a_fault),
    ("I9", a_success_was_never_called),
    ("I9", a_success_was_answered_with_an_error),
    ("I9", a_success_belongs_to_another_attempt),
    ("I9", a_success_rests_on_the_answer_to_another_attempt),
    ("I10", a_cancelled_execution_was_called),
    ("I10", a_cancelled_execution_was_called_again_after_the_answer),
    ("I10", a_cancelled_execution_ended_as_a_success),
    ("I10", a_cancel_that_came_too_late_had_an_effect),
    ("I10", an_execution_was_asked_to_stop_that_never_started),
    ("I10", an_end_was_told_that_never_came),
    ("I10", an_execution_was_cancelled_by_nobody),
    ("I11", a_fire_time_was_skipped),
    ("I12", an_execution_had_too_many_attempts),
    ("I12", an_execution_was_given_up_too_early),
    ("I13", a_call_came_before_its_fire_time),
    ("I16", an_execution_is_still_running),
    ("I16", a_final_row_is_not_final),
    ("I16", an_execution_never_finished),
    ("I16", an_execution_finished_before_it_started),
    ("I16", a_schedule_was_not_played_to_its_end),
]


@pytest.mark.parametrize(("invariant", "spoil"), BAD, ids=[spoil.__name__ for _, spoil in BAD])
def test_a_bad_history_fails(invariant: str, spoil: Callable[[History], None]) -> None:
    history = good()
    spoil(history)
    verdict = check(history)
    assert invariant in {violation.invariant for violation in verdict.violations}, verdict.report()


def test_every_promise_that_the_checker_knows_is_broken_by_some_bad_history() -> None:
    described = {
        line.split()[0] for line in (check.__globals__["__doc__"]).splitlines() if line.startswith("I")
    }
    assert {invariant for invariant, _ in BAD} == described


# What may look bad and is not.


def a_frozen_worker_calls_after_its_attempt_was_given_to_another(h: History) -> None:
    next(hit for hit in h.hits if (hit.key, hit.attempt) == (LOST, 1)).mono = 99.0


def a_fire_time_between_request_and_answer_is_left_out(h: History) -> None:
    assert all(key.fire_at > T + 5 * SECOND for key in EVERY)  # T+2 and T+4 lie within, and have no row


def a_fire_time_between_request_and_answer_is_there(h: History) -> None:
    within = Key("job_every", T + 4 * SECOND)
    h.finals.append(_row(within))
    h.hits.append(_hit(within))


@pytest.mark.parametrize(
    "change",
    [
        a_frozen_worker_calls_after_its_attempt_was_given_to_another,
        a_fire_time_between_request_and_answer_is_left_out,
        a_fire_time_between_request_and_answer_is_there,
    ],
)
def test_what_is_explained_passes(change: Callable[[History], None]) -> None:
    history = good()
    change(history)
    verdict = check(history)
    assert verdict.good, verdict.report()


def test_the_report_shows_the_whole_story_of_the_first_offender() -> None:
    history = good()
    an_attempt_called_twice(history)
    report = check(history).report()
    assert "I8: attempt 2 called 2 times" in report
    for words in (
        "create lost asked for",
        "call of attempt 1",
        "row: succeeded, attempt 2",
        "fault: kill node-1",
    ):
        assert words in report


def _once(label: str, at: int, *, answer: str = "ok", job_id: str | None = None) -> Create:
    return Create(
        label=label, answer=answer, invoked_at=T + SECOND, answered_at=T + 2 * SECOND, job_id=job_id, at=at
    )


def _hit(key: Key, *, attempt: int = 1, status: int = 200, after: float = 0.0) -> Hit:
    at = key.fire_at + round(after * SECOND) + 1000
    return Hit(key=key, attempt=attempt, mono=(at - T) / SECOND, received_at=at, status=status)


def _row(key: Key, *, attempt: int = 1, attempts: list[AttemptRecord] | None = None) -> Row:
    return Row(
        key=key,
        state="succeeded",
        attempt=attempt,
        attempts=attempts or [],
        started_at=key.fire_at + 500,
        finished_at=key.fire_at + 2000,
        answer=answer_to(attempt),
    )


def _lease(
    *, at: int, owner: int | None, epoch: int, before: tuple[int | None, int, int | None]
) -> LeaseChange:
    before_owner, before_epoch, expires = before
    return LeaseChange(
        at=T + at * SECOND,
        shard=0,
        owner=owner,
        epoch=epoch,
        before_owner=before_owner,
        before_epoch=before_epoch,
        before_expires_at=None if expires is None else T + expires * SECOND,
    )


def _of(history: History, key: Key) -> Row:
    return next(row for row in history.finals if row.key == key)


def _create(history: History, label: str) -> Create:
    return next(create for create in history.creates if create.label == label)
