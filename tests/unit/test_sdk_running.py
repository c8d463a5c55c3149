"""What runs tasks, without a server: dependencies, middleware and lifespan around them, and how they are
stopped."""

import asyncio
import logging
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AsyncExitStack
from pathlib import Path
from queue import SimpleQueue
from typing import Any

import pytest

from tests.support import sdk_tasks
from tests.support.sdk_tasks import app, bake, cook, hang_in_c, measure, swell, told
from tocsin import App, Depends
from tocsin.domain.instant import SECOND
from tocsin.domain.protocol import MAX_CAPACITY, MAX_HELD, SHORTEST_LEASE, TaskClaim, TaskSettlement
from tocsin.sdk.depends import Shared
from tocsin.sdk.outcomes import Cancelled, TimedOut
from tocsin.sdk.signature import PayloadError
from tocsin.sdk.task import Task
from tocsin.sdk.worker.attempt import Attempt
from tocsin.sdk.worker.hand import WAITS_AT_MOST, Hand
from tocsin.sdk.worker.loop_watch import BLOCKED_AFTER, LoopWatch
from tocsin.sdk.worker.processes import MIB, ProcessRunner, Wear
from tocsin.sdk.worker.runners import AsyncRunner, ThreadRunner

NOON = "2030-01-31T12:00:00Z"


def attempt_of(task: Task[..., Any], state: Any = None, **payload: Any) -> Attempt:
    claim = TaskClaim(
        f"exec_{time.monotonic_ns()}", "7", task.name, payload, 1, NOON, NOON, 30_000, NOON, "k", "00-0-0-01", "default"
    )  # fmt: skip
    return Attempt(claim, task, state)


class Ends:
    """Waits for what runners say."""

    def __init__(self) -> None:
        self.begun: SimpleQueue[Attempt] = SimpleQueue()
        self._ended: SimpleQueue[TaskSettlement] = SimpleQueue()

    def take(self, attempt: Attempt) -> bool:
        self.begun.put(attempt)
        return not attempt.given_up

    def ended(self, _: Attempt, settlement: TaskSettlement) -> None:
        self._ended.put(settlement)

    def next(self) -> TaskSettlement:
        return self._ended.get(timeout=60)


@pytest.fixture(autouse=True)
def _nothing_told() -> Iterator[None]:
    told.clear()
    yield
    told.clear()


def in_loop(run: Callable[[Shared, Ends], TaskSettlement], *tasks: Task[..., Any]) -> TaskSettlement:
    """What `run` returns, in a thread beside a loop on which the tasks' dependencies were opened."""

    async def main() -> TaskSettlement:
        shared = Shared()
        async with AsyncExitStack() as stack:
            for task in tasks:
                await shared.open(stack, task.signature.dependencies.values())
            return await asyncio.to_thread(run, shared, Ends())

    return asyncio.run(main())


def run_in_thread(attempt: Attempt) -> TaskSettlement:
    def run(shared: Shared, ends: Ends) -> TaskSettlement:
        runner = ThreadRunner(shared, ends.take, ends.ended)
        runner.start(attempt)
        settlement = ends.next()
        runner.close()
        return settlement

    return in_loop(run, attempt.task)


def test_dependencies_are_made_inside_of_middleware_and_closed_in_turn() -> None:
    settlement = run_in_thread(attempt_of(cook, dish="soup"))
    assert settlement.result == "soup in the pot below the lid of the pot on the stove"
    assert told == [
        "stove opens",
        "outer kitchen.cook", "inner", "pot opens", "lid opens", "cook", "lid closes", "pot closes", "inner ends", "outer ends",
        "stove closes",
    ]  # fmt: skip


def test_middleware_sees_what_a_task_raises_and_may_swallow_it() -> None:
    assert run_in_thread(attempt_of(cook, dish="nothing")).verdict == "succeeded"
    assert told[-3:] == ["outer swallows", "outer ends", "stove closes"]


def test_a_coroutine_gets_asynchronous_dependencies_and_the_state_of_the_lifespan() -> None:
    async def run() -> TaskSettlement:
        ends = Ends()
        async with app.alive() as state:
            runner = AsyncRunner(asyncio.get_running_loop(), Shared(), ends.take, ends.ended)
            runner.start(attempt_of(bake, state, dish="bread"))
            return await asyncio.to_thread(ends.next)

    result = asyncio.run(run()).result
    assert result.startswith("bread on the stove, state of kitchen in ")
    assert told == ["kitchen opens", "outer kitchen.bake", "inner", "stove opens", "bake", "stove closes", "inner ends", "outer ends", "kitchen closes"]  # fmt: skip


def test_what_a_factory_makes_is_no_part_of_the_payload() -> None:
    assert cook.args("soup").payload == {"dish": "soup"}
    with pytest.raises(PayloadError, match="over is made where the task runs"):
        cook.args("soup", sdk_tasks.Pot("my own"))


