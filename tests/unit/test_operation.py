"""How much of an operation comes next, and when it stops by itself."""

import pytest

from tocsin.domain.operation import (
    BATCH,
    MOST_ERRORS,
    MOST_UNDER_WAY,
    OTHER_ERRORS,
    POSSIBLE,
    Do,
    Of,
    Standing,
    StopAt,
    braked,
    counted,
    end_of_step,
    next_take,
    remembered,
    step_failed,
    step_is_over,
    why_not_execution,
    why_not_job,
)

SECOND = 1_000_000
STEPS = (1, 10)


def test_steps_end_where_their_sizes_say_and_then_come_all_the_rest() -> None:
    assert [end_of_step(STEPS, step, 500) for step in range(3)] == [1, 11, 500]
    assert [end_of_step(STEPS, step, 5) for step in range(3)] == [1, 5, 5]
    assert end_of_step((), 0, 7) == 7


def test_a_step_is_over_when_all_of_it_has_ended_and_more_is_to_come() -> None:
    assert step_is_over(STEPS, Standing(500, 1))
    assert not step_is_over(STEPS, Standing(500, 1, under_way=1))
    assert not step_is_over(STEPS, Standing(500, 5, step=1))
    assert not step_is_over(STEPS, Standing(1, 1))


@pytest.mark.parametrize(
    ("failed", "stop_at", "holds"),
    [
        (0, None, False),
        (1, None, True),
        (1, StopAt(0.2, 50), False),
        (2, StopAt(0.2, 50), True),
        (9, StopAt(1.0, 50), False),
        (10, StopAt(1.0, 50), True),
    ],
)
def test_a_step_of_ten_holds_after_one_failure_or_after_the_share_of_the_brake(
    failed: int, stop_at: StopAt | None, holds: bool
) -> None:
    assert step_failed(STEPS, Standing(500, 11, step=1, step_failed=failed), stop_at) is holds


def test_the_brake_counts_failures_among_the_last_outcomes_and_does_not_wait_for_all_of_them() -> None:
    brake = StopAt(0.2, 10)
    assert brake.failures == 2
    recent = remembered("", [True], brake)
    assert not braked(recent, brake)
    assert braked(remembered(recent, [True], brake), brake)
    recent = remembered(recent, [False] * 10, brake)
    assert len(recent) == 10
    assert not braked(remembered(recent, [True], brake), brake), "the first failure is long past"
    assert remembered("", [True], None) == ""
    assert not braked("x", None)


def test_what_fires_does_not_run_ahead_of_its_outcomes_further_than_the_brake_looks() -> None:
    brake = StopAt(0.5, 20)
    assert next_take(Standing(500), (), 0, brake, firing=True) == 20
    assert next_take(Standing(500, 20, under_way=15), (), 0, brake, firing=True) == 5
    assert next_take(Standing(500, 20, under_way=20), (), 0, brake, firing=True) == 0
    assert next_take(Standing(500), (), 0, None, firing=True) == BATCH
    assert next_take(Standing(99_999, 50_000, MOST_UNDER_WAY), (), 0, None, firing=True) == 0
    assert next_take(Standing(500), (), 0, brake, firing=False) == BATCH


def test_a_take_keeps_to_its_step_to_the_pace_and_to_what_is_left() -> None:
    assert next_take(Standing(500), STEPS, 0, None, firing=True) == 1
    assert next_take(Standing(500, 1, under_way=1), STEPS, 0, None, firing=True) == 0
    assert next_take(Standing(500, 5, step=1), STEPS, 0, None, firing=False) == 6
    assert next_take(Standing(500), (), SECOND, None, firing=False) == 1
    assert next_take(Standing(500), (), SECOND // 20, None, firing=False) == 5
    assert next_take(Standing(500, 498), (), 0, None, firing=False) == 2


def test_kinds_of_errors_are_counted_and_bounded() -> None:
    errors = counted({}, [("gone", "a"), ("gone", "b"), ("paused", "c")])
    assert errors == {"gone": (2, "a"), "paused": (1, "c")}
    many = counted({}, [(f"error {n}", str(n)) for n in range(100)])
    assert len(many) == MOST_ERRORS + 1
    assert many[OTHER_ERRORS] == (100 - MOST_ERRORS, str(MOST_ERRORS))


def test_what_cannot_be_done_is_known_from_the_states() -> None:
    assert why_not_job(Do.PAUSE, "active") is None
    assert why_not_job(Do.PAUSE, "paused") == "the job is paused"
    assert why_not_job(Do.RESUME, "active") is not None
    assert why_not_job(Do.DELETE, "cancelled") is None
    assert why_not_execution(Do.RETRY, "dead", "active") is None
    assert why_not_execution(Do.RETRY, "dead", None) == "the job is cancelled or deleted"
    assert why_not_execution(Do.RETRY, "succeeded", "active") == "the execution is succeeded"
    assert why_not_execution(Do.RERUN, "succeeded", "active") is None
    assert why_not_execution(Do.CANCEL, "queued", None) is None
    assert why_not_execution(Do.CANCEL, "dead", "active") is not None
    assert why_not_execution(Do.DISCARD, "dead", None) is None


def test_every_action_is_possible_for_something() -> None:
    assert set(Do) == {do for possible in POSSIBLE.values() for do in possible}
    assert set(POSSIBLE) == set(Of)
