"""The target that every job of the simulation calls: it answers, fails, dawdles or hangs as the seed says.

It writes down each call when it arrives, and what it answered. The fate of a call depends only on the seed
and on what is called, not on the order of calls, so a run can be repeated.
"""

import asyncio
import random
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec

from tocsin.clock import Clock
from tocsin.domain.ids import ExecutionKey
from tocsin.domain.instant import Instant
from tocsin.domain.outcome import SUCCEEDED, Outcome, Verdict
from tocsin.targets.assignment import Assignment

_FATES = {
    "good": 60,
    "bad": 14,
    "rejecting": 2,
    "broken": 3,
    "hanging": 6,
    "slow and good": 10,
    "slow and bad": 5,
}


class Hit(msgspec.Struct):
    """A call that reached the target."""

    at: Instant
    key: ExecutionKey
    attempt: int
    token: int
    fate: str = "good"
    heard: bool = False
    """Whether the caller got the answer."""

    @property
    def good(self) -> bool:
        return self.fate.endswith("good")


class Target:
    """All calls of a run."""

    def __init__(self, seed: int, clock: Clock) -> None:
        self._seed = seed
        self._clock = clock
        self.hits: list[Hit] = []
        self.moody = True

    def caller(self, awake: Callable[[], Awaitable[None]]) -> "SimulatedCaller":
        """The way a node calls it. Answers are heard only while the node is awake."""
        return SimulatedCaller(self, awake)

    async def answer(self, assignment: Assignment) -> tuple[Hit, Outcome]:
        """What a caller gets to see, after a while."""
        key = f"{self._seed} {assignment.job_id} {assignment.fire_at} {assignment.attempt}"
        rng = random.Random(key)
        fate = rng.choices(list(_FATES), list(_FATES.values()))[0] if self.moody else "good"
        hit = Hit(self._clock.now(), assignment.key, assignment.attempt, assignment.token, fate)
        self.hits.append(hit)
        match fate:
            case "hanging":
                await asyncio.Event().wait()
            case "broken":
                raise RuntimeError("a defect in the caller")
            case "rejecting":
                return hit, Outcome(Verdict.REJECTED, error="410 Gone")
            case "slow and good" | "slow and bad":
                await asyncio.sleep(rng.uniform(2, 9))
            case _:
                await asyncio.sleep(rng.choice((0, 0.01, 0.3)))
        return hit, SUCCEEDED if hit.good else Outcome(Verdict.FAILED, error="500")


class SimulatedCaller:
    """One node's way to the target."""

    def __init__(self, target: Target, awake: Callable[[], Awaitable[None]]) -> None:
        self._target = target
        self._awake = awake

    def host(self, target: Any) -> None:
        """Its connections are not limited."""

    async def call(self, assignment: Assignment, target: Any, timeout: float) -> Outcome:
        hit, outcome = await self._target.answer(assignment)
        await self._awake()
        hit.heard = True
        return outcome