def test_a_plain_call_makes_what_it_was_not_given() -> None:
    given = cook("soup", heat=sdk_tasks.Pot("fire"))
    assert given == "soup in the pot below the lid of the pot on the fire"
    assert told == ["pot opens", "lid opens", "cook", "lid closes", "pot closes"]


def test_a_dependency_that_cannot_be_made_is_refused_when_the_task_is_declared() -> None:
    async def later() -> int:
        return 1

    def wrong(one: int = Depends(later)) -> None: ...
    def short(one: int = Depends(later)) -> int:
        return one

    with pytest.raises(TypeError, match="cannot wait for Depends"):
        App("x").task(wrong)
    with pytest.raises(TypeError, match="cannot depend on what lives for a call"):
        Depends(short, scope="worker")
    with pytest.raises(TypeError, match="generator function"):
        App("x").around(lambda _: None)  # type: ignore[arg-type, return-value]
    with pytest.raises(TypeError, match="async generator"):
        App("x").lifespan(lambda _: None)  # type: ignore[arg-type, return-value]


def test_a_child_has_a_lifespan_of_its_own_and_a_hanging_call_into_c_is_killed() -> None:
    ends = Ends()
    runner = ProcessRunner(1, ends.take, ends.ended, Wear())
    runner.start(attempt_of(measure))
    first = ends.next().result
    assert first == {"state": f"state of kitchen in {first['pid']}", "pot": "pot", "pid": first["pid"]}
    ends.begun.get(timeout=60)
    hanging = attempt_of(hang_in_c)
    runner.start(hanging)
    while hanging.began is None:
        time.sleep(0.01)
    hanging.stop(TimedOut("not over within 30 s"))
    hanging.kill()
    assert ends.next().verdict == "timed_out"
    runner.start(attempt_of(measure))
    assert ends.next().result["pid"] != first["pid"], "the child that hung still runs"
    runner.close()


