"""Limits by key hold over all workers: never more at once than allowed, never faster, and nothing waits for
ever."""

import asyncio
from collections import Counter
from typing import Any

import pytest
import uvloop

from tests.support.limits import (
    add,
    claim,
    claim_and_start,
    held_slots,
    opened,
    with_idle_slots,
    workers,
)
from tests.support.queues import WholeQueue
from tocsin.clock import system_now
from tocsin.domain.instant import SECOND
from tocsin.domain.policy import Limit, Overlap
from tocsin.queue.claims import Claim, Finish
from tocsin.queue.starting import gate
from tocsin.queue.starting.parking import park
from tocsin.worker.slot_returner import SlotReturner


class Watch:
    """How many executions of each key run now, and ran at most."""

    def __init__(self) -> None:
        self.running: Counter[str] = Counter()
        self.most: Counter[str] = Counter()
        self.done: Counter[str] = Counter()

    def began(self, claim: Claim) -> None:
        assert claim.limit_key is not None
        self.running[claim.limit_key] += 1
        self.most[claim.limit_key] = max(self.most[claim.limit_key], self.running[claim.limit_key])

    def ended(self, claim: Claim) -> None:
        assert claim.limit_key is not None
        self.running[claim.limit_key] -= 1
        self.done[claim.limit_key] += 1


async def work(queue: WholeQueue, watch: Watch, left: list[int]) -> None:
    """Claim, start, and finish after a moment, until everything is done."""
    while left[0] > 0:
        claimed, started = await claim_and_start(queue, 20)
        for one in started:
            watch.began(one)
        for one in started:
            await asyncio.sleep(0)
            # Not running any more from the moment its end is on its way: the slot may be taken before we hear
            # back.
            watch.ended(one)
            assert await queue.settling.finish([Finish(one, "succeeded", system_now())]) == []
            left[0] -= 1
        if not claimed:
            await queue.slots.give_back_wanted()
            await asyncio.sleep(0.005)


def test_no_key_ever_runs_more_at_once_than_its_slots_whatever_the_number_of_workers(url: str) -> None:
    async def scenario() -> None:
        async with opened(url) as database:
            limits = {f"key {n}": n for n in (1, 2, 3, 5, 8)}
            for key, slots in limits.items():
                await add(database, Limit(key, max_parallel=slots), 60)
            watch, left = Watch(), [60 * len(limits)]
            queues = await workers(database, 4)
            await asyncio.gather(*(work(queue, watch, left) for queue in queues))
            assert watch.done == dict.fromkeys(limits, 60)
            assert all(watch.most[key] <= slots for key, slots in limits.items()), watch.most
            assert watch.most["key 8"] > 1, "nothing ran side by side, so nothing was tried"

    uvloop.run(scenario())


def test_what_is_not_used_goes_back_at_once_to_who_waits_and_after_a_while_anyway(url: str) -> None:
    async def scenario() -> None:
        async with opened(url) as database:
            await add(database, Limit("one", max_parallel=1), 2)
            one, other = await workers(database, 2)
            _, started = await claim_and_start(one, 1)
            assert await one.settling.succeed(started, system_now()) == []
            assert await claim_and_start(other, 1) == (1, [])
            await one.slots.give_back_wanted()
            _, started = await claim_and_start(other, 1)
            assert len(started) == 1
            assert await other.settling.succeed(started, system_now()) == []
            await other.slots.give_back_unused()
            assert await held_slots(database, other) == 1, "it was used a moment ago"
            await other.slots.give_back_unused()
            assert await held_slots(database, other) == 0

    uvloop.run(scenario())


