"""What a cancellation answers: `cancelled` means that nothing was called, and nothing slips between two
statements."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import msgspec
import pytest

from tests.simulation.workshop import Workshop, play
from tocsin.domain.errors import Conflict
from tocsin.domain.ids import ExecutionKey
from tocsin.domain.instant import SECOND
from tocsin.domain.lifecycle import CancelResult, State
from tocsin.domain.waits import Reason
from tocsin.store.control.cancelling import Cancelled

TENANT = 1


async def failed_once(shop: Workshop) -> ExecutionKey:
    """An execution that was called once and waits for its second attempt."""
    key = await shop.once()
    worker = shop.worker(1)
    [claim] = await shop.claim(worker)
    assert await worker.settling.retry([shop.again(claim)]) == []
    return key


async def put_off_by_its_task(shop: Workshop, waited_before: int = 0) -> ExecutionKey:
    """An execution whose task ran and asked to be run again later."""
    key = await shop.once()
    await shop.plain.execute(
        "UPDATE executions SET waits = jsonb_path_query_array(to_jsonb(array_fill("
        """'{"for": "slot", "since": 1, "until": 2}'::jsonb, ARRAY[$3::integer])), '$[*]')"""
        " WHERE job_id = $1 AND fire_at = $2 AND $3 > 0",
        *key,
        waited_before,
    )
    worker = shop.worker(1)
    [claim] = await shop.claim(worker)
    again = msgspec.structs.replace(shop.again(claim, 5 * SECOND), record=None, waits_for=Reason.TASK)
    assert await worker.settling.postpone([again]) == []
    return key


@asynccontextmanager
async def retrying(shop: Workshop, key: ExecutionKey) -> AsyncIterator[None]:
    """A worker has put a running execution back for its next attempt and commits at the end of the block."""
    async with shop.plain.transaction() as session:
        await session.execute(
            "UPDATE executions SET claim_token = NULL, node_id = NULL, deadline_at = NULL, started_at = NULL,"
            " attempt = attempt + 1 WHERE job_id = $1 AND fire_at = $2",
            *key,
        )
        yield


async def wait_for_locks(shop: Workshop, number: int) -> None:
    """Wait until so many statements wait for other transactions."""
    query = (
        "SELECT count(*) AS number FROM pg_stat_activity"
        " WHERE datname = current_database() AND wait_event_type = 'Lock'"
    )
    while (await shop.plain.one(query))["number"] < number:
        pass


async def during_a_retry(shop: Workshop, key: ExecutionKey, cancel: Any) -> Any:
    """What a cancellation answers that comes while a worker puts the execution back."""
    async with retrying(shop, key):
        answer = asyncio.create_task(cancel)
        await wait_for_locks(shop, 1)
    return await answer


def test_what_waits_between_two_attempts_is_not_answered_cancelled_because_it_was_called(url: str) -> None:
    async def story(shop: Workshop) -> None:
        done = await shop.executions.cancel(TENANT, await failed_once(shop), "enough")
        assert (done.answer, done.row["state"]) == (CancelResult.REQUESTED, State.CANCELLED)

    play(url, story)


def test_a_job_tells_executions_that_were_called_before_from_those_that_never_were(url: str) -> None:
    async def story(shop: Workshop) -> None:
        called, waiting = await failed_once(shop), await shop.once(SECOND)
        assert await shop.cancelling.cancel(TENANT, waiting.job_id, "enough") == Cancelled(1, 0)
        assert await shop.cancelling.cancel(TENANT, called.job_id, "enough") == Cancelled(0, 0, not_retried=1)

    play(url, story)


@pytest.mark.parametrize("waited_before", [0, 3, 20])
def test_what_its_task_put_off_is_not_answered_cancelled_because_it_was_called(
    url: str, waited_before: int
) -> None:
    """Also when the list of waits was full, and this one was not kept."""

    async def story(shop: Workshop) -> None:
        done = await shop.executions.cancel(TENANT, await put_off_by_its_task(shop, waited_before), "enough")
        assert (done.answer, done.row["state"]) == (CancelResult.REQUESTED, State.CANCELLED)
        of_job = await put_off_by_its_task(shop, waited_before)
        assert await shop.cancelling.cancel(TENANT, of_job.job_id, "enough") == Cancelled(0, 0, not_retried=1)

    play(url, story)


@pytest.mark.parametrize("reason", [None, Reason.HOST])
def test_what_went_back_without_a_call_is_still_answered_cancelled(url: str, reason: str | None) -> None:
    async def story(shop: Workshop) -> None:
        key, worker = await shop.once(), shop.worker(1)
        [claim] = await shop.claim(worker)
        again = msgspec.structs.replace(shop.again(claim, 5 * SECOND), record=None, waits_for=reason)
        assert await worker.settling.postpone([again]) == []
        done = await shop.executions.cancel(TENANT, key, "enough")
        assert (done.answer, done.row["state"]) == (CancelResult.CANCELLED, State.CANCELLED)

    play(url, story)


def test_a_cancellation_that_meets_the_end_is_answered_with_it_and_a_later_one_is_refused(url: str) -> None:
    async def story(shop: Workshop) -> None:
        key = await shop.once()
        worker = shop.worker(1)
        [claim] = await shop.claim(worker)
        async with shop.plain.transaction() as session:  # it is live, and its end is on its way
            await session.execute("SELECT FROM executions WHERE job_id = $1 FOR UPDATE", key.job_id)
            ended = asyncio.create_task(worker.settling.succeed([claim], shop.time.now()))
            await wait_for_locks(shop, 1)
            cancelled = asyncio.create_task(shop.executions.cancel(TENANT, key, "enough"))
            await wait_for_locks(shop, 2)
        assert await ended == []
        done = await cancelled
        assert (done.answer, done.row["state"]) == (CancelResult.REQUESTED, State.SUCCEEDED)
        with pytest.raises(Conflict, match="succeeded"):
            await shop.executions.cancel(TENANT, key, "enough")

    play(url, story)


def test_a_running_execution_is_answered_as_it_was_when_it_was_asked_to_stop(url: str) -> None:
    async def story(shop: Workshop) -> None:
        key = await shop.once()
        await shop.claim(shop.worker(1))
        done = await shop.executions.cancel(TENANT, key, "enough")
        assert (done.answer, done.row["state"]) == (CancelResult.REQUESTED, State.RUNNING)
        assert done.row["cancel_requested"]

    play(url, story)


def test_an_execution_that_is_put_back_for_a_retry_at_this_moment_is_called_off_too(url: str) -> None:
    async def story(shop: Workshop) -> None:
        key = await shop.once()
        await shop.claim(shop.worker(1))
        done = await during_a_retry(shop, key, shop.executions.cancel(TENANT, key, "enough"))
        assert done.answer is CancelResult.REQUESTED
        assert [row["state"] for row in await shop.past(key)] == [State.CANCELLED]

    play(url, story)


def test_a_cancelled_job_keeps_no_execution_that_was_put_back_for_a_retry_at_this_moment(url: str) -> None:
    async def story(shop: Workshop) -> None:
        key = await shop.once()
        await shop.claim(shop.worker(1))
        done = await during_a_retry(shop, key, shop.cancelling.cancel(TENANT, key.job_id, "enough"))
        assert done == Cancelled(0, 0, not_retried=1)
        assert await shop.count("executions") == 0

    play(url, story)
