"""How much the claimer takes, beside what its worker holds already."""

import asyncio
from collections import Counter
from collections.abc import Mapping, Sequence
from types import MappingProxyType, SimpleNamespace
from typing import Any
from uuid import UUID

import pytest

from tocsin.domain.errors import Unavailable
from tocsin.domain.instant import MILLISECOND, SECOND
from tocsin.failpoints import Failpoints
from tocsin.queue.allotment import Allotment
from tocsin.queue.claims import Claim
from tocsin.queue.lanes import Lane, LaneView
from tocsin.queue.tenant_caps import Rank, TenantCaps
from tocsin.service import AGAIN_NOW, Report
from tocsin.telemetry import Telemetry
from tocsin.worker.claimer import Claimer
from tocsin.worker.lateness import Lateness
from tocsin.worker.places import Places
from tocsin.worker.timetable import Timetable

NOW = 1_000_000 * SECOND
BATCH = 100
FLOOD, QUIET = Lane("default", 5, 1, "noop"), Lane("default", 5, 2, "noop")


class Queue:
    """Two lanes with work that is due; says what was asked of it."""

    lanes_known = 2
    weights: Mapping[int, int] = MappingProxyType({})

    def __init__(self) -> None:
        self.asked: list[Allotment] = []

    async def look(self, *_: object) -> list[LaneView]:
        return [LaneView(lane, 1, NOW) for lane in (FLOOD, QUIET)]

    async def claim(self, allotments: Sequence[Allotment], *_: object) -> list[Claim]:
        self.asked = list(allotments)
        return [_claim(0, NOW)]


def run(held: Sequence[Claim]) -> tuple[list[Allotment], Report]:
    """What is asked for by a claimer whose worker holds these claims."""
    queue = Queue()
    report = asyncio.run(_claimer(queue, held).run_once(NOW))
    return queue.asked, report


def _claimer(queue: Any, held: Sequence[Claim] = (), free: int = 1000, held_max: int = 10_000) -> Claimer:
    timetable = Timetable()
    timetable.add(held)
    lines = SimpleNamespace(lines=SimpleNamespace(rooms=dict))
    idle: Any = SimpleNamespace(
        backlog=0, claims=lambda: (), run=lambda _: None, expire=None, line_keeper=lines
    )
    whole: Any = SimpleNamespace(looking=queue, claiming=queue)
    misfires: Any = []
    return Claimer(
        whole,
        timetable,
        idle,
        Places(free),
        idle,
        misfires,
        Telemetry(),
        Failpoints(),
        ahead=2.0,
        batch=BATCH,
        held_max=held_max,
        tenant_caps=TenantCaps(Rank(1, 1.0)),
        lateness=Lateness(),
    )


def test_a_whole_batch_is_taken_while_little_waits_at_the_gate() -> None:
    waiting = [_claim(number, NOW - SECOND) for number in range(2 * BATCH - 2)]
    ahead = [_claim(number, NOW + SECOND) for number in range(1000, 1000 + 5 * BATCH)]
    asked, report = run([*waiting, *ahead])
    assert sum(allotment.take for allotment in asked) == BATCH
    assert report.again_at == AGAIN_NOW


def test_beside_a_crowd_at_the_gate_a_little_of_every_lane_is_taken_still() -> None:
    asked, report = run([_claim(number, NOW - SECOND) for number in range(2 * BATCH)])
    assert {allotment.lane for allotment in asked} == {FLOOD, QUIET}
    assert sum(allotment.take for allotment in asked) == 2
    assert report.again_at is not None
    assert report.again_at > NOW, "it asks without a pause for what would only wait"


@pytest.mark.parametrize(("undecided", "asks"), [(4 * BATCH, True), (4 * BATCH + 1, False)])
def test_nothing_more_is_taken_while_many_missed_claims_wait_for_a_decision(
    undecided: int, asks: bool
) -> None:
    queue = Queue()
    claimer = _claimer(queue)
    claimer._misfires = [None] * undecided  # type: ignore[assignment]
    asyncio.run(claimer.run_once(NOW))
    assert bool(queue.asked) == asks


def test_what_becomes_new_while_a_look_is_under_way_is_looked_at_next() -> None:
    looks = []

    async def look(*_: object) -> list[LaneView]:
        looks.append(1)
        if len(looks) == 1:
            claimer.forget_look()
        return [LaneView(FLOOD, 1, NOW + 60 * SECOND)]

    claimer = _claimer(SimpleNamespace(look=look, lanes_known=2, weights={}))
    for _ in range(3):
        asyncio.run(claimer.run_once(NOW))
    assert len(looks) == 2


def test_a_look_that_failed_is_made_up_for() -> None:
    async def look(*_: object) -> list[LaneView]:
        raise Unavailable("no database")

    async def peek_again(*_: object) -> list[LaneView]:
        return []

    queue = SimpleNamespace(look=look, lanes_known=2, weights={})
    claimer = _claimer(queue)
    claimer._views = [LaneView(FLOOD, 1, NOW + 60 * SECOND)]
    with pytest.raises(Unavailable):
        asyncio.run(claimer.run_once(NOW))
    queue.look = peek_again
    asyncio.run(claimer.run_once(NOW))
    assert claimer._views == []


