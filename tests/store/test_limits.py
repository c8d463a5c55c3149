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
from tocsin.db.statements import statement
from tocsin.domain.errors import Unavailable
from tocsin.domain.ids import new_job_id, shard_of
from tocsin.domain.instant import SECOND, format_instant
from tocsin.domain.job import Definition
from tocsin.domain.policy import Limit, Overlap, Policies
from tocsin.domain.schedule import Schedule
from tocsin.domain.target import NoopTarget
from tocsin.queue.claims import Claim, Finish, Overdue, Requeue
from tocsin.queue.gate import Gate
from tocsin.queue.lanes import Allotment, Lane
from tocsin.queue.postgres import PostgresQueue
from tocsin.store.jobs import JobStore, NewJob
from tocsin.worker.slot_keeper import SlotKeeper

LANE = Lane("default", 5, 1)


@asynccontextmanager
async def opened(url: str, size: int = 8) -> AsyncIterator[Database]:
    database = await open_database(url, name="test", size=size, pinned=True)
    try:
        yield database
    finally:
        await database.close()


async def add(database: Database, limit: Limit, count: int, overlap: Overlap = Overlap.ALLOW) -> None:
    now = system_now()
    policies = Policies(limit=limit, overlap=overlap)
    definition = Definition(Schedule(at=format_instant(now)), NoopTarget(), policies=policies)
    jobs = []
    for _ in range(count):
        job_id = new_job_id(now)
        jobs.append(NewJob(job_id, 1, shard_of(job_id, 64), definition, now, now))
    await JobStore(database).define(jobs, now)


async def workers(database: Database, count: int, claim_ttl: float = 60) -> list[PostgresQueue]:
    """Workers of live nodes, each with its own queue."""
    rows = await database.fetch(
        "INSERT INTO nodes (name, roles, version, expires_at)"
        " SELECT 'node', '{worker}', 'test', 'infinity' FROM generate_series(1, $1::integer) RETURNING id",
        count,
    )
    return [PostgresQueue(database, row["id"], claim_ttl) for row in rows]


async def claim(queue: PostgresQueue, take: int) -> list[Claim]:
    now = system_now()
    return await queue.claim([Allotment(LANE, take)], now, secrets.randbits(63), now)


async def claim_and_start(queue: PostgresQueue, take: int) -> tuple[int, list[Claim]]:
    """Returns how many were claimed and which of them passed the gate."""
    claims = await claim(queue, take)
    held = [claim for claim in claims if claim.started_at is None]
    started = [claim for claim in claims if claim.started_at is not None]
    return len(claims), started + (await queue.start_gated(held, system_now()) if held else [])


async def vanish(database: Database, queue: PostgresQueue) -> None:
    """The queue's node is not heard of any more."""
    await database.execute("UPDATE nodes SET expires_at = '-infinity' WHERE id = $1", queue._node_id)


async def held_slots(database: Database, queue: PostgresQueue) -> int:
    row = await database.one("SELECT count(*) AS n FROM slots WHERE node_id = $1", queue._node_id)
    return int(row["n"])


def again(overdue: Overdue) -> Requeue:
    return Requeue(overdue, system_now(), None)


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


def test_the_slot_of_a_lost_worker_comes_back_when_its_claim_is_over(url: str) -> None:
    async def scenario() -> None:
        async with opened(url) as database:
            await add(database, Limit("one", max_parallel=1), 2)
            [dying] = await workers(database, 1, claim_ttl=0.2)
            [living] = await workers(database, 1)
            _, started = await claim_and_start(dying, 1)
            assert len(started) == 1
            assert await claim_and_start(living, 1) == (1, [])  # the slot is taken, the other waits
            await vanish(database, dying)
            assert await living.heal() == 0, "what runs under the slot may be running still"
            while await living.reclaim(10, again) != (1, 0):
                await asyncio.sleep(0.02)
            assert await living.heal() == 1
            begun: list[Claim] = []
            while not begun:
                _, begun = await claim_and_start(living, 1)
            assert len(begun) == 1
            late = await dying.finish_gated([Finish(started[0], "succeeded", system_now())])
            assert late == started, "a late worker must not free a slot that is somebody else's"
            assert await held_slots(database, living) == 1

    uvloop.run(scenario())


