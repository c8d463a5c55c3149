"""What an execution does not need it does not meet: one without a limit passes through no code of the
limits."""

from types import FunctionType
from typing import Any

import pytest

from tests.simulation.workshop import Workshop, play
from tocsin.domain.instant import SECOND
from tocsin.domain.lifecycle import State
from tocsin.queue.slots.book import SlotBook
from tocsin.queue.slots.slots import Slots
from tocsin.queue.starting.gate import Gate
from tocsin.queue.starting.rates import Rates
from tocsin.queue.starting.turns import Turns

BEFORE_ANY_EXECUTION = {"__init__", "has_idle"}


@pytest.fixture
def closed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every function of the limits' and turns' classes fails."""

    def entered(*_: Any, **__: Any) -> None:
        raise AssertionError("an execution without limits came here")

    for kind in (Slots, SlotBook, Gate, Rates, Turns):
        for name, value in vars(kind).items():
            if isinstance(value, FunctionType) and name not in BEFORE_ANY_EXECUTION:
                monkeypatch.setattr(kind, name, entered)


@pytest.mark.usefixtures("closed")
def test_an_execution_without_limits_and_overlap_policy_meets_no_code_of_either(url: str) -> None:
    async def story(shop: Workshop) -> None:
        worker = shop.worker(1)
        for _ in range(4):
            await shop.once()
        succeeded, dead, failed, postponed = await shop.claim(worker)
        assert await worker.settling.succeed([succeeded], shop.time.now()) == []
        assert await worker.settling.finish([shop.finish(dead, State.DEAD)]) == []
        assert await worker.settling.retry([shop.again(failed)]) == []
        assert await worker.settling.postpone([shop.again(postponed)]) == []
        await shop.once(SECOND)
        ahead = await shop.claim(worker)
        assert await worker.claiming.extend(ahead) == ([], [])
        await shop.time.advance(2 * SECOND)
        assert await worker.starting.start(ahead) != []

    play(url, story)


def test_one_with_a_limit_does(url: str, closed: None) -> None:
    async def story(shop: Workshop) -> None:
        worker = shop.worker(1)
        await shop.once()
        [claim] = await shop.claim(worker)
        claim.limit_key = "k"
        with pytest.raises(AssertionError, match="came here"):
            await worker.settling.succeed([claim], shop.time.now())

    play(url, story)
