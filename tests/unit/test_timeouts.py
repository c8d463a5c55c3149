"""Timeouts: each call is cancelled at its own deadline, by one timer, and nothing is kept of calls that are
over."""

import asyncio
import socket
import time
from collections.abc import Awaitable, Callable

import pytest
import uvloop
from hypothesis import given
from hypothesis import strategies as st

from tests.simulation.virtual_time import run_virtually
from tocsin.clock import VirtualClock
from tocsin.domain.instant import SECOND
from tocsin.worker.timeouts import Timeouts


async def spin() -> None:
    for _ in range(4):
        await asyncio.sleep(0)


def play(story: Callable[[Timeouts, VirtualClock], Awaitable[None]]) -> None:
    clock = VirtualClock(0)

    async def scene() -> None:
        timeouts = Timeouts()
        await story(timeouts, clock)
        assert not timeouts._deadlines
        assert not timeouts._kinds
        assert not timeouts._cancelled

    run_virtually(clock, scene())


async def forever() -> None:
    await asyncio.get_running_loop().create_future()


@given(st.lists(st.tuples(st.integers(0, 3), st.sampled_from([1, 5, 30])), max_size=12))
def test_every_call_ends_in_the_second_of_its_deadline(begins: list[tuple[int, int]]) -> None:
    async def story(timeouts: Timeouts, clock: VirtualClock) -> None:
        calls: dict[asyncio.Task[None], int] = {}
        for second in range(40):
            await spin()
            for call, deadline in calls.items():
                assert call.cancelled() == (second >= deadline)
            for begin, seconds in begins:
                if begin == second:
                    call = asyncio.create_task(forever())
                    timeouts.watch(call, seconds)
                    calls[call] = second + seconds
            clock.advance(SECOND)
        await spin()
        assert all(timeouts.over(call) for call in calls)

    play(story)


def test_a_call_that_ended_before_its_deadline_was_not_cancelled_here() -> None:
    async def story(timeouts: Timeouts, clock: VirtualClock) -> None:
        quick, slow = asyncio.create_task(spin()), asyncio.create_task(forever())
        timeouts.watch(quick, 5)
        timeouts.watch(slow, 7)
        await quick
        assert not timeouts.over(quick)
        clock.advance(6 * SECOND)
        await spin()
        assert not slow.done()  # the timer rang for the quick one, and was set again
        clock.advance(SECOND)
        await spin()
        assert slow.cancelled()
        assert timeouts.over(slow)

    play(story)


def test_a_call_that_is_being_stopped_when_its_time_is_over_was_not_cancelled_here() -> None:
    async def slow_to_stop() -> None:
        try:
            await forever()
        finally:
            await asyncio.sleep(3)

    async def story(timeouts: Timeouts, clock: VirtualClock) -> None:
        call = asyncio.create_task(slow_to_stop())
        timeouts.watch(call, 5)
        await spin()
        clock.advance(4 * SECOND)
        call.cancel()
        await spin()
        clock.advance(2 * SECOND)
        await spin()
        assert not call.done()  # what it does to stop is not cut short
        clock.advance(2 * SECOND)
        await spin()
        assert call.cancelled()
        assert not timeouts.over(call)

    play(story)


def test_a_call_that_never_was_watched_is_over_without_a_word() -> None:
    async def story(timeouts: Timeouts, _: VirtualClock) -> None:
        call = asyncio.create_task(spin())
        await call
        assert not timeouts.over(call)

    play(story)


def test_a_call_that_has_its_answer_is_not_cancelled_while_that_is_passed_on() -> None:
    async def story(timeouts: Timeouts, clock: VirtualClock) -> None:
        async def slow_to_pass_on() -> str:
            timeouts.answered(call)
            await asyncio.sleep(3)
            return "answer"

        call = asyncio.create_task(slow_to_pass_on())
        timeouts.watch(call, 1)
        for _ in range(4):
            await spin()
            clock.advance(SECOND)
        await spin()
        assert await call == "answer"
        assert not timeouts.over(call)

    play(story)


@pytest.mark.parametrize("run", [asyncio.run, uvloop.run])
def test_an_answer_that_came_while_the_process_stood_still_counts(run: Callable[..., None]) -> None:
    async def scene() -> None:
        timeouts = Timeouts()
        ours, theirs = socket.socketpair()
        ours.setblocking(False)
        with ours, theirs:

            async def ask() -> bytes:
                answer = await asyncio.get_running_loop().sock_recv(ours, 10)
                timeouts.answered(call)
                return answer

            call = asyncio.create_task(ask())
            timeouts.watch(call, 0.05)
            await asyncio.sleep(0)
            theirs.send(b"answer")
            time.sleep(0.3)  # as if the process had been stopped
            await asyncio.wait([call])
            assert not timeouts.over(call)
            assert call.result() == b"answer"

    run(scene())