def test_a_worker_that_was_taken_for_dead_starts_nothing_on_slots_that_are_anothers_by_now(url: str) -> None:
    async def scenario() -> None:
        async with opened(url) as database:
            await add(database, Limit("one", max_parallel=1), 4)
            frozen, other = await workers(database, 2)
            _, [first] = await claim_and_start(frozen, 1)
            assert await frozen.succeed([first], system_now()) == []
            assert await held_slots(database, frozen) == 1, "it keeps the slot for the next"
            await vanish(database, frozen)
            assert await other.heal() == 1
            _, [second] = await claim_and_start(other, 1)
            # It comes back, and its node is in the fleet again.
            await database.execute("UPDATE nodes SET expires_at = 'infinity'")
            assert await claim_and_start(frozen, 1) == (1, []), "two run at once"
            assert await other.succeed([second], system_now()) == []
            await other.slots.give_back_all()
            _, begun = await claim_and_start(frozen, 1)
            assert len(begun) == 1, "it does not know that it may go on"

    uvloop.run(scenario())


def test_a_worker_that_was_taken_for_dead_goes_on_with_the_slots_that_nobody_has_healed(url: str) -> None:
    async def scenario() -> None:
        async with opened(url) as database:
            await add(database, Limit("two", max_parallel=2), 4)
            frozen, other = await workers(database, 2)
            _, [running, over] = await claim_and_start(frozen, 2)
            assert await frozen.succeed([over], system_now()) == []
            await vanish(database, frozen)
            assert await other.heal() == 0, "something of the key runs still"
            await database.execute("UPDATE nodes SET expires_at = 'infinity'")
            _, [third] = await claim_and_start(frozen, 1)
            assert {running.slot, third.slot} == {1, 2}
            assert await claim_and_start(other, 1) == (1, [])

    uvloop.run(scenario())


def test_what_is_not_used_goes_back_at_once_to_who_waits_and_after_a_while_anyway(url: str) -> None:
    async def scenario() -> None:
        async with opened(url) as database:
            await add(database, Limit("one", max_parallel=1), 2)
            one, other = await workers(database, 2)
            _, started = await claim_and_start(one, 1)
            assert await one.succeed(started, system_now()) == []
            assert await claim_and_start(other, 1) == (1, [])
            await one.slots.give_back_wanted()
            _, started = await claim_and_start(other, 1)
            assert len(started) == 1
            assert await other.succeed(started, system_now()) == []
            await other.slots.give_back_unused()
            assert await held_slots(database, other) == 1, "it was used a moment ago"
            await other.slots.give_back_unused()
            assert await held_slots(database, other) == 0

    uvloop.run(scenario())


