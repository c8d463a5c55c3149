"""How the starter keeps its connection warm: what is due must not wait for one to be made. And what it asks for in which
order."""

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from tocsin.domain.errors import Unavailable
from tocsin.domain.ids import new_job_id
from tocsin.domain.instant import MILLISECOND, SECOND, Instant
from tocsin.failpoints import Failpoints
from tocsin.queue.claims import Claim
from tocsin.service import Report
from tocsin.telemetry import Telemetry
from tocsin.worker.starter import Starter
from tocsin.worker.timetable import Timetable

NOW = 1_000_000 * SECOND


class Queue:
    """Starts whatever it is asked for, and notes how many that were."""

    def __init__(self) -> None:
        self.asked: list[int] = []
        self.away = self.gate_away = False

    async def start(self, claims: Sequence[Claim]) -> list[Claim]:
        if self.away:
            raise Unavailable("the database did not answer")
        self.asked.append(len(claims))
        return list(claims)

    async def start_gated(self, claims: Sequence[Claim], _: Instant) -> list[Claim]:
        if self.gate_away:
            raise Unavailable("the database did not answer")
        return list(claims)


class Runner:
    """Runs nothing, but could."""

    free = 10

    def __init__(self) -> None:
        self.ran: list[Claim] = []
        self.expired: list[Claim] = []

    def run(self, claims: Sequence[Claim]) -> None:
        self.ran += claims

    def expire(self, claim: Claim) -> None:
        self.expired.append(claim)


class Bed:
    """A starter with nothing but a timetable of its own."""

    def __init__(self) -> None:
        self.queue, self.timetable, self.runner = Queue(), Timetable(), Runner()
        parts: Any = (self.queue, self.timetable, self.runner)
        self.starter = Starter(*parts, Telemetry(), Failpoints())

    def run(self, at: Instant) -> Report:
        return asyncio.run(self.starter.run_once(NOW + at))

    def add(self, run_at: Instant, limit_key: str | None = None, start_by: Instant | None = None) -> Claim:
        at = NOW + run_at
        claim = Claim(
            new_job_id(at), at, 1, "default", 5, at, at, None, at, at, 1, 0, None, None, None, None,
            '{"kind":"noop"}', "{}", 1, 7,
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
