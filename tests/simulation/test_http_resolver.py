"""What is remembered of names, for how long, and what callers get while name servers are silent. Time is
virtual."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from ipaddress import IPv4Address

import pytest

from tests.simulation.faults import spin
from tests.simulation.virtual_time import START, run_virtually
from tocsin.clock import VirtualClock
from tocsin.domain.addresses import Address
from tocsin.domain.instant import MILLISECOND, SECOND, Span
from tocsin.targets.http.resolver import LookupFailed, Resolver, StillResolving, Unresolved

OLD, NEW = IPv4Address("192.0.2.1"), IPv4Address("192.0.2.2")
PATIENCE = 0.5


class Names:
    """Name servers that answer when the test says so."""

    def __init__(self) -> None:
        self.questions: list[tuple[str, asyncio.Future[Sequence[Address]]]] = []

    async def lookup(self, host: str) -> Sequence[Address]:
        question: asyncio.Future[Sequence[Address]] = asyncio.get_running_loop().create_future()
        self.questions.append((host, question))
        return await question

    async def answer(self, address: Address) -> None:
        self.questions[-1][1].set_result([address])
        await spin()

    async def fail(self, *, certain: bool) -> None:
        self.questions[-1][1].set_exception(LookupFailed("no", certain=certain))
        await spin()


class Scene:
    def __init__(self) -> None:
        self.clock, self.names = VirtualClock(START), Names()
        self.resolver = Resolver(self.names.lookup, max_names=2)

    async def passes(self, span: Span) -> None:
        self.clock.advance(span)
        await spin()

    async def ask(self, host: str = "target.test") -> "asyncio.Task[tuple[Address, ...]]":
        task = asyncio.create_task(self.resolver.resolve(host, PATIENCE))
        await spin()
        return task

    async def know(self, address: Address, host: str = "target.test") -> None:
        asking = await self.ask(host)
        await self.names.answer(address)
        assert asking.result() == (address,)


def play(story: Callable[[Scene], Awaitable[None]]) -> None:
    scene = Scene()
    run_virtually(scene.clock, story(scene))


def test_an_answer_is_remembered_then_renewed_in_the_background_then_waited_for() -> None:
    async def story(scene: Scene) -> None:
        await scene.know(OLD)
        await scene.passes(4 * SECOND)
        assert (await scene.ask()).result() == (OLD,)
        assert len(scene.names.questions) == 1
        await scene.passes(2 * SECOND)
        assert (await scene.ask()).result() == (OLD,)  # not held up by the new question
        assert len(scene.names.questions) == 2
        await scene.names.answer(NEW)
        assert (await scene.ask()).result() == (NEW,)
        await scene.passes(31 * SECOND)
        asking = await scene.ask()
        assert not asking.done()
        await scene.names.answer(OLD)
        assert asking.result() == (OLD,)

    play(story)


@pytest.mark.parametrize("silent", [True, False])
def test_while_name_servers_fail_an_old_answer_serves_for_ten_minutes(silent: bool) -> None:
    async def story(scene: Scene) -> None:
        await scene.know(OLD)
        await scene.passes(590 * SECOND)
        asking = await scene.ask()
        if silent:
            await scene.passes(600 * MILLISECOND)
        else:
            await scene.names.fail(certain=False)
        assert asking.result() == (OLD,)
        await scene.passes(10 * SECOND)
        asking = await scene.ask()
        await scene.passes(600 * MILLISECOND)
        assert isinstance(asking.exception(), StillResolving)

    play(story)


def test_a_name_that_certainly_does_not_exist_has_no_old_answer() -> None:
    async def story(scene: Scene) -> None:
        await scene.know(OLD)
        await scene.passes(60 * SECOND)
        asking = await scene.ask()
        await scene.names.fail(certain=True)
        assert isinstance(asking.exception(), Unresolved)
        asking = await scene.ask()
        await scene.passes(600 * MILLISECOND)
        assert isinstance(asking.exception(), StillResolving)

    play(story)


def test_a_lookup_outlives_the_patience_of_its_caller_who_finds_the_answer_later() -> None:
    async def story(scene: Scene) -> None:
        asking = await scene.ask()
        await scene.passes(600 * MILLISECOND)
        assert isinstance(asking.exception(), StillResolving)
        await scene.names.answer(OLD)
        assert (await scene.ask()).result() == (OLD,)
        assert len(scene.names.questions) == 1

    play(story)


def test_who_comes_back_learns_that_nobody_answered_and_later_ones_ask_again() -> None:
    async def story(scene: Scene) -> None:
        asking = await scene.ask()
        await scene.passes(600 * MILLISECOND)
        assert isinstance(asking.exception(), StillResolving)
        await scene.passes(5 * SECOND)
        failure = (await scene.ask()).exception()
        assert isinstance(failure, Unresolved)
        assert "within 5 s" in failure.detail
        assert len(scene.names.questions) == 1
        await scene.passes(5 * SECOND)
        asking = await scene.ask()
        assert (asking.done(), len(scene.names.questions)) == (False, 2)
        asking.cancel()

    play(story)


def test_what_is_remembered_is_bounded_and_the_oldest_goes_first() -> None:
    async def story(scene: Scene) -> None:
        for host in ("a", "b", "c"):
            await scene.know(OLD, host)
        for host in ("b", "c"):
            assert (await scene.ask(host)).result() == (OLD,)
        assert len(scene.names.questions) == 3
        await scene.know(NEW, "a")

    play(story)