def test_slots_of_which_the_answer_was_lost_are_found_again(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario() -> None:
        async with opened(url) as database:
            await add(database, Limit("one", max_parallel=1), 2)
            [queue] = await workers(database, 1)
            claims = await claim(queue, 1)
            fetch = database.fetch

            async def unanswered(query: str, *values: Any) -> list[Any]:
                rows = await fetch(query, *values)
                if "SET node_id = me.id" in query:
                    raise Unavailable("the answer was lost")
                return rows

            monkeypatch.setattr(database, "fetch", unanswered)
            with pytest.raises(Unavailable):
                await queue.start_gated(claims, system_now())
            monkeypatch.setattr(database, "fetch", fetch)
            assert await held_slots(database, queue) == 1
            assert await queue.start_gated(claims, system_now()) == claims
            assert await queue.succeed(claims, system_now()) == []
            assert await held_slots(database, queue) == 1
            _, started = await claim_and_start(queue, 1)
            assert len(started) == 1

    uvloop.run(scenario())


def test_a_worker_that_was_taken_for_dead_does_not_count_slots_that_it_gave_out_again_before_it_knew(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It seats an execution on a slot that is not its own any more, asks for another one, and the answer is lost."""

    async def scenario() -> None:
        async with opened(url) as database:
            await add(database, Limit("two", max_parallel=2), 4)
            frozen, other = await workers(database, 2)
            _, [first] = await claim_and_start(frozen, 1)
            assert await frozen.succeed([first], system_now()) == []
            await vanish(database, frozen)
            assert await other.heal() == 1
            await database.execute("UPDATE nodes SET expires_at = 'infinity'")
            fetch = database.fetch

            async def unanswered(query: str, *values: Any) -> list[Any]:
                rows = await fetch(query, *values)
                if "SET node_id = me.id" in query:
                    raise Unavailable("the answer was lost")
                return rows

            monkeypatch.setattr(database, "fetch", unanswered)
            claims = await claim(frozen, 3)
            with pytest.raises(Unavailable):
                await frozen.start_gated(claims, system_now())
            monkeypatch.setattr(database, "fetch", fetch)
            assert len(await frozen.start_gated(claims, system_now())) == 2, "three run at once"

    uvloop.run(scenario())


def test_what_has_started_is_known_although_giving_back_other_slots_had_no_answer(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario() -> None:
        async with opened(url) as database:
            await add(database, Limit("two", max_parallel=2), 2)
            [queue] = await workers(database, 1)
            first, second = await claim(queue, 2)
            await database.execute(
                "UPDATE executions SET cancel_requested = true WHERE job_id = $1", second.job_id
            )
            fetch = database.fetch

            async def unanswered(query: str, *values: Any) -> list[Any]:
                if query == statement("tocsin.queue", "waiting_keys"):
                    raise Unavailable("the answer was lost")
                return await fetch(query, *values)

            monkeypatch.setattr(database, "fetch", unanswered)
            assert await queue.start_gated([first, second], system_now()) == [first]

    uvloop.run(scenario())


def test_what_has_lost_its_slot_by_the_time_it_would_start_does_not(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While some are put back that got no slot, another part of the worker finds out that its slots are others' by now."""

    async def scenario() -> None:
        async with opened(url) as database:
            await add(database, Limit("one", max_parallel=1), 3)
            frozen, other = await workers(database, 2)
            first, *held = await claim(frozen, 3)
            assert await frozen.start_gated([first], system_now()) == [first]
            assert await frozen.succeed([first], system_now()) == []
            await vanish(database, frozen)
            assert await other.heal() == 1
            await database.execute("UPDATE nodes SET expires_at = 'infinity'")
            look_after = frozen.slots.look_after

            async def meanwhile(refused: Any) -> None:
                monkeypatch.setattr(frozen.slots, "look_after", look_after)
                await frozen.slots.adopt()
                await look_after(refused)

            monkeypatch.setattr(frozen.slots, "look_after", meanwhile)
            assert await frozen.start_gated(held, system_now()) == []
            running = await database.one("SELECT count(*) AS n FROM executions WHERE started_at IS NOT NULL")
            assert running["n"] == 0

    uvloop.run(scenario())


def test_slots_that_could_not_be_given_back_are_not_forgotten(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario() -> None:
        async with opened(url) as database:
            await add(database, Limit("one", max_parallel=1), 1)
            [queue] = await workers(database, 1)
            _, started = await claim_and_start(queue, 1)
            assert await queue.succeed(started, system_now()) == []

            async def away(*_: Any) -> list[Any]:
                raise Unavailable("the database is away")

            with monkeypatch.context() as patch:
                patch.setattr(database, "fetch", away)
                with pytest.raises(Unavailable):
                    await queue.slots.give_back_all()
            keeper, now = SlotKeeper(queue.slots), system_now()
            for run in range(3):
                await keeper.run_once(now + run * 10 * SECOND)
            assert await held_slots(database, queue) == 0, "nobody will ever have this slot"

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
            assert await queue.succeed(started, system_now()) == []
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
            park = Gate._park

            async def late(self: Gate, *args: Any) -> None:
                """Whoever has the slot ends between the refusal and the wait, and sees nobody waiting."""
                if started:
                    assert await holder.succeed([started.pop()], system_now()) == []
                await park(self, *args)

            monkeypatch.setattr(Gate, "_park", late)
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
            queues = await workers(database, 2)
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


def test_a_slot_taken_for_what_was_called_off_at_the_last_moment_is_free_again(url: str) -> None:
    async def scenario() -> None:
        async with opened(url) as database:
            await add(database, Limit("k", max_parallel=1), 2)
            [queue] = await workers(database, 1)
            first, second = await claim(queue, 2)
            await database.execute("DELETE FROM executions WHERE job_id = $1", first.job_id)
            assert await queue.start_gated([first], system_now()) == []
            assert await queue.start_gated([second], system_now()) == [second]
            assert second.slot == 1
            assert await queue.succeed([second], system_now()) == []
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


async def with_idle_slots(queue: PostgresQueue, number: int) -> None:
    """So many executions have run, and the worker has their slots."""
    _, started = await claim_and_start(queue, number)
    assert len(started) == number
    assert await queue.succeed(started, system_now()) == []


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
            assert await queue.succeed(started, system_now()) == []
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


def test_a_worker_that_was_taken_for_dead_offers_its_slots_in_vain(url: str) -> None:
    async def scenario() -> None:
        async with opened(url) as database:
            await add(database, Limit("one", max_parallel=1), 3)
            frozen, other = await workers(database, 2)
            await with_idle_slots(frozen, 1)
            await vanish(database, frozen)
            assert await other.heal() == 1
            _, [_] = await claim_and_start(other, 1)
            [held] = await claim(frozen, 1)
            assert held.started_at is None, "two run at once"

    uvloop.run(scenario())


@pytest.mark.parametrize("overlap", [Overlap.SKIP, Overlap.QUEUE])
def test_what_needs_a_slot_and_the_floor_gets_both_in_the_claim(url: str, overlap: Overlap) -> None:
    async def scenario() -> None:
        async with opened(url) as database:
            await add(database, Limit("k", max_parallel=2), 2)
            [queue] = await workers(database, 1)
            await with_idle_slots(queue, 2)
            await add(database, Limit("k", max_parallel=2), 3, overlap)
            # One-offs never overlap, so the store leaves the policy out of their executions; the statement does not care.
            await database.execute("UPDATE executions SET overlap = $1", overlap.value)
            claims = await claim(queue, 3)
            started = [claim for claim in claims if claim.started_at is not None]
            assert len(started) == 2
            floors = await database.fetch("SELECT job_id FROM solos")
            assert {row["job_id"] for row in floors} == {claim.job_id for claim in started}
            assert await queue.succeed(started, system_now()) == []
            assert await database.fetch("SELECT job_id FROM solos") == []

    uvloop.run(scenario())


def test_slots_of_a_claim_without_an_answer_are_not_used_until_it_is_over(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario() -> None:
        async with opened(url) as database:
            await add(database, Limit("k", max_parallel=2), 6)
            [queue] = await workers(database, 1, claim_ttl=1)
            [other] = await workers(database, 1)
            await with_idle_slots(queue, 2)
            keeper = SlotKeeper(queue.slots)
            fetch = database.fetch

            async def unanswered(query: str, *values: Any) -> list[Any]:
                await fetch(query, *values)
                raise Unavailable("the answer was lost")

            with monkeypatch.context() as patch:
                patch.setattr(database, "fetch", unanswered)
                with pytest.raises(Unavailable):
                    await claim(queue, 1)
            await keeper.run_once(system_now())
            running = "SELECT count(*) AS n FROM executions WHERE started_at IS NOT NULL"
            assert (await database.one(running))["n"] == 1, "the claim was made all the same"
            assert await claim_and_start(queue, 2) == (2, []), "more run than may"
            while await other.reclaim(10, again) != (1, 0):
                await asyncio.sleep(0.02)
            await keeper.run_once(system_now() + 10 * SECOND)
            assert await held_slots(database, queue) == 0, (
                "those who wait get them when nothing runs on them any more"
            )
            _, started = await claim_and_start(other, 9)
            assert len(started) == 2

    uvloop.run(scenario())


def test_who_begins_to_wait_while_slots_are_offered_gets_one_when_the_claim_has_no_use_for_it(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario() -> None:
        async with opened(url) as database:
            await add(database, Limit("one", max_parallel=1), 2)
            queue, other = await workers(database, 2)
            await with_idle_slots(queue, 1)
            keeper = SlotKeeper(queue.slots)
            wakes: list[str] = []
            queue.slots.taken = lambda: wakes.append("wake")
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
