"""A worker that lost an execution and claimed it again may have both attempts under way for a moment: what happens
to the lost one does not touch the other. And whatever goes wrong around a call, the attempt ends as an outcome."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any
from uuid import UUID

import msgspec
import pytest
import structlog

from tests.simulation.faults import spin
from tests.simulation.virtual_time import START, run_virtually
from tocsin.clock import VirtualClock
from tocsin.domain.instant import SECOND
from tocsin.domain.outcome import SUCCEEDED, Outcome, Verdict
from tocsin.domain.target import HttpTarget
from tocsin.failpoints import Failpoints
from tocsin.queue.claims import Claim
from tocsin.telemetry import Telemetry
from tocsin.worker.runner import Runner
from tocsin.worker.settler import Settlement

TARGET = msgspec.json.encode(HttpTarget("http://target.example/")).decode()


class Settled:
    """Takes what a settler would."""

    def __init__(self) -> None:
        self.settlements: list[Settlement] = []

    def put(self, settlement: Settlement) -> None:
        self.settlements.append(settlement)

    @property
    def verdicts(self) -> list[tuple[int, Verdict]]:
        return [(s.claim.token, s.outcome.verdict) for s in self.settlements]


class Calls:
    """Calls that answer when the test says so, by token."""

    def __init__(self) -> None:
        self.answers: dict[int, asyncio.Future[Outcome]] = {}

    async def call(self, claim: Claim, target: Any, timeout: float) -> Outcome:
        self.answers[claim.token] = asyncio.get_running_loop().create_future()
        return await self.answers[claim.token]


def claim(token: int, attempt: int = 1) -> Claim:
    values = dict.fromkeys(Claim.__struct_fields__)
    known = {"job_id": UUID(int=1), "fire_at": START, "due_at": START, "run_at": START, "started_at": START}
    return Claim(
        **values | known | {"attempt": attempt, "earlier_attempts": 0, "target": TARGET, "token": token}
    )


def play(
    story: Callable[[Runner, Calls, Settled], Awaitable[None]], points: Failpoints | None = None
) -> None:
    clock, calls, settled = VirtualClock(START), Calls(), Settled()
    runner: Any = Runner(
        {HttpTarget: calls}, settled, clock, Telemetry(), points or Failpoints(), concurrency=10
    )
    with structlog.testing.capture_logs():
        run_virtually(clock, story(runner, calls, settled))


def test_abandoning_a_lost_claim_leaves_the_new_claim_of_the_same_execution_alone() -> None:
    async def story(runner: Runner, calls: Calls, settled: Settled) -> None:
        lost, mine = claim(1), claim(2, attempt=2)
        runner.run([lost])
        await spin()
        runner.run([mine])
        await spin()
        assert runner.claims() == [lost, mine]
        runner.abandon(lost)
        await spin()
        assert runner.claims() == [mine]
        calls.answers[2].set_result(SUCCEEDED)
        await spin()
        assert settled.verdicts == [(2, Verdict.SUCCEEDED)]
        assert runner.free == 10

    play(story)


def test_a_late_answer_to_a_lost_claim_leaves_the_new_claim_under_way() -> None:
    async def story(runner: Runner, calls: Calls, settled: Settled) -> None:
        lost, mine = claim(1), claim(2, attempt=2)
        runner.run([lost, mine])
        await spin()
        calls.answers[1].set_result(SUCCEEDED)
        await spin()
        assert runner.claims() == [mine]
        assert settled.verdicts == [(1, Verdict.SUCCEEDED)]  # which the database will refuse

    play(story)


def test_stopping_one_claim_does_not_stop_the_other() -> None:
    async def story(runner: Runner, calls: Calls, settled: Settled) -> None:
        runner.run([claim(1), claim(2, attempt=2)])
        await spin()
        runner.stop(claim(1))
        await spin()
        assert settled.verdicts == [(1, Verdict.CANCELLED)]
        assert [held.token for held in runner.claims()] == [2]

    play(story)


@pytest.mark.parametrize("point", ["runner.before_call", "runner.called"])
def test_an_error_around_a_call_ends_the_attempt_and_frees_its_place(point: str) -> None:
    async def story(runner: Runner, calls: Calls, settled: Settled) -> None:
        runner.run([claim(1)])
        await spin()
        if point == "runner.called":
            calls.answers[1].set_result(SUCCEEDED)
            await spin()
        assert settled.verdicts == [(1, Verdict.FAILED)]
        assert (runner.claims(), runner.free) == ([], 10)

    play(story, Failpoints.from_text(f"{point}=error"))


def test_a_call_that_never_answers_ends_at_its_timeout() -> None:
    async def story(runner: Runner, calls: Calls, settled: Settled) -> None:
        runner.run([claim(1)])
        await spin()
        runner._clock.advance(31 * SECOND)
        await spin()
        assert settled.verdicts == [(1, Verdict.TIMED_OUT)]

    play(story)
