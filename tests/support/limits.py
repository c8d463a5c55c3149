"""Executions under limit keys, and workers that want slots for them."""

import secrets
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any

import pytest

from tests.support.queues import WholeQueue, queue_statement, whole_queue
from tocsin.clock import system_now
from tocsin.db.pool import Database, open_database
from tocsin.domain.errors import Unavailable
from tocsin.domain.ids import new_job_id, shard_of
from tocsin.domain.instant import format_instant
from tocsin.domain.job import Definition
from tocsin.domain.policy import Limit, Overlap, Policies
from tocsin.domain.schedule import Schedule
from tocsin.domain.shard import DEFAULT_SHARDS
from tocsin.domain.target import NoopTarget
from tocsin.queue.allotment import Allotment
from tocsin.queue.claims import Claim, Overdue, Requeue
from tocsin.queue.lanes import Lane
from tocsin.store.jobs import JobStore, NewJob

LANE = Lane("default", 5, 1, "noop")


@asynccontextmanager
async def opened(url: str, size: int = 8) -> AsyncIterator[Database]:
    database = await open_database(url, name="test", size=size, pinned=True)
    try:
        yield database
    finally:
        await database.close()


async def add(database: Database, limit: Limit | None, count: int, overlap: Overlap = Overlap.ALLOW) -> None:
    now = system_now()
    policies = Policies(limit=limit, overlap=overlap)
    definition = Definition(Schedule(at=format_instant(now)), NoopTarget(), policies=policies)
    jobs = []
    for _ in range(count):
        job_id = new_job_id(now)
        jobs.append(NewJob(job_id, 1, shard_of(job_id, DEFAULT_SHARDS), definition, now, now))
    await JobStore(database).define(jobs, now)


async def workers(database: Database, count: int, claim_ttl: float = 60) -> list[WholeQueue]:
    """Workers of live nodes, each with its own queue."""
    rows = await database.fetch(
        "INSERT INTO nodes (name, roles, version, expires_at)"
        " SELECT 'node', '{worker}', 'test', 'infinity' FROM generate_series(1, $1::integer) RETURNING id",
        count,
    )
    return [whole_queue(database, row["id"], claim_ttl) for row in rows]


async def claim(queue: WholeQueue, take: int) -> list[Claim]:
    now = system_now()
    return await queue.claiming.claim([Allotment(LANE, take)], now, secrets.randbits(63), now)


async def claim_and_start(queue: WholeQueue, take: int) -> tuple[int, list[Claim]]:
    """Returns how many were claimed and which of them passed the gate."""
    claims = await claim(queue, take)
    held = [claim for claim in claims if claim.started_at is None]
    started = [claim for claim in claims if claim.started_at is not None]
    return len(claims), started + (await queue.starting.start_gated(held, system_now()) if held else [])


async def vanish(database: Database, queue: WholeQueue) -> None:
    """The queue's node is not heard of any more."""
    await database.execute("UPDATE nodes SET expires_at = '-infinity' WHERE id = $1", queue.node_id)


async def held_slots(database: Database, queue: WholeQueue) -> int:
    row = await database.one("SELECT count(*) AS n FROM slots WHERE node_id = $1", queue.node_id)
    return int(row["n"])


def again(overdue: Overdue) -> Requeue:
    return Requeue(overdue, system_now(), None)


async def with_idle_slots(queue: WholeQueue, number: int) -> None:
    """So many executions have run, and the worker has their slots."""
    _, started = await claim_and_start(queue, number)
    assert len(started) == number
    assert await queue.settling.succeed(started, system_now()) == []


class _Listening:
    """A session that notes which statements it was given."""

    def __init__(self, session: Any) -> None:
        self._session = session
        self.heard: set[str] = set()

    def __getattr__(self, name: str) -> Any:
        call = getattr(self._session, name)

        def noted(query: str, *values: Any) -> Any:
            self.heard.add(query)
            return call(query, *values)

        return noted


@contextmanager
def answers_lost(
    database: Database, patch: pytest.MonkeyPatch, statement_name: str, method: str = "fetch"
) -> Iterator[None]:
    """What the statement does is done, and committed with the rest of its transaction, but nobody hears of
    it."""
    text, fetch, transaction = (
        queue_statement(statement_name).text,
        getattr(database, method),
        database.transaction,
    )

    async def unanswered(query: str, *values: Any) -> Any:
        rows = await fetch(query, *values)
        if query == text:
            raise Unavailable("the answer was lost")
        return rows

    @asynccontextmanager
    async def unanswered_transaction() -> AsyncIterator[Any]:
        async with transaction() as session:
            listening = _Listening(session)
            yield listening
        if text in listening.heard:
            raise Unavailable("the answer was lost")

    with patch.context() as for_a_while:
        for_a_while.setattr(database, method, unanswered)
        for_a_while.setattr(database, "transaction", unanswered_transaction)
        yield
