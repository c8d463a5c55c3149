"""How much the claimer takes, beside what its worker holds already."""

import asyncio
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any
from uuid import UUID

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
    timetable = Timetable()
    timetable.add(held)
    queue: Any = Queue()
    idle: Any = SimpleNamespace(free=1000, backlog=0, claims=lambda: ())
    claimer = Claimer(
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
    report = asyncio.run(claimer.run_once(NOW))
    return queue.asked, report


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


def _claim(number: int, run_at: int) -> Claim:
    """A gated claim, told apart by its fire time."""
    nothing = dict.fromkeys(Claim.__struct_fields__)
    known = {"job_id": UUID(int=1), "fire_at": number, "tenant_id": 1, "run_at": run_at, "overlap": "skip"}
    return Claim(**nothing | known)
