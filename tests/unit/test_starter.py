"""How the starter keeps its connection warm: what is due must not wait for one to be made. And what it asks
for in which order."""

import asyncio
from collections import Counter
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import pytest

from tocsin.domain.errors import Unavailable
from tocsin.domain.ids import new_job_id
from tocsin.domain.instant import MILLISECOND, SECOND, Instant
from tocsin.failpoints import Failpoints
from tocsin.queue.claims import Claim
from tocsin.queue.lanes import Lane, LaneView
from tocsin.service import Report
from tocsin.telemetry import Telemetry
from tocsin.worker.lateness import Lateness
from tocsin.worker.places import Places
from tocsin.worker.start_lead import StartLead
from tocsin.worker.starter import Starter
from tocsin.worker.timetable import Timetable

NOW = 1_000_000 * SECOND
CALL = '{"kind":"http","url":"https://example.com/"}'
FLOOD, QUIET, URGENT = (
    Lane("default", 5, 1, "noop"),
    Lane("default", 5, 2, "noop"),
    Lane("default", 0, 3, "noop"),
)


class Queue:
    """Starts whatever it is asked for, and notes how many that were."""

    def __init__(self) -> None:
        self.asked: list[int] = []
        self.asked_again = 0
        self.away = self.gate_away = False

    async def start(self, claims: Sequence[Claim], *, again: bool = False) -> list[Claim]:
        if self.away:
            raise Unavailable("the database did not answer")
        self.asked.append(len(claims))
        self.asked_again += again
        return list(claims)

    async def start_gated(self, claims: Sequence[Claim], _: Instant, *, again: bool = False) -> list[Claim]:
        self.asked_again += again
        if self.gate_away:
            raise Unavailable("the database did not answer")
        return list(claims)


class Runner:
    """Runs nothing, but could."""

    def __init__(self) -> None:
        self.ran: list[Claim] = []
        self.expired: list[Claim] = []
        self.called_off: list[Claim] = []

    def call_off(self, claims: Sequence[Claim]) -> None:
        self.called_off += claims

    def run(self, claims: Sequence[Claim]) -> None:
        self.ran += claims

    def expire(self, claim: Claim) -> None:
        self.expired.append(claim)


class Bed:
    """A starter with nothing but a timetable of its own."""

    def __init__(self) -> None:
        self.queue, self.timetable, self.runner = Queue(), Timetable(), Runner()
        self.places = Places(10)
        self.missed: list[Claim] = []
        misfires = SimpleNamespace(put=self.missed.extend)
        parts: Any = (self.queue, self.timetable, self.runner, self.places, misfires)
        self.starter = Starter(*parts, Lateness(), Telemetry(), Failpoints(), StartLead(lambda: 0.0))

    def run(self, at: Instant) -> Report:
        return asyncio.run(self.starter.run_once(NOW + at))

    def add(
        self,
        run_at: Instant,
        limit_key: str | None = None,
        start_by: Instant | None = None,
        lane: Lane = FLOOD,
        target: str = '{"kind":"noop"}',
    ) -> Claim:
        at = NOW + run_at
        route = lane.route
        claim = Claim(
            new_job_id(at), at, lane.tenant_id, lane.queue, lane.priority, route, at, at, None, at, at, 1, 0, None, None, None, None, None,
            target, "{}", 1, 7,
        )  # fmt: skip
        claim.limit_key = limit_key
        claim.start_by = start_by
        self.timetable.add([claim])
        return claim


def test_a_starter_that_has_nothing_to_start_asks_for_nothing_once_a_minute() -> None:
    bed = Bed()
    for second in range(180):
        bed.run(second * SECOND)
    assert bed.queue.asked == [0, 0, 0]


def test_one_that_starts_something_need_not() -> None:
    bed = Bed()
    for second in range(180):
        bed.add(second * SECOND)
        bed.run(second * SECOND)
        bed.run(second * SECOND + 1)
    assert bed.queue.asked == [1] * 180
    assert len(bed.runner.ran) == 180


def test_starts_under_a_limit_go_another_way_and_do_not_keep_it_warm() -> None:
    bed = Bed()
    for second in range(180):
        bed.add(second * SECOND, limit_key="k")
        bed.run(second * SECOND)
        bed.run(second * SECOND + 1)
    assert bed.queue.asked == [0, 0, 0]
    assert len(bed.runner.ran) == 180


def test_without_an_answer_it_asks_again() -> None:
    bed = Bed()
    bed.queue.away = True
    with pytest.raises(Unavailable):
        bed.run(0)
    bed.queue.away = False
    bed.run(1)
    bed.run(2)
    assert bed.queue.asked == [0]


def test_what_is_being_asked_for_is_not_lost_sight_of() -> None:
    bed = Bed()
    plain, gated = bed.add(0), bed.add(0, limit_key="k")
    bed.queue.away = True
    with pytest.raises(Unavailable):
        bed.run(0)
    assert bed.starter.unanswered == [plain, gated]
    bed.queue.away = False
    bed.run(1)
    assert bed.starter.unanswered == []


@pytest.mark.parametrize("limit_key", [None, "k"])
def test_what_was_started_without_an_answer_and_asked_to_stop_is_called_off(limit_key: str | None) -> None:
    bed = Bed()
    stopped, other = bed.add(0, limit_key=limit_key), bed.add(0, limit_key=limit_key)
    bed.queue.away = bed.queue.gate_away = True
    with pytest.raises(Unavailable):
        bed.run(0)
    bed.queue.away = bed.queue.gate_away = False
    stopped.stop_asked = True
    bed.run(1)
    assert (bed.runner.ran, bed.runner.called_off) == ([other], [stopped])
    assert bed.queue.asked_again == 1
    bed.add(0, limit_key=limit_key)
    bed.run(2)
    assert bed.queue.asked_again == 1, "these were not asked for before"