def test_a_lowered_limit_holds_for_slots_that_a_worker_has_already(url: str) -> None:
    async def scenario() -> None:
        async with opened(url) as database:
            await add(database, Limit("k", max_parallel=5), 5)
            [queue] = await workers(database, 1)
            _, started = await claim_and_start(queue, 5)
            assert len(started) == 5
            await add(database, Limit("k", max_parallel=2), 4)
            _, more = await claim_and_start(queue, 4)
            assert more == []
            assert await queue.settling.succeed(started, system_now()) == []
            await database.execute("UPDATE executions SET run_at = tocsin_now()")
            _, more = await claim_and_start(queue, 4)
            assert sorted(claim.slot or 0 for claim in more) == [1, 2]

    uvloop.run(scenario())


def test_a_slot_given_back_just_before_somebody_begins_to_wait_for_it_is_not_overlooked(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario() -> None:
        async with opened(url) as database:
            await add(database, Limit("one", max_parallel=1), 2)
            holder, refused = await workers(database, 2)
            _, started = await claim_and_start(holder, 1)

            async def late(*args: Any) -> None:
                """Whoever has the slot ends between the refusal and the wait, and sees nobody waiting."""
                if started:
                    assert await holder.settling.succeed([started.pop()], system_now()) == []
                await park(*args)

            monkeypatch.setattr(gate, "park", late)
            assert await claim_and_start(refused, 1) == (1, [])
            assert not started
            await holder.slots.give_back_wanted()  # as the notice makes it do
            taken, begun = await claim_and_start(refused, 1)
            assert (taken, len(begun)) == (1, 1), "it waits although the slot is free"

    uvloop.run(scenario())


def test_who_gets_no_slot_does_not_keep_its_job_waiting_either(url: str) -> None:
    async def scenario() -> None:
        async with opened(url) as database:
            await add(database, Limit("one", max_parallel=1), 2)
            await database.execute("UPDATE executions SET overlap = 'collapse'")
            [queue] = await workers(database, 1)
            _, started = await claim_and_start(queue, 1)
            assert len(started) == 1
            assert await claim_and_start(queue, 1) == (1, [])
            turns = await database.fetch("SELECT job_id FROM executions WHERE has_turn")
            assert [row["job_id"] for row in turns] == [started[0].job_id]
            assert await queue.settling.succeed(started, system_now()) == []
            _, begun = await claim_and_start(queue, 1)
            assert len(begun) == 1

    uvloop.run(scenario())


def test_starts_of_a_key_are_never_closer_than_its_rate(url: str) -> None:
    async def scenario() -> None:
        async with opened(url) as database:
            await add(database, Limit("slow", rate=50), 25)
            queues = await workers(database, 2)
            starts: list[int] = []
            began = system_now()
            while len(starts) < 25:
                for queue in queues:
                    _, started = await claim_and_start(queue, 10)
                    starts += [claim.started_at for claim in started if claim.started_at is not None]
                    for claim in started:
                        await queue.settling.finish([Finish(claim, "succeeded", system_now())])
                await asyncio.sleep(0.002)
            # Places are 20 ms apart, the first not before we began; nobody starts before its place.
            assert all(start >= began + n * SECOND // 50 for n, start in enumerate(sorted(starts)))

    uvloop.run(scenario())


def test_a_slot_taken_for_what_was_called_off_at_the_last_moment_is_free_again(url: str) -> None:
    async def scenario() -> None:
        async with opened(url) as database:
            await add(database, Limit("k", max_parallel=1), 2)
            [queue] = await workers(database, 1)
            first, second = await claim(queue, 2)
            await database.execute("DELETE FROM executions WHERE job_id = $1", first.job_id)
            assert await queue.starting.start_gated([first], system_now()) == []
            assert await queue.starting.start_gated([second], system_now()) == [second]
            assert second.slot == 1
            assert await queue.settling.succeed([second], system_now()) == []
            await queue.slots.give_back_all()
            assert await held_slots(database, queue) == 0

    uvloop.run(scenario())


def test_a_limited_execution_whose_job_was_deleted_meanwhile_passes_to_be_ended(url: str) -> None:
    async def scenario() -> None:
        async with opened(url) as database:
            await add(database, Limit("k", max_parallel=1), 1)
            await database.execute("DELETE FROM jobs")
            [queue] = await workers(database, 1)
            _, started = await claim_and_start(queue, 1)
            assert [claim.target for claim in started] == [None]

    uvloop.run(scenario())


def test_a_claim_starts_what_the_worker_has_idle_slots_for_and_no_more(url: str) -> None:
    async def scenario() -> None:
        async with opened(url) as database:
            await add(database, Limit("k", max_parallel=5), 8)
            queue, other = await workers(database, 2)
            await with_idle_slots(queue, 2)
            claims = await claim(queue, 4)
            started = [claim for claim in claims if claim.started_at is not None]
            assert len(claims) == 4
            assert {claim.slot for claim in started} == {1, 2}
            assert [claim.slot for claim in claims if claim not in started] == [None, None]
            assert [claim.started_at for claim in await claim(other, 1)] == [None], (
                "another's slots are not its own"
            )
            assert await queue.settling.succeed(started, system_now()) == []
            assert await held_slots(database, queue) == 2

    uvloop.run(scenario())


def test_an_offer_of_slots_starts_no_job_whose_own_limit_does_not_allow_it(url: str) -> None:
    async def scenario() -> None:
        async with opened(url) as database:
            await add(database, Limit("k", max_parallel=3), 3)
            [queue] = await workers(database, 1)
            await with_idle_slots(queue, 3)
            await add(database, Limit("k", max_parallel=2), 1)
            await add(database, Limit("k", max_parallel=3, rate=1, per="1h"), 1)
            await add(database, Limit("k", rate=1, per="1h"), 1)
            claims = await claim(queue, 3)
            assert [claim.started_at for claim in claims] == [None] * 3
            assert [claim.slot for claim in claims] == [None] * 3

    uvloop.run(scenario())


@pytest.mark.parametrize("overlap", [Overlap.SKIP, Overlap.QUEUE])
def test_what_needs_a_slot_and_the_turn_gets_both_in_the_claim(url: str, overlap: Overlap) -> None:
    async def scenario() -> None:
        async with opened(url) as database:
            await add(database, Limit("k", max_parallel=2), 2)
            [queue] = await workers(database, 1)
            await with_idle_slots(queue, 2)
            await add(database, Limit("k", max_parallel=2), 3, overlap)
            # One-offs never overlap, so the store leaves the policy out of their executions; the statement
            # does not care.
            await database.execute("UPDATE executions SET overlap = $1", overlap.value)
            claims = await claim(queue, 3)
            started = [claim for claim in claims if claim.started_at is not None]
            assert len(started) == 2
            turns = await database.fetch("SELECT job_id FROM executions WHERE has_turn")
            assert {row["job_id"] for row in turns} == {claim.job_id for claim in started}
            assert await queue.settling.succeed(started, system_now()) == []
            assert await database.fetch("SELECT job_id FROM executions WHERE has_turn") == []

    uvloop.run(scenario())


def test_who_begins_to_wait_while_slots_are_offered_gets_one_when_the_claim_has_no_use_for_it(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario() -> None:
        async with opened(url) as database:
            await add(database, Limit("one", max_parallel=1), 2)
            queue, other = await workers(database, 2)
            await with_idle_slots(queue, 1)
            keeper = SlotReturner(queue.slots)
            wakes: list[str] = []
            queue.slots.taken.connect(lambda: wakes.append("wake"))
            fetch = database.fetch

            async def meanwhile(query: str, *values: Any) -> list[Any]:
                monkeypatch.setattr(database, "fetch", fetch)
                assert await claim_and_start(other, 1) == (1, [])
                await keeper.run_once(system_now())  # the notice has come
                return await fetch(query, *values)

            monkeypatch.setattr(database, "fetch", meanwhile)
            assert await claim(queue, 1) == []
            assert wakes, "nobody looks again who waits"
            await keeper.run_once(system_now())
            _, started = await claim_and_start(other, 1)
            assert len(started) == 1

    uvloop.run(scenario())
