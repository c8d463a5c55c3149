"""Limits by key hold over all workers: never more at once than allowed, never faster, and nothing waits for ever."""

import asyncio
import secrets
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
import uvloop

from tocsin.clock import system_now
from tocsin.db.pool import Database, open_database
from tocsin.domain.ids import new_job_id, shard_of
from tocsin.domain.instant import SECOND, format_instant
from tocsin.domain.job import Definition
from tocsin.domain.policy import Limit, Policies
from tocsin.domain.schedule import Schedule
from tocsin.domain.target import NoopTarget
from tocsin.queue.claims import Claim, Finish, Overdue, Requeue
from tocsin.queue.gate import Gate
from tocsin.queue.lanes import Allotment, Lane
from tocsin.queue.postgres import PostgresQueue
from tocsin.store.jobs import JobStore, NewJob

LANE = Lane("default", 5, 1)


@asynccontextmanager
async def opened(url: str, size: int = 8) -> AsyncIterator[Database]:
    database = await open_database(url, name="test", size=size, pinned=True)
    try:
        yield database
    finally:
        await database.close()


async def add(database: Database, limit: Limit, count: int) -> None:
    now = system_now()
    definition = Definition(Schedule(at=format_instant(now)), NoopTarget(), policies=Policies(limit=limit))
    jobs = []
    for _ in range(count):
        job_id = new_job_id(now)
        jobs.append(NewJob(job_id, 1, shard_of(job_id, 64), definition, now, now))
    await JobStore(database).define(jobs, now)


async def claim_and_start(queue: PostgresQueue, take: int) -> tuple[int, list[Claim]]:
    """Returns how many were claimed and which of them passed the gate."""
    now = system_now()
    claims = await queue.claim([Allotment(LANE, take)], now, secrets.randbits(63), now)
    return len(claims), await queue.start_gated(claims, system_now()) if claims else []


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


async def work(queue: PostgresQueue, watch: Watch, left: list[int]) -> None:
    """Claim, start, and finish after a moment, until everything is done."""
    while left[0] > 0:
        claimed, started = await claim_and_start(queue, 20)
        for claim in started:
            watch.began(claim)
        for claim in started:
            await asyncio.sleep(0)
            # Not running any more from the moment its end is on its way: the slot may be taken before we hear back.
            watch.ended(claim)
            assert await queue.finish_gated([Finish(claim, "succeeded", system_now())]) == []
            left[0] -= 1
        if not claimed:
            await queue.heal()
            await asyncio.sleep(0.005)


def test_no_key_ever_runs_more_at_once_than_its_slots_whatever_the_number_of_workers(url: str) -> None:
    async def scenario() -> None:
        async with opened(url) as database:
            limits = {f"key {n}": n for n in (1, 2, 3, 5, 8)}
            for key, slots in limits.items():
                await add(database, Limit(key, max_parallel=slots), 60)
            watch, left = Watch(), [60 * len(limits)]
            queues = [PostgresQueue(database, node, claim_ttl=60) for node in range(1, 5)]
            await asyncio.gather(*(work(queue, watch, left) for queue in queues))
            assert watch.done == dict.fromkeys(limits, 60)
            assert all(watch.most[key] <= slots for key, slots in limits.items()), watch.most
            assert watch.most["key 8"] > 1, "nothing ran side by side, so nothing was tried"

    uvloop.run(scenario())


def test_the_slot_of_a_lost_worker_comes_back_with_its_claim(url: str) -> None:
    async def scenario() -> None:
        async with opened(url) as database:
            await add(database, Limit("one", max_parallel=1), 2)
            dying, living = (
                PostgresQueue(database, 1, claim_ttl=0.2),
                PostgresQueue(database, 2, claim_ttl=60),
            )
            _, started = await claim_and_start(dying, 1)
            assert len(started) == 1
            assert await claim_and_start(living, 1) == (1, [])  # the slot is taken, the other waits

            def again(overdue: Overdue) -> Requeue:
                return Requeue(overdue, system_now(), None)

            while await dying.reclaim(10, again) != (1, 0):
                await asyncio.sleep(0.02)
            begun: list[Claim] = []
            while not begun:
                _, begun = await claim_and_start(living, 1)
            assert len(begun) == 1
            late = await dying.finish_gated([Finish(started[0], "succeeded", system_now())])
            assert late == started, "a late worker must not free a slot that is somebody else's"
            taken = await database.one("SELECT count(*) AS n FROM limit_slots WHERE job_id IS NOT NULL")
            assert taken["n"] == 1

    uvloop.run(scenario())


