"""The look below the low marks: in nobody's way, and given up when nobody needs it."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from tocsin.domain.errors import Unavailable
from tocsin.service import Report
from tocsin.worker.stragglers import Stragglers


class Queue:
    """Looks below as it is told to."""

    def __init__(self, look: Callable[[], Awaitable[int]]) -> None:
        self._look = look

    async def look_below(self, _: int) -> int:
        return await self._look()


def run(look: Callable[[], Awaitable[int]], give_up: bool = False) -> tuple[Report, int]:
    """What a run reports, and how often the claimer was told to look again."""
    told: list[int] = []

    async def scenario() -> Report:
        queue: Any = Queue(look)
        stragglers = Stragglers(queue)
        stragglers.found.connect(lambda: told.append(1))
        running = asyncio.create_task(stragglers.run_once(0))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        if give_up:
            stragglers.give_up()
        return await running

    return asyncio.run(scenario()), len(told)


def test_the_claimer_is_told_if_something_was_found_and_only_then() -> None:
    async def found() -> int:
        return 2

    async def nothing() -> int:
        return 0

    assert run(found) == (Report(done=2), 1)
    assert run(nothing) == (Report(), 0)


def test_a_look_that_failed_is_not_made_again_before_its_time() -> None:
    async def too_long() -> int:
        raise Unavailable("canceling statement due to statement timeout")

    assert run(too_long) == (Report(), 0)


def test_a_defect_is_not_hidden() -> None:
    async def broken() -> int:
        raise KeyError("lane")

    with pytest.raises(KeyError):
        run(broken)


def test_a_look_that_nobody_needs_ends_at_once() -> None:
    async def forever() -> int:
        await asyncio.Event().wait()
        return 1

    assert run(forever, give_up=True) == (Report(), 0)