def test_a_clock_that_was_set_back_does_not_keep_it_from_asking() -> None:
    bed = Bed()
    bed.run(3600 * SECOND)
    bed.run(0)
    assert bed.queue.asked == [0, 0]


def test_what_was_started_does_not_wait_for_those_under_a_limit() -> None:
    bed = Bed()
    plain, gated = bed.add(0), bed.add(0, limit_key="k")
    bed.queue.gate_away = True
    with pytest.raises(Unavailable):
        bed.run(0)
    assert bed.runner.ran == [plain]
    bed.queue.gate_away = False
    bed.run(1)
    assert bed.runner.ran == [plain, gated]
    assert bed.queue.asked == [1]


def test_what_would_fire_after_its_latest_start_is_not_started_before_it() -> None:
    bed = Bed()
    late = bed.add(20 * MILLISECOND, start_by=NOW + 10 * MILLISECOND)
    in_time = bed.add(20 * MILLISECOND, start_by=NOW + 21 * MILLISECOND)
    bed.run(0)
    assert (bed.runner.expired, bed.runner.ran) == ([late], [in_time])


def test_it_looks_at_the_clock_every_second_while_something_is_held() -> None:
    bed = Bed()
    bed.add(0)
    assert (
        bed.run(-3600 * SECOND).again_at == NOW - 3599 * SECOND
    )  # as if the clock was set back since the claim
    assert bed.run(-SECOND // 2).again_at == NOW - 25 * MILLISECOND


def full_bed(**lanes: tuple[Lane, int]) -> Bed:
    """A starter that holds so many calls of some lanes, all due at one instant, and has ten places."""
    bed = Bed()
    for lane, count in lanes.values():
        for _ in range(count):
            bed.add(0, lane=lane, target=CALL)
    return bed


def ran(bed: Bed) -> Counter[int]:
    """How many of each tenant run."""
    return Counter(claim.tenant_id for claim in bed.runner.ran)


def test_a_single_execution_does_not_wait_behind_a_crowd_of_another_tenant() -> None:
    bed = full_bed(flood=(FLOOD, 600), quiet=(QUIET, 1))
    bed.run(0)
    assert ran(bed) == {FLOOD.tenant_id: 9, QUIET.tenant_id: 1}


def test_the_more_urgent_one_comes_first_although_it_was_claimed_last() -> None:
    bed = full_bed(flood=(FLOOD, 600), urgent=(URGENT, 4))
    bed.run(0)
    assert ran(bed) == {FLOOD.tenant_id: 6, URGENT.tenant_id: 4}


def test_tenants_share_the_places_that_become_free_by_weight() -> None:
    bed = full_bed(flood=(FLOOD, 600), heavy=(QUIET, 600))
    bed.places.learn({QUIET.tenant_id: 4})
    for room in (1, 2, 3, 1, 7, 1) * 10:
        bed.places.capacity = room
        bed.run(0)
    assert abs(ran(bed)[QUIET.tenant_id] - 150 * 4 / 5) <= 2


def test_what_was_claimed_ahead_leaves_its_share_of_places_to_what_is_queued() -> None:
    bed = full_bed(flood=(FLOOD, 600))
    bed.places.queued = [LaneView(QUIET, 1, NOW)]
    left: list[bool] = []
    bed.places.left.connect(lambda: left.append(True))
    assert bed.run(0).done == 5
    assert left == [True]
    bed.places.capacity = 5
    assert bed.run(0).again_at == NOW + 5 * MILLISECOND, (
        "it asks without a pause for places that are not its own"
    )
    assert ran(bed) == {FLOOD.tenant_id: 5}


def test_all_places_are_left_to_what_is_queued_and_more_urgent() -> None:
    bed = full_bed(flood=(FLOOD, 600))
    bed.places.queued = [LaneView(URGENT, 1, NOW)]
    bed.run(0)
    assert ran(bed) == {}
    assert bed.places.urgent(bed.timetable.due(NOW))
    bed.places.queued = ()
    bed.run(0)
    assert ran(bed) == {FLOOD.tenant_id: 10}


def test_a_crowd_of_calls_begins_early_with_the_places_that_nothing_queued_waits_for() -> None:
    bed = Bed()
    bed.places.capacity, bed.places.running = 101, 1
    for lane, count in ((FLOOD, 90), (QUIET, 20)):
        for _ in range(count):
            bed.add(SECOND, lane=lane, target=CALL)
    bed.places.queued = [LaneView(QUIET, 1, NOW)]
    bed.run(SECOND - 29 * MILLISECOND)
    assert ran(bed) == {}
    bed = full_bed(flood=(FLOOD, 90), quiet=(QUIET, 20))
    bed.places.capacity, bed.places.running = 101, 1
    bed.run(-29 * MILLISECOND)
    assert ran(bed) == {FLOOD.tenant_id: 80, QUIET.tenant_id: 20}, "tenants share them as ever"


def test_a_start_without_an_answer_is_asked_for_again_although_it_fills_all_places() -> None:
    bed = full_bed(flood=(FLOOD, 600))
    bed.queue.away = True
    with pytest.raises(Unavailable):
        bed.run(0)
    assert bed.places.free == 0
    bed.queue.away = False
    bed.run(0)
    assert ran(bed) == {FLOOD.tenant_id: 10}
