"""Limits by key hold when a worker is taken for dead, when it is not, and when answers about its slots are
lost."""

import asyncio
from typing import Any

import pytest
import uvloop

from tests.support.limits import (
    add,
    again,
    answers_lost,
    claim,
    claim_and_start,
    held_slots,
    opened,
    vanish,
    with_idle_slots,
    workers,
)
from tocsin.clock import system_now
from tocsin.domain.errors import Unavailable
from tocsin.domain.instant import SECOND
from tocsin.domain.policy import Limit
from tocsin.queue.claims import Claim, Finish
from tocsin.worker.slot_returner import SlotReturner

_ASK_TO_STOP = "UPDATE executions SET cancel_requested = true WHERE job_id = $1"


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
            assert await living.healing.heal() == 0, "what runs under the slot may be running still"
            while await living.reclaiming.reclaim(10, again) != (1, 0):
                await asyncio.sleep(0.02)
            assert await living.healing.heal() == 1
            begun: list[Claim] = []
            while not begun:
                _, begun = await claim_and_start(living, 1)
            assert len(begun) == 1
            late = await dying.settling.finish([Finish(started[0], "succeeded", system_now())])
            assert late == started, "a late worker must not free a slot that is somebody else's"
            assert await held_slots(database, living) == 1

    uvloop.run(scenario())


def test_a_worker_that_was_taken_for_dead_starts_nothing_on_slots_that_are_anothers_by_now(url: str) -> None:
    async def scenario() -> None:
        async with opened(url) as database:
            await add(database, Limit("one", max_parallel=1), 4)
            frozen, other = await workers(database, 2)
            _, [first] = await claim_and_start(frozen, 1)
            assert await frozen.settling.succeed([first], system_now()) == []
            assert await held_slots(database, frozen) == 1, "it keeps the slot for the next"
            await vanish(database, frozen)
            assert await other.healing.heal() == 1
            _, [second] = await claim_and_start(other, 1)
            # It comes back, and its node is in the fleet again.
            await database.execute("UPDATE nodes SET expires_at = 'infinity'")
            assert await claim_and_start(frozen, 1) == (1, []), "two run at once"
            assert await other.settling.succeed([second], system_now()) == []
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
            assert await frozen.settling.succeed([over], system_now()) == []
            await vanish(database, frozen)
            assert await other.healing.heal() == 0, "something of the key runs still"
            await database.execute("UPDATE nodes SET expires_at = 'infinity'")
            _, [third] = await claim_and_start(frozen, 1)
            assert {running.slot, third.slot} == {1, 2}
            assert await claim_and_start(other, 1) == (1, [])

    uvloop.run(scenario())