class Lanes(Queue):
    """Lanes that are due at some instant and never run dry."""

    def __init__(self, **due: tuple[Lane, int]) -> None:
        super().__init__()
        self.due = due.values()

    async def look(self, *_: object) -> list[LaneView]:
        return [LaneView(lane, 1, run_at) for lane, run_at in self.due]

    async def claim(self, allotments: Sequence[Allotment], *_: object) -> list[Claim]:
        self.asked = list(allotments)
        return [_claim(0, NOW, lane=lane) for lane, take in allotments for _ in range(take)]


def test_a_queued_execution_has_its_turn_beside_a_crowd_that_was_claimed_ahead() -> None:
    crowd = [_claim(number, NOW, overlap=None, target=CALL) for number in range(600)]
    queue = Lanes(quiet=(QUIET, NOW))
    claimer = _claimer(queue, crowd, free=10)
    asyncio.run(claimer.run_once(NOW))
    assert queue.asked == [Allotment(QUIET, 5)]
    queue.asked = []
    queue.due = [(FLOOD, NOW)]
    claimer = _claimer(queue, crowd, free=10)
    asyncio.run(claimer.run_once(NOW))
    assert queue.asked == [], "what the tenant has in hand comes before what it has in the queue"


def test_memory_that_is_full_of_one_tenants_herd_keeps_nothing_due_out() -> None:
    herd = [_claim(number, NOW + SECOND, overlap=None, target=CALL) for number in range(500)]
    queue = Lanes(quiet=(QUIET, NOW))
    asyncio.run(_claimer(queue, herd, held_max=500).run_once(NOW))
    assert queue.asked == [Allotment(QUIET, BATCH)]


def test_no_tenant_fills_the_memory_alone() -> None:
    herd = [_claim(number, NOW + SECOND, overlap=None, target=CALL) for number in range(420)]
    queue = Lanes(flood=(FLOOD, NOW + SECOND), quiet=(QUIET, NOW + SECOND))
    asyncio.run(_claimer(queue, herd, held_max=480).run_once(NOW))
    assert queue.asked == [Allotment(QUIET, 60)]


def test_over_many_claims_tenants_share_the_places_that_become_free() -> None:
    lanes = [Lane("default", 5, tenant, "noop") for tenant in range(10)]
    queue = Lanes(**{str(lane.tenant_id): (lane, NOW) for lane in lanes})
    claimer = _claimer(queue)
    taken: Counter[Lane] = Counter()
    for free in (1, 3, 0, 7, 2) * 100:
        claimer._places.capacity, queue.asked = free, []
        asyncio.run(claimer.run_once(NOW))
        taken.update(dict(queue.asked))
    assert taken.total() == 1300
    assert all(abs(taken[lane] - 130) <= 1 for lane in lanes)


def test_a_lane_that_another_worker_emptied_first_has_its_turn_when_it_has_something_again() -> None:
    queue = Lanes(flood=(FLOOD, NOW))
    claimer = _claimer(queue, free=1)
    asyncio.run(claimer.run_once(NOW))
    claim, queue.due = queue.claim, [(FLOOD, NOW), (QUIET, NOW)]

    async def too_late(allotments: Sequence[Allotment], *_: object) -> list[Claim]:
        queue.asked = list(allotments)
        return []

    queue.claim = too_late  # type: ignore[method-assign]
    claimer.forget_look()
    asyncio.run(claimer.run_once(NOW))
    assert queue.asked == [Allotment(QUIET, 1)], "who is new comes first"
    queue.claim = claim  # type: ignore[method-assign]
    asyncio.run(claimer.run_once(NOW))
    assert queue.asked == [Allotment(QUIET, 1)]
    asyncio.run(claimer.run_once(NOW))
    assert queue.asked == [Allotment(FLOOD, 1)], "and is served once"


def test_where_there_are_thousands_of_lanes_looks_leave_time_for_other_things() -> None:
    looks = []

    async def look(*_: object) -> list[LaneView]:
        looks.append(1)
        return []

    claimer = _claimer(SimpleNamespace(look=look, lanes_known=5000, weights={}))
    asyncio.run(claimer.run_once(NOW))
    claimer.forget_look()
    report = asyncio.run(claimer.run_once(NOW + 10 * MILLISECOND))
    assert len(looks) == 1
    assert report.again_at == NOW + 100 * MILLISECOND, "what is new is looked for as soon as it may be"
    asyncio.run(claimer.run_once(NOW + 100 * MILLISECOND))
    assert len(looks) == 2


CALL = '{"kind":"http","url":"https://example.com/"}'


def _claim(number: int, run_at: int, lane: Lane = FLOOD, **values: object) -> Claim:
    """A claim, gated unless told otherwise, told apart by its fire time."""
    nothing = dict.fromkeys(Claim.__struct_fields__)
    known = lane._asdict() | {"job_id": UUID(int=1), "fire_at": number, "run_at": run_at, "overlap": "skip"}
    return Claim(**nothing | known | values)