@pytest.mark.parametrize("wear", [Wear(max_calls=2), Wear(max_memory=100 * MIB)], ids=["calls", "memory"])
def test_a_child_that_is_worn_out_is_replaced_after_its_call_and_leaves_its_lifespan(
    wear: Wear, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    left = tmp_path / "left"
    monkeypatch.setenv("KITCHEN_LEFT", str(left))
    ends = Ends()
    runner = ProcessRunner(1, ends.take, ends.ended, wear)

    def run(mebibytes: int) -> int:
        runner.start(attempt_of(swell, mebibytes=mebibytes))
        pid: int = ends.next().result
        return pid

    first = run(0)
    assert run(100) == first, "it was replaced before it was worn out"
    second = run(0)
    assert second != first
    assert left.read_text().split() == [str(first)]
    assert run(0) == second
    runner.close()


def test_a_blocked_loop_is_told_once_with_the_line_that_blocks_it(caplog: pytest.LogCaptureFixture) -> None:
    free = threading.Event()

    def block_the_loop() -> None:
        free.wait(60)

    async def main() -> LoopWatch:
        loop = asyncio.get_running_loop()
        watch = LoopWatch(loop, threading.get_ident())

        def look() -> None:
            until = time.monotonic() + 10 * BLOCKED_AFTER
            while not watch.times_blocked and time.monotonic() < until:
                watch.look()
                time.sleep(0.05)
            watch.look()
            free.set()

        looking = asyncio.create_task(asyncio.to_thread(look))
        await asyncio.sleep(0)
        block_the_loop()
        await looking
        return watch

    with caplog.at_level(logging.WARNING, "tocsin.worker"):
        watch = asyncio.run(main())
    assert watch.times_blocked == 1
    blocked, *rest = [record.getMessage() for record in caplog.records]
    assert "block_the_loop" in blocked
    assert all("goes on" in one for one in rest)


def test_a_stray_thread_says_where_it_is() -> None:
    free = threading.Event()
    stuck = App("stray").task(name="stray.stuck")(lambda: free.wait(60))
    ends = Ends()
    runner = ThreadRunner(Shared(), ends.take, ends.ended)
    attempt = attempt_of(stuck)
    runner.start(attempt)
    ends.begun.get(timeout=60)
    while "free.wait(60)" not in attempt.where():
        time.sleep(0.01)
    free.set()
    assert ends.next().verdict == "succeeded"
    runner.close()


def test_tasks_that_wait_for_each_other_all_have_a_thread_again_and_again() -> None:
    ends, together = Ends(), threading.Barrier(8)
    runner = ThreadRunner(Shared(), ends.take, ends.ended)
    meet = App("meeting").task(name="meeting.meet")(lambda: together.wait(60))
    for _ in range(20):
        for _ in range(8):
            runner.start(attempt_of(meet))
        assert {ends.next().verdict for _ in range(8)} == {"succeeded"}
    runner.close()


def test_what_went_back_is_not_run_by_a_thread_that_comes_to_it_later() -> None:
    hand, ends, attempt = Hand(1), Ends(), attempt_of(cook, dish="soup")
    hand.hold(attempt)
    assert hand.take_unbegun() == [attempt]
    runner = ThreadRunner(Shared(), hand.take, ends.ended)
    runner.start(attempt)
    running = App("after").task(name="after.quick")(lambda: "ran")
    runner.start(quick := attempt_of(running))
    assert ends.next().id == quick.claim.id
    assert told == []
    runner.close()


@pytest.mark.parametrize("make", [ThreadRunner, lambda _, *told: ProcessRunner(1, *told, Wear())])
def test_what_was_asked_to_stop_before_it_began_is_not_run(make: Any) -> None:
    ends, attempt = Ends(), attempt_of(cook, dish="soup")
    attempt.stop(Cancelled("enough"))
    runner = make(Shared(), ends.take, ends.ended)
    runner.start(attempt)
    assert ends.next().verdict == "cancelled"
    assert told == []
    runner.close()


def quick(hand: Hand, number: int, seconds: float = 0.0) -> None:
    """Run attempts that take so long, one after the other."""
    for _ in range(number):
        attempt = attempt_of(bake, dish="bun")
        hand.hold(attempt)
        hand.admit()
        hand.take(attempt)
        attempt.began = time.monotonic() - seconds
        hand.end(attempt, TaskSettlement(attempt.claim.id, "7", "succeeded"))


def test_a_worker_with_quick_tasks_claims_ahead_and_one_with_slow_tasks_does_not() -> None:
    hand = Hand(10)
    assert hand.wait_for_place(1000) == 10
    quick(hand, 200)
    assert hand.wait_for_place(1000) > 100
    quick(hand, 200, seconds=2)
    assert hand.wait_for_place(1000) == 10


def test_what_a_worker_holds_ready_stays_within_the_bounds_of_the_protocol() -> None:
    hand = Hand(MAX_CAPACITY)
    quick(hand, 200)
    assert hand.wait_for_place(2 * MAX_HELD) == MAX_HELD
    assert 2 * WAITS_AT_MOST * SECOND < SHORTEST_LEASE


def test_only_as_many_run_as_there_are_places_and_the_next_begins_when_one_ends() -> None:
    hand, attempts = Hand(2), [attempt_of(bake, dish=str(number)) for number in range(4)]
    for attempt in attempts:
        hand.hold(attempt)
    assert hand.admit() == attempts[:2]
    assert hand.end(attempts[1], TaskSettlement("1", "7", "succeeded")) == [attempts[2]]
    assert hand.end(attempts[1], TaskSettlement("1", "7", "succeeded")) == [], "a place was given up twice"
    assert hand.running == 2
    assert hand.take_unbegun(waiting_for=60) == []
    for attempt in (attempts[0], attempts[2]):
        hand.take(attempt)
    assert hand.take_unbegun() == [attempts[3]]
    assert hand.end(attempts[0], TaskSettlement("1", "7", "succeeded")) == []
    assert hand.running == 1


def test_what_has_a_place_and_waits_for_a_child_process_stays_and_goes_back_only_when_the_worker_drains() -> (
    None
):
    hand, attempt, behind = Hand(1), attempt_of(measure), attempt_of(measure)
    for one in (attempt, behind):
        hand.hold(one)
        one.came -= 60
    assert hand.admit() == [attempt]
    assert hand.take_unbegun(waiting_for=1) == [behind]
    assert hand.take_unbegun() == [attempt]


def test_what_a_runner_has_taken_does_not_go_back() -> None:
    hand, attempt = Hand(1), attempt_of(cook, dish="soup")
    hand.hold(attempt)
    assert hand.take(attempt)
    assert hand.take_unbegun() == []


def test_what_was_given_up_or_lost_is_not_told_and_what_could_not_be_told_is_told_first() -> None:
    hand = Hand(2)
    attempts = [attempt_of(bake, dish=str(number)) for number in range(3)]
    for attempt in attempts:
        assert hand.hold(attempt) is None
    attempts[1].given_up = True
    for attempt in attempts:
        hand.end(attempt, TaskSettlement(attempt.claim.id, "7", "succeeded"))
    assert hand.attempts() == []
    taken = hand.take_outcomes(1)
    hand.take_back(taken)
    assert [one.id for one in hand.take_outcomes(9)] == [attempts[0].claim.id, attempts[2].claim.id]


def test_a_worker_that_drains_runs_nothing_that_it_was_given_since_and_nothing_that_it_gave_back() -> None:
    hand, running, before, after = Hand(1), *(attempt_of(bake, dish=dish) for dish in ("a", "b", "c"))
    for attempt in (running, before):
        hand.hold(attempt)
    assert hand.admit() == [running]
    hand.take(running)
    hand.drain()
    hand.hold(after)
    assert hand.end(running, TaskSettlement(running.claim.id, "7", "succeeded")) == []
    assert hand.admit() == []
    assert hand.take_unbegun() == [before, after]
    assert not hand.take(before), "a thread that was about to run it does"
    assert hand.attempts() == []
