"""Whoever waits for a slot is woken when one is free, also if the worker that freed it failed right
afterwards."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import uvloop

from tests.support.limits import add, claim_and_start, opened, vanish, workers
from tests.support.queues import WholeQueue, queue_statement
from tocsin.clock import system_now
from tocsin.db.pool import Database
from tocsin.domain.errors import Unavailable
from tocsin.domain.policy import Limit
from tocsin.worker.slot_returner import SlotReturner


@contextmanager
def refusing_to_wake(database: Database, patch: pytest.MonkeyPatch) -> Iterator[None]:
    """The statement that wakes who waits times out."""
    text, fetchrow = queue_statement("wake_waiting").text, database.fetchrow

    async def timed_out(query: str, *values: Any) -> Any:
        if query == text:
            raise Unavailable("canceling statement due to statement timeout")
        return await fetchrow(query, *values)

    with patch.context() as for_a_while:
        for_a_while.setattr(database, "fetchrow", timed_out)
        yield


async def one_runs_one_waits(database: Database) -> tuple[WholeQueue, WholeQueue, list[Any]]:
    """One worker runs an execution on the only slot; another execution waits for that."""
    await add(database, Limit("one", max_parallel=1), 2)
    failing, other = await workers(database, 2)
    _, running = await claim_and_start(failing, 1)
    assert len(running) == 1
    assert await claim_and_start(other, 1) == (1, [])
    return failing, other, running


def test_a_wake_up_that_failed_after_a_slot_was_given_back_is_repeated(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario() -> None:
        async with opened(url) as database:
            failing, other, running = await one_runs_one_waits(database)
            woken: list[bool] = []
            failing.slots.taken.connect(lambda: woken.append(True))
            with refusing_to_wake(database, monkeypatch), pytest.raises(Unavailable):
                await failing.settling.succeed(running, system_now())
            assert woken, "nobody tells the keeper"
            assert await claim_and_start(other, 1) == (0, [])
            await SlotReturner(failing.slots).run_once(system_now())
            assert len((await claim_and_start(other, 1))[1]) == 1

    uvloop.run(scenario())


def test_the_guard_wakes_who_waits_for_slots_that_a_worker_freed_before_it_died(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario() -> None:
        async with opened(url) as database:
            dying, other, running = await one_runs_one_waits(database)
            with refusing_to_wake(database, monkeypatch), pytest.raises(Unavailable):
                await dying.settling.succeed(running, system_now())
            await vanish(database, dying)
            assert await other.healing.heal() == 0, "the slot is free already"
            assert len((await claim_and_start(other, 1))[1]) == 1

    uvloop.run(scenario())
