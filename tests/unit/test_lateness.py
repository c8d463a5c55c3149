"""A worker knows why it starts something late, and does not guess."""

import pytest

from tocsin.domain.instant import SECOND
from tocsin.domain.waits import Reason
from tocsin.queue.claims import ON_TIME, LateReasons
from tocsin.queue.lanes import Lane, LaneView
from tocsin.worker.lateness import Episodes, Lateness

NOON = 1_000_000 * SECOND


def at(seconds: float) -> int:
    return NOON + round(seconds * SECOND)


def view(tenant_id: int, next_run_at: int) -> LaneView:
    return LaneView(Lane("default", 5, tenant_id, "http"), 1, next_run_at)


def working() -> Lateness:
    lateness = Lateness()
    lateness.learn([1])
    lateness.reached(at(-60))
    return lateness


def test_what_starts_within_a_second_needs_no_reason() -> None:
    lateness = working()
    lateness.saturated(at(-10), true=True)
    assert lateness.why(at(-0.9), at(0)) is None
    assert lateness.of_lanes([view(1, at(-0.9))], at(0)) == ON_TIME


def test_a_worker_that_was_saturated_says_so() -> None:
    lateness = working()
    lateness.saturated(at(-10), true=True)
    assert lateness.why(at(-5), at(0)) == "place"


def test_saturation_that_ended_before_the_execution_was_due_is_no_reason() -> None:
    lateness = working()
    lateness.saturated(at(-10), true=True)
    lateness.saturated(at(-6), true=False)
    assert lateness.why(at(-5), at(0)) is None


def test_a_worker_without_its_database_was_away_since_the_last_answer() -> None:
    lateness = working()
    lateness.reached(at(-20))
    lateness.cut_off()
    lateness.cut_off()
    lateness.reached(at(-1))
    assert lateness.why(at(-15), at(0)) == "outage:database"
    assert lateness.why(at(-0.99) - SECOND // 2, at(0)) == "outage:database"


def test_the_longer_of_two_reasons_counts() -> None:
    lateness = working()
    lateness.reached(at(-20))
    lateness.cut_off()
    lateness.reached(at(-16))
    lateness.saturated(at(-16), true=True)
    assert lateness.why(at(-18), at(0)) == "place"
    assert lateness.why(at(-20), at(-14)) == "outage:database"


def test_before_the_first_worker_began_there_was_none() -> None:
    lateness = Lateness()
    lateness.learn([7])
    lateness.reached(at(0))
    assert lateness.why(at(-30), at(0)) == "outage"


def test_a_worker_that_joins_others_which_were_there_says_that_they_were() -> None:
    lateness = Lateness()
    lateness.learn([7, 8])
    lateness.reached(at(0))
    assert lateness.why(at(-30), at(0)) == "place:others"


def test_a_worker_that_has_not_heard_of_the_others_says_nothing_of_the_time_before_it_began() -> None:
    lateness = Lateness()
    lateness.reached(at(0))
    assert lateness.why(at(-30), at(0)) is None


@pytest.mark.parametrize("limit", [Reason.IN_FLIGHT, Reason.FIRES])
def test_a_tenant_at_its_limit_has_a_reason_of_its_own(limit: Reason) -> None:
    lateness = working()
    lateness.saturated(at(-20), true=True)
    lateness.limited({2: limit}, at(-9))
    lateness.limited({2: limit}, at(-1))
    views = [view(1, at(-10)), view(2, at(-10)), view(3, at(0))]
    assert lateness.of_lanes(views, at(0)) == LateReasons("place", (2,), (limit,))


def test_a_tenant_that_was_now_at_one_of_its_limits_and_now_at_the_other_was_at_both() -> None:
    lateness = working()
    for second, limit in ((-9, Reason.IN_FLIGHT), (-5, Reason.FIRES), (-1, Reason.FIRES)):
        lateness.limited({2: limit}, at(second))
    assert lateness.of_lanes([view(2, at(-10))], at(0)).common == "tenant_limit"


def test_episodes_are_remembered_up_to_a_bound() -> None:
    episodes = Episodes()
    for second in range(0, 1000, 2):
        episodes.note(at(second), true=True)
        episodes.note(at(second + 1), true=False)
    assert episodes.overlap(at(0), at(1000)) == 32 * SECOND