def test_a_slot_given_back_just_before_somebody_begins_to_wait_for_it_is_not_overlooked(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario() -> None:
        async with opened(url) as database:
            await add(database, Limit("one", max_parallel=1), 2)
            holder, refused = (PostgresQueue(database, node, claim_ttl=60) for node in (1, 2))
            _, started = await claim_and_start(holder, 1)
            park = Gate._park

            async def late(self: Gate, *args: Any) -> None:
                """Whoever has the slot ends between the refusal and the wait, and sees nobody waiting."""
                if started:
                    assert await holder.succeed([started.pop()], system_now()) == []
                await park(self, *args)

            monkeypatch.setattr(Gate, "_park", late)
            assert await claim_and_start(refused, 1) == (1, [])
            assert not started
            taken, begun = await claim_and_start(refused, 1)
            assert (taken, len(begun)) == (1, 1), "it waits although the slot is free"

    uvloop.run(scenario())


def test_a_slot_that_another_worker_took_meanwhile_is_passed_over_for_a_free_one(url: str) -> None:
    async def scenario() -> None:
        async with opened(url) as database:
            await add(database, Limit("two", max_parallel=2), 4)
            one, other = (PostgresQueue(database, node, claim_ttl=60) for node in (1, 2))
            _, [first] = await claim_and_start(one, 1)
            assert await one.succeed([first], system_now()) == []
            # Both believe in the same slot: the one remembers it, the other has it.
            await database.execute(
                "UPDATE limit_slots SET job_id = gen_random_uuid() WHERE slot <> $1", first.slot
            )
            _, [second] = await claim_and_start(other, 1)
            assert second.slot == first.slot
            await database.execute("UPDATE limit_slots SET job_id = NULL WHERE slot <> $1", first.slot)
            _, [third] = await claim_and_start(one, 1)
            assert third.slot != second.slot
            assert await claim_and_start(one, 1) == (1, [])

    uvloop.run(scenario())


def test_who_gets_no_slot_does_not_keep_its_job_waiting_either(url: str) -> None:
    async def scenario() -> None:
        async with opened(url) as database:
            await add(database, Limit("one", max_parallel=1), 2)
            await database.execute("UPDATE executions SET overlap = 'collapse'")
            queue = PostgresQueue(database, 1, claim_ttl=60)
            _, started = await claim_and_start(queue, 1)
            assert len(started) == 1
            assert await claim_and_start(queue, 1) == (1, [])
            floors = await database.fetch("SELECT job_id FROM solos")
            assert [row["job_id"] for row in floors] == [started[0].job_id]
            assert await queue.succeed(started, system_now()) == []
            _, begun = await claim_and_start(queue, 1)
            assert len(begun) == 1

    uvloop.run(scenario())


def test_starts_of_a_key_are_never_closer_than_its_rate(url: str) -> None:
    async def scenario() -> None:
        async with opened(url) as database:
            await add(database, Limit("slow", rate=50), 25)
            queues = [PostgresQueue(database, node, claim_ttl=60) for node in (1, 2)]
            starts: list[int] = []
            began = system_now()
            while len(starts) < 25:
                for queue in queues:
                    _, started = await claim_and_start(queue, 10)
                    starts += [claim.started_at for claim in started if claim.started_at is not None]
                    for claim in started:
                        await queue.finish_gated([Finish(claim, "succeeded", system_now())])
                await asyncio.sleep(0.002)
            # Places are 20 ms apart, the first not before we began; nobody starts before its place.
            assert all(start >= began + n * SECOND // 50 for n, start in enumerate(sorted(starts)))

    uvloop.run(scenario())


def test_a_cancelled_execution_gives_its_slot_back(url: str) -> None:
    async def scenario() -> None:
        async with opened(url) as database:
            await add(database, Limit("one", max_parallel=1), 2)
            queue = PostgresQueue(database, 1, claim_ttl=60)
            _, started = await claim_and_start(queue, 1)
            await database.execute("DELETE FROM executions WHERE job_id = $1", started[0].job_id)
            assert await queue.heal() == 1
            await database.execute("UPDATE executions SET run_at = tocsin_now()")
            _, begun = await claim_and_start(queue, 1)
            assert len(begun) == 1

    uvloop.run(scenario())


def test_a_slot_taken_for_what_was_called_off_at_the_last_moment_is_free_again(url: str) -> None:
    async def scenario() -> None:
        async with opened(url) as database:
            await add(database, Limit("k", max_parallel=1), 2)
            queue, now = PostgresQueue(database, 1, 10), system_now()
            claims = await queue.claim([Allotment(LANE, 2)], now, secrets.randbits(63), now)
            first, second = claims
            await database.execute("DELETE FROM executions WHERE job_id = $1", first.job_id)
            assert await queue.start_gated([first], system_now()) == []
            assert await queue.start_gated([second], system_now()) == [second]
            assert second.slot == 1
            assert await queue.succeed([second], system_now()) == []
            row = await database.one("SELECT count(*) AS n FROM limit_slots WHERE job_id IS NOT NULL")
            assert row["n"] == 0

    uvloop.run(scenario())


def test_a_limited_execution_whose_job_was_deleted_meanwhile_passes_to_be_ended(url: str) -> None:
    async def scenario() -> None:
        async with opened(url) as database:
            await add(database, Limit("k", max_parallel=1), 1)
            await database.execute("DELETE FROM jobs")
            _, started = await claim_and_start(PostgresQueue(database, 1, 10), 1)
            assert [claim.target for claim in started] == [None]

    uvloop.run(scenario())
