"""A success that has nothing to tell takes the short way to history, whatever kind of target it is of."""

from collections import Counter
from typing import Any

import msgspec
import pytest

from tests.simulation.faults import spin
from tests.simulation.workshop import Workshop, play
from tests.skew.test_newer_rows import work, worker_of
from tocsin.domain.outcome import SUCCEEDED, Outcome, Verdict
from tocsin.domain.target import HttpTarget, NoopTarget, Target
from tocsin.queue.settling.settling import Settling
from tocsin.targets.assignment import Assignment

WEBHOOK, NOOP = HttpTarget("http://target.example/"), NoopTarget()
TELLS = Outcome(Verdict.SUCCEEDED, detail={"status": 200})


class Calls:
    """Calls that end as the test says."""

    def __init__(self, outcome: Outcome) -> None:
        self._outcome = outcome

    def host(self, target: HttpTarget) -> None: ...

    async def call(self, assignment: Assignment, target: Any, timeout: float) -> Outcome:
        return self._outcome


class AnswersAtOnce:
    """Answers at once, what the test says."""

    def __init__(self, outcome: Outcome) -> None:
        self._outcome = outcome

    def answer_at_once(self, target: NoopTarget) -> Outcome:
        return self._outcome


@pytest.fixture
def ways(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """How many executions went which way."""
    went = Counter[str]()

    def noted(name: str) -> None:
        settle = getattr(Settling, name)

        async def note(self: Settling, batch: Any, *args: Any) -> Any:
            went[name] += len(batch)
            return await settle(self, batch, *args)

        monkeypatch.setattr(Settling, name, note)

    noted("succeed")
    noted("finish")
    return went


@pytest.mark.parametrize("target", [WEBHOOK, NOOP], ids=["a call", "an answer at once"])
@pytest.mark.parametrize(
    ("outcome", "way"),
    [
        (SUCCEEDED, {"succeed": 1}),
        (msgspec.structs.replace(SUCCEEDED, result=7), {"finish": 1}),
        (TELLS, {"finish": 1}),
        (Outcome(Verdict.REJECTED, "no"), {"finish": 1}),
    ],
    ids=["nothing to tell", "a result", "a detail", "a failure"],
)
def test_only_a_success_without_more_to_say_takes_it(
    url: str, ways: Counter[str], target: Target, outcome: Outcome, way: dict[str, int]
) -> None:
    async def story(shop: Workshop) -> None:
        callers: Any = {"http": Calls(outcome), "noop": AnswersAtOnce(outcome)}
        worker = worker_of(shop, callers=callers)
        await shop.once(target=target)
        for _ in range(2):
            await work(shop, worker)
            await spin()
        assert +ways == way
        assert await shop.count("history") == 1

    play(url, story)
