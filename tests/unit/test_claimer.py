"""How much the claimer takes, beside what its worker holds already."""

import asyncio
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any
from uuid import UUID

import pytest

from tocsin.domain.errors import Unavailable
from tocsin.domain.instant import SECOND
from tocsin.failpoints import Failpoints
from tocsin.queue.claims import Claim
from tocsin.queue.lanes import Allotment, Lane, LaneView
from tocsin.queue.shares import Rank, TenantShares
from tocsin.service import AGAIN_NOW, Report
from tocsin.telemetry import Telemetry
from tocsin.worker.claimer import Claimer
from tocsin.worker.timetable import Timetable

NOW = 1_000_000 * SECOND
BATCH = 100
FLOOD, QUIET = Lane("default", 5, 1), Lane("default", 5, 2)


class Queue:
    """Two lanes with work that is due; says what was asked of it."""

    def __init__(self) -> None:
        self.asked: list[Allotment] = []

    async def peek(self, *_: object) -> list[LaneView]:
        return [LaneView(lane, 1, NOW) for lane in (FLOOD, QUIET)]

    async def claim(self, allotments: Sequence[Allotment], *_: object) -> list[Claim]:
        self.asked = list(allotments)
        return [_claim(0, NOW)]


def run(held: Sequence[Claim]) -> tuple[list[Allotment], Report]:
    """What is asked for by a claimer whose worker holds these claims."""
    queue = Queue()
    report = asyncio.run(_claimer(queue, held).run_once(NOW))
    return queue.asked, report


def _claimer(queue: Any, held: Sequence[Claim] = ()) -> Claimer:
    timetable = Timetable()
    timetable.add(held)
    idle: Any = SimpleNamespace(free=1000, backlog=0, claims=lambda: (), expire=None)
    return Claimer(
        queue,
        timetable,
        idle,
        idle,
        Telemetry(),
        Failpoints(),
        ahead=2.0,
        batch=BATCH,
        held_max=10_000,
        shares=TenantShares(Rank(1, 1.0)),
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


def test_what_becomes_new_while_a_look_is_under_way_is_looked_at_next() -> None:
    looks = []

    async def peek(*_: object) -> list[LaneView]:
        looks.append(1)
        if len(looks) == 1:
            claimer.forget_look()
        return [LaneView(FLOOD, 1, NOW + 60 * SECOND)]

    claimer = _claimer(SimpleNamespace(peek=peek))
    for _ in range(3):
        asyncio.run(claimer.run_once(NOW))
    assert len(looks) == 2


def test_a_look_that_failed_is_made_up_for() -> None:
    async def peek(*_: object) -> list[LaneView]:
        raise Unavailable("no database")

    async def peek_again(*_: object) -> list[LaneView]:
        return []

    queue = SimpleNamespace(peek=peek)
    claimer = _claimer(queue)
    claimer._views = [LaneView(FLOOD, 1, NOW + 60 * SECOND)]
    with pytest.raises(Unavailable):
        asyncio.run(claimer.run_once(NOW))
    queue.peek = peek_again
    asyncio.run(claimer.run_once(NOW))
    assert claimer._views == []


def _claim(number: int, run_at: int) -> Claim:
    """A gated claim, told apart by its fire time."""
    nothing = dict.fromkeys(Claim.__struct_fields__)
    known = {"job_id": UUID(int=1), "fire_at": number, "tenant_id": 1, "run_at": run_at, "overlap": "skip"}
    return Claim(**nothing | known)