def test_slots_of_which_the_answer_was_lost_are_found_again(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario() -> None:
        async with opened(url) as database:
            await add(database, Limit("one", max_parallel=1), 2)
            [queue] = await workers(database, 1)
            claims = await claim(queue, 1)
            with answers_lost(database, monkeypatch, "lease_slots"), pytest.raises(Unavailable):
                await queue.starting.start_gated(claims, system_now())
            assert await held_slots(database, queue) == 1
            assert await queue.starting.start_gated(claims, system_now()) == claims
            assert await queue.settling.succeed(claims, system_now()) == []
            assert await held_slots(database, queue) == 1
            _, started = await claim_and_start(queue, 1)
            assert len(started) == 1

    uvloop.run(scenario())


def test_a_worker_that_was_taken_for_dead_does_not_count_slots_that_it_gave_out_again_before_it_knew(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It seats an execution on a slot that is not its own any more, asks for another one, and the answer is
    lost."""

    async def scenario() -> None:
        async with opened(url) as database:
            await add(database, Limit("two", max_parallel=2), 4)
            frozen, other = await workers(database, 2)
            _, [first] = await claim_and_start(frozen, 1)
            assert await frozen.settling.succeed([first], system_now()) == []
            await vanish(database, frozen)
            assert await other.healing.heal() == 1
            await database.execute("UPDATE nodes SET expires_at = 'infinity'")
            claims = await claim(frozen, 3)
            with answers_lost(database, monkeypatch, "lease_slots"), pytest.raises(Unavailable):
                await frozen.starting.start_gated(claims, system_now())
            assert len(await frozen.starting.start_gated(claims, system_now())) == 2, "three run at once"

    uvloop.run(scenario())


def test_what_has_started_is_known_although_giving_back_other_slots_had_no_answer(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario() -> None:
        async with opened(url) as database:
            await add(database, Limit("two", max_parallel=2), 2)
            [queue] = await workers(database, 1)
            first, second = await claim(queue, 2)
            await database.execute(_ASK_TO_STOP, second.job_id)
            with answers_lost(database, monkeypatch, "waiting_keys"):
                started = await queue.starting.start_gated([first, second], system_now())
            assert started == [first]

    uvloop.run(scenario())


def test_what_was_started_without_an_answer_and_then_asked_to_stop_keeps_its_slot(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario() -> None:
        async with opened(url) as database:
            await add(database, Limit("one", max_parallel=1), 2)
            queue, other = await workers(database, 2)
            [mine], [anothers] = await claim(queue, 1), await claim(other, 1)
            assert (mine.started_at, anothers.started_at) == (None, None)
            with answers_lost(database, monkeypatch, "start"), pytest.raises(Unavailable):
                await queue.starting.start_gated([mine], system_now())
            await database.execute(_ASK_TO_STOP, mine.job_id)
            assert await queue.starting.start_gated([mine], system_now(), again=True) == [mine]
            assert (mine.stop_asked, mine.started_at is not None, mine.slot) == (True, True, 1)
            assert await other.starting.start_gated([anothers], system_now()) == []

    uvloop.run(scenario())


def test_a_plain_start_without_an_answer_finds_what_was_asked_to_stop_since(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario() -> None:
        async with opened(url) as database:
            await add(database, None, 3)
            [queue] = await workers(database, 1)
            claims = await claim(queue, 3)
            # A claim starts what is due already; these are as if they had been claimed ahead.
            await database.execute("UPDATE executions SET started_at = NULL")
            with answers_lost(database, monkeypatch, "start"), pytest.raises(Unavailable):
                await queue.starting.start(claims[:2])
            for one in claims[1:]:  # of which the last was never asked for
                await database.execute(_ASK_TO_STOP, one.job_id)
            started = await queue.starting.start(claims, again=True)
            stopped = {one.job_id: one.stop_asked for one in started}
            assert stopped == {claims[0].job_id: False, claims[1].job_id: True}

    uvloop.run(scenario())


def test_what_has_lost_its_slot_by_the_time_it_would_start_does_not(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While some are put back that got no slot, another part of the worker finds out that its slots are
    others' by now."""

    async def scenario() -> None:
        async with opened(url) as database:
            await add(database, Limit("one", max_parallel=1), 3)
            frozen, other = await workers(database, 2)
            first, *held = await claim(frozen, 3)
            assert await frozen.starting.start_gated([first], system_now()) == [first]
            assert await frozen.settling.succeed([first], system_now()) == []
            await vanish(database, frozen)
            assert await other.healing.heal() == 1
            await database.execute("UPDATE nodes SET expires_at = 'infinity'")
            look_after = frozen.slots.look_after

            async def meanwhile(refused: Any) -> None:
                monkeypatch.setattr(frozen.slots, "look_after", look_after)
                await frozen.slots.adopt()
                await look_after(refused)

            monkeypatch.setattr(frozen.slots, "look_after", meanwhile)
            assert await frozen.starting.start_gated(held, system_now()) == []
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
            assert await queue.settling.succeed(started, system_now()) == []

            async def away(*_: Any) -> list[Any]:
                raise Unavailable("the database is away")

            with monkeypatch.context() as patch:
                patch.setattr(database, "fetch", away)
                with pytest.raises(Unavailable):
                    await queue.slots.give_back_all()
            keeper, now = SlotReturner(queue.slots), system_now()
            for run in range(3):
                await keeper.run_once(now + run * 10 * SECOND)
            assert await held_slots(database, queue) == 0, "nobody will ever have this slot"

    uvloop.run(scenario())


def test_a_worker_that_was_taken_for_dead_offers_its_slots_in_vain(url: str) -> None:
    async def scenario() -> None:
        async with opened(url) as database:
            await add(database, Limit("one", max_parallel=1), 3)
            frozen, other = await workers(database, 2)
            await with_idle_slots(frozen, 1)
            await vanish(database, frozen)
            assert await other.healing.heal() == 1
            _, [_] = await claim_and_start(other, 1)
            [held] = await claim(frozen, 1)
            assert held.started_at is None, "two run at once"

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
            keeper = SlotReturner(queue.slots)
            with answers_lost(database, monkeypatch, "claim"), pytest.raises(Unavailable):
                await claim(queue, 1)
            await keeper.run_once(system_now())
            running = "SELECT count(*) AS n FROM executions WHERE started_at IS NOT NULL"
            assert (await database.one(running))["n"] == 1, "the claim was made all the same"
            assert await claim_and_start(queue, 2) == (2, []), "more run than may"
            while await other.reclaiming.reclaim(10, again) != (1, 0):
                await asyncio.sleep(0.02)
            await keeper.run_once(system_now() + 10 * SECOND)
            assert await held_slots(database, queue) == 0, (
                "those who wait get them when nothing runs on them any more"
            )
            _, started = await claim_and_start(other, 9)
            assert len(started) == 2

    uvloop.run(scenario())
