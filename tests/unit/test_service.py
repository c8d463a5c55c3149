"""The loop that drives every background part: it never dies, never spins, and hears when it is woken."""

import asyncio
from collections.abc import Callable
from itertools import pairwise

import pytest
import structlog

from tests.simulation.virtual_time import START, run_virtually
from tocsin.clock import VirtualClock
from tocsin.domain.errors import OwnershipLost, Unavailable
from tocsin.domain.instant import MILLISECOND, SECOND, Instant
from tocsin.service import AGAIN_NOW, Failed, Loop, Report


class Part:
    """A service that does what the test says, and writes down when it ran."""

    name = "part"
    interval = 2.0

    def __init__(self, behave: Callable[[int, Instant], Report] = lambda n, now: Report()) -> None:
        self.behave = behave
        self.ran: list[Instant] = []

    async def run_once(self, now: Instant) -> Report:
        self.ran.append(now)
        await asyncio.sleep(0)
        return self.behave(len(self.ran), now)


def watch(
    part: Part,
    seconds: float,
    meanwhile: dict[int, Callable[[Loop], None]] | None = None,
    first_after: float = 0.0,
    failed: Failed = lambda *_: None,
) -> Loop:
    """Run a part's loop for a while of virtual time, ten milliseconds at a step."""
    clock = VirtualClock(START)

    async def scenario() -> Loop:
        loop = Loop(part, clock, first_after)
        task = asyncio.create_task(loop.run(failed))
        for step in range(round(seconds * 100)):
            for _ in range(6):
                await asyncio.sleep(0)
            if meanwhile and step in meanwhile:
                meanwhile[step](loop)
            assert not task.done() or loop._stop.is_set()
            clock.advance(10 * MILLISECOND)
        loop.stop()
        await task
        return loop

    with structlog.testing.capture_logs():
        return run_virtually(clock, scenario())


def gaps(part: Part) -> list[float]:
    return [(after - before) / SECOND for before, after in pairwise(part.ran)]


@pytest.mark.parametrize(
    "error", [Unavailable("away"), OwnershipLost("gone"), RuntimeError("a defect"), KeyError(1)]
)
def test_a_part_that_always_fails_is_tried_again_with_growing_pauses_and_never_dies(error: Exception) -> None:
    def fail(number: int, now: Instant) -> Report:
        raise error

    part = Part(fail)
    loop = watch(part, 60)
    expected = 0.1
    for gap in gaps(part)[:-1]:
        assert expected * 0.5 <= gap <= expected + 0.02
        expected = min(expected * 2, 3.0)
    assert loop.failures == len(part.ran) > 20


def test_a_success_makes_the_pauses_short_again() -> None:
    def fail_but_for_the_tenth(number: int, now: Instant) -> Report:
        if number == 10:
            return Report(again_at=AGAIN_NOW)
        raise Unavailable("away")

    part = Part(fail_but_for_the_tenth)
    watch(part, 40)
    assert gaps(part)[8] > 1.4
    assert gaps(part)[10] < 0.12


def test_without_a_wish_a_part_runs_at_its_interval() -> None:
    part = Part()
    watch(part, 9)
    assert gaps(part) == pytest.approx([2.0] * 4, abs=0.02)


def test_a_part_that_can_wait_runs_first_after_a_while() -> None:
    part = Part()
    watch(part, 6, first_after=5.0)
    assert [round((at - START) / SECOND, 1) for at in part.ran] == [5.0]


def test_a_part_that_can_wait_is_woken_and_stopped_before_its_first_run_all_the_same() -> None:
    woken, stopped = Part(), Part()
    watch(woken, 2, {100: Loop.wake}, first_after=5.0)
    assert [round((at - START) / SECOND, 1) for at in woken.ran] == [1.0]
    watch(stopped, 2, {100: Loop.stop}, first_after=5.0)
    assert stopped.ran == []


def test_a_part_runs_when_its_report_says() -> None:
    part = Part(lambda number, now: Report(again_at=now + number * 100 * MILLISECOND))
    watch(part, 3)
    assert gaps(part)[:5] == pytest.approx([0.1, 0.2, 0.3, 0.4, 0.5], abs=0.02)


def test_a_wish_for_the_past_means_now_and_leaves_others_room_to_run() -> None:
    part = Part(lambda number, now: Report(again_at=AGAIN_NOW if number < 5 else None))
    watch(part, 1)
    assert len(part.ran) == 5
    assert part.ran[4] - part.ran[0] <= 50 * MILLISECOND


def test_a_wake_up_brings_the_next_run_forward() -> None:
    part = Part()
    watch(part, 1, {50: Loop.wake})
    assert gaps(part) == pytest.approx([0.5], abs=0.02)


def test_a_part_that_fails_and_is_woken_all_the_time_backs_off_all_the_same() -> None:
    def fail(number: int, now: Instant) -> Report:
        raise Unavailable("away")

    part = Part(fail)
    watch(part, 10, dict.fromkeys(range(1000), Loop.wake))
    assert len(part.ran) < 50
    assert min(gaps(part)[3:-1]) >= 0.25, "it does not back off"


def test_a_wake_up_shortens_a_long_pause_after_failures_to_half_a_second() -> None:
    def fail(number: int, now: Instant) -> Report:
        raise Unavailable("away")

    part = Part(fail)
    watch(part, 30, dict.fromkeys(range(2000, 3000), Loop.wake))
    assert max(gaps(part)) > 1.4
    late = [time for time in part.ran if time >= START + 21 * SECOND]
    assert max((after - before) / SECOND for before, after in pairwise(late)) <= 0.52


def test_a_stop_ends_the_pause_after_a_failure() -> None:
    def fail(number: int, now: Instant) -> Report:
        raise Unavailable("away")

    part = Part(fail)
    watch(part, 20, {1900: Loop.stop})
    assert part.ran[-1] < START + 19.02 * SECOND


def test_a_wake_up_during_a_run_is_not_forgotten() -> None:
    part = Part()

    def wake_once(number: int, now: Instant) -> Report:
        if number == 1:
            loop.wake()
        return Report()

    part.behave = wake_once
    clock = VirtualClock(START)
    loop = Loop(part, clock)

    async def scenario() -> None:
        task = asyncio.create_task(loop.run())
        for _ in range(10):
            await asyncio.sleep(0)
        loop.stop()
        await task

    run_virtually(clock, scenario())
    assert len(part.ran) == 2


def test_a_stopped_loop_ends_after_the_run_under_way() -> None:
    part = Part(lambda number, now: Report(again_at=AGAIN_NOW))
    loop = watch(part, 0.05, {2: Loop.stop})
    assert loop.failures == 0
    ran = len(part.ran)
    assert ran < 100


def test_a_cancelled_loop_lets_the_cancellation_through() -> None:
    async def scenario() -> None:
        task = asyncio.create_task(Loop(Part(), clock).run())
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    clock = VirtualClock(START)
    run_virtually(clock, scenario())


def test_each_failure_is_told_with_the_part_and_the_family_of_its_error() -> None:
    errors = [Unavailable("away"), OwnershipLost("gone"), ValueError("a defect")]

    def fail(run: int, _: Instant) -> Report:
        if run <= len(errors):
            raise errors[run - 1]
        return Report()

    heard: list[tuple[str, str]] = []

    watch(Part(fail), seconds=8, first_after=0.05, failed=lambda part, kind: heard.append((part, kind)))
    assert heard == [("part", "unavailable"), ("part", "ownership_lost"), ("part", "defect")]
