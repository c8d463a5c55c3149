"""Executions of a job that must not overlap: one at a time over the whole fleet, whatever happens to their workers.

The rush lets several workers on connections of their own fight over the same jobs, while claims are lost, attempts
fail and clients cancel. A unique index, added for the test, makes the database itself refuse a second running
execution of a job; the rest is read from history afterwards.
"""

import asyncio
import logging
import os
import random
import secrets
from collections import defaultdict
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from itertools import pairwise
from typing import Any
from uuid import UUID

import msgspec
import pytest
import structlog
import uvloop

from tests.simulation.outage_haste import HastyClock
from tocsin.db.pool import Database, open_database
from tocsin.domain.errors import Conflict, NotFound, Unavailable
from tocsin.domain.ids import ExecutionKey, new_job_id, shard_of
from tocsin.domain.instant import HOUR, MINUTE, SECOND, Instant
from tocsin.domain.job import Definition
from tocsin.domain.outcome import Attempt, Verdict
from tocsin.domain.policy import Overlap, Policies, Retry
from tocsin.domain.schedule import Schedule
from tocsin.domain.target import NoopTarget
from tocsin.failpoints import Failpoints
from tocsin.queue.claims import Again, Claim, Finish
from tocsin.queue.lanes import Allotment, Lane, allot
from tocsin.queue.postgres import PostgresQueue
from tocsin.scheduler.leaser import Leases
from tocsin.scheduler.reclaimer import Reclaimer
from tocsin.store.executions import ExecutionStore
from tocsin.store.jobs import JobStore, NewJob
from tocsin.telemetry import Telemetry

SCALE = float(os.environ.get("TOCSIN_OVERLAP_SCALE", "1"))
WORKERS = 4
JOBS_PER_POLICY = round(12 * SCALE)
FIRES_PER_JOB = 50
SPEED = 20
PATIENCE = 60 + 60 * SCALE
SOLO = ("skip", "queue", "collapse", "replace")
ONE_AT_A_TIME = (
    "CREATE UNIQUE INDEX one_at_a_time ON executions (cell, job_id)"
    " WHERE started_at IS NOT NULL AND overlap IS NOT NULL"
)


def test_in_a_rush_of_workers_no_two_executions_of_a_job_run_at_once_and_each_policy_keeps_its_word(
    url: str,
) -> None:
    async def rush() -> None:
        async with _place(url) as place:
            jobs = {policy: await place.define(policy, JOBS_PER_POLICY) for policy in SOLO}
            for job_id in (job_id for of_policy in jobs.values() for job_id in of_policy):
                await place.fire(job_id, place.clock.now() + 5 * SECOND, FIRES_PER_JOB, SECOND)
            await Rush(place, seed=7).until_nothing_is_left()
            for policy, of_policy in jobs.items():
                for job_id in of_policy:
                    check_job(policy, await place.history(job_id), FIRES_PER_JOB)
            assert place.errors == []

    _run(rush())


class Life(msgspec.Struct):
    """One execution from its first start to its end."""

    fire_at: Instant
    state: str
    reason: str | None
    started_at: Instant | None
    finished_at: Instant
    attempt: int


def check_job(policy: str, lives: list[Life], fires: int) -> None:
    """What a policy promises about all executions of one job. `lives` come in the order of fire times."""
    assert len(lives) == fires, "each fire time ends as one row"
    assert len({life.fire_at for life in lives}) == fires
    ran = sorted((life for life in lives if life.started_at is not None), key=lambda life: life.started_at or 0)
    for one, next_one in pairwise(ran):
        assert (next_one.started_at or 0) >= one.finished_at, f"{policy}: {one} and {next_one} overlap"
    skipped = [life for life in lives if life.state == "skipped"]
    assert all(life.reason == "overlap" for life in skipped)
    match policy:
        case "skip":
            for life in skipped:
                assert any(_covers(other, life.finished_at) for other in ran), f"{life} was skipped for nobody"
        case "queue":
            assert not skipped
            assert [life.fire_at for life in ran] == sorted(life.fire_at for life in ran), "queue keeps the order"
        case "collapse":
            for life in skipped:
                assert any(other.fire_at > life.fire_at for other in lives if other.state != "skipped")
            assert lives[-1].state != "skipped", "the latest is never the one that gives way"
        case "replace":
            assert not skipped
            for life in lives:
                if life.reason == "replaced by a newer execution":
                    newer = [other for other in lives if other.fire_at > life.fire_at]
                    assert any(other.fire_at <= life.finished_at for other in newer), f"{life}: replaced by nobody"


def _covers(life: Life, instant: Instant) -> bool:
    # Skips carry the time of the worker that asked, which may lie a moment before the database's decision.
    return (life.started_at or 0) - SECOND <= instant <= life.finished_at


class Place:
    """A database on a hasty clock, and ways to fill it."""

    def __init__(self, url: str, database: Database, clock: HastyClock) -> None:
        self.url = url
        self.database = database
        self.clock = clock
        self.errors: list[str] = []
        self._opened: list[Database] = []

    async def worker(self, node_id: int, claim_ttl: float = 4.0) -> PostgresQueue:
        """A queue over connections of its own."""
        database = await open_database(self.url, name=f"worker {node_id}", size=4, pinned=True)
        self._opened.append(database)
        return PostgresQueue(database, node_id, claim_ttl)

    async def define(self, policy: str, count: int = 1, retry: Retry = Retry(3, "1s", "1s")) -> list[UUID]:
        """Jobs whose own schedule stays out of the way."""
        now = self.clock.now()
        definition = Definition(Schedule(every="365d"), NoopTarget(), policies=Policies(retry, overlap=Overlap(policy)))
        ids = [new_job_id(now) for _ in range(count)]
        far = now + 1000 * HOUR
        await JobStore(self.database).define(
            [NewJob(job_id, 1, shard_of(job_id, 64), definition, far, far) for job_id in ids], now
        )
        return ids

    async def fire(self, job_id: UUID, first: Instant, count: int = 1, gap: int = SECOND) -> list[Instant]:
        """Executions as the planner writes them, due one after the other."""
        times = [first + place * gap for place in range(count)]
        await self.database.execute(
            "INSERT INTO executions (cell, job_id, fire_at, tenant_id, queue, priority, due_at, run_at, cause, overlap)"
            " SELECT 0, j.id, f, 1, j.queue, 5, f, greatest(f, tocsin_now()), 'schedule', j.policies ->> 'overlap'"
            " FROM jobs j, unnest($2::timestamptz[]) AS f WHERE j.id = $1",
            job_id,
            times,
        )
        return times

    async def history(self, job_id: UUID) -> list[Life]:
        rows = await self.database.fetch(
            "SELECT fire_at, state, reason, started_at, finished_at, attempt, attempts FROM history"
            " WHERE cell = 0 AND job_id = $1 ORDER BY fire_at",
            job_id,
        )
        lives = []
        for row in rows:
            earlier = msgspec.json.decode(row["attempts"], type=list[Attempt]) if row["attempts"] else []
            start = earlier[0].started_at if earlier else row["started_at"]
            lives.append(Life(row["fire_at"], row["state"], row["reason"], start, row["finished_at"], row["attempt"]))
        return lives

    async def live(self, job_id: UUID) -> list[Any]:
        return await self.database.fetch(
            "SELECT * FROM executions WHERE cell = 0 AND job_id = $1 ORDER BY fire_at", job_id
        )

    async def close(self) -> None:
        for database in self._opened:
            await database.close()


class Rush:
    """Workers that claim, start, run, fail, forget and finish; a reclaimer; clients that cancel."""

    def __init__(self, place: Place, seed: int) -> None:
        self._place = place
        self._clock = place.clock
        self._rng = random.Random(seed)
        self._over = asyncio.Event()

    async def until_nothing_is_left(self) -> None:
        async with asyncio.TaskGroup() as tasks:
            for number in range(1, WORKERS + 1):
                tasks.create_task(self._often(self._working(await self._place.worker(number), tasks)))
            tasks.create_task(self._often(self._reclaiming(await self._place.worker(99))))
            tasks.create_task(self._often(self._cancelling()))
            try:
                async with asyncio.timeout(PATIENCE):
                    while await self._place.database.fetchrow("SELECT FROM executions LIMIT 1") is not None:
                        await asyncio.sleep(0.05)
            except TimeoutError:
                rows = await self._place.database.fetch("SELECT * FROM executions LIMIT 3")
                raise AssertionError(f"somebody waits for ever: {rows}") from None
            finally:
                self._over.set()

    async def _often(self, step: Callable[[], Awaitable[bool]]) -> None:
        """Repeat a step, as the shared loop does: trouble with the database is waited out and counted."""
        while not self._over.is_set():
            try:
                busy = await step()
            except Unavailable as error:
                busy = "deadlock" in str(error)
            except Exception as error:  # the test tells of it
                self._place.errors.append(repr(error))
                self._over.set()
                raise
            await asyncio.sleep(0 if busy else 0.005)

    def _working(self, queue: PostgresQueue, tasks: asyncio.TaskGroup) -> Callable[[], Awaitable[bool]]:
        async def step() -> bool:
            now = self._clock.now()
            ready = [view for view in await queue.peek(now) if view.next_run_at <= now]
            if not ready:
                return False
            claims = await queue.claim(allot(ready, self._rng.choice((3, 20, 60))), now, secrets.randbits(62), now)
            if claims and self._rng.random() < 0.05:
                return True  # the worker dies with what it has claimed
            for claim in await queue.start_gated(claims, self._clock.now()):
                tasks.create_task(self._often_once(queue, claim))
            return True

        return step

    async def _often_once(self, queue: PostgresQueue, claim: Claim) -> None:
        """One attempt, to its end: a call that is repeated until the database has answered."""
        chance = self._rng.random()
        stop = await self._call(queue, claim)
        if stop == "lost" or chance < 0.06:
            return  # nobody hears of this attempt again
        while True:
            try:
                await self._settle(queue, claim, failed=chance < 0.2, stopped=stop == "cancelled")
            except Unavailable:
                continue
            return

    async def _call(self, queue: PostgresQueue, claim: Claim) -> str:
        for _ in range(self._rng.choice((1, 1, 2, 6))):
            await asyncio.sleep(self._rng.uniform(0.001, 0.03))
            try:
                lost, cancelled = await queue.extend([claim])
            except Unavailable:
                continue
            if lost or cancelled:
                return "lost" if lost else "cancelled"
        return "over"

    async def _settle(self, queue: PostgresQueue, claim: Claim, *, failed: bool, stopped: bool) -> None:
        now = self._clock.now()
        if stopped:
            await queue.finish_gated([Finish(claim, "cancelled", now)])
        elif failed and claim.attempt < 3:
            record = Attempt(claim.attempt, Verdict.FAILED, claim.started_at, now)
            ended = Finish(claim, "cancelled", now)
            again = Again(claim, now + SECOND, msgspec.json.encode(record).decode(), ended)
            if await queue.retry([again]):
                await queue.finish_gated([ended])
        else:
            await queue.finish_gated([Finish(claim, "dead" if failed else "succeeded", now)])

    def _reclaiming(self, queue: PostgresQueue) -> Callable[[], Awaitable[bool]]:
        leases = Leases(self._clock, 1e9)
        leases.renewed({0: 1}, self._clock.monotonic())
        reclaimer = Reclaimer(queue, leases, Telemetry(), Failpoints())

        async def step() -> bool:
            return bool((await reclaimer.run_once(self._clock.now())).done)

        return step

    def _cancelling(self) -> Callable[[], Awaitable[bool]]:
        store = ExecutionStore(self._place.database)

        async def step() -> bool:
            rows = await self._place.database.fetch(
                "SELECT job_id, fire_at FROM executions WHERE due_at <= tocsin_now() ORDER BY random() LIMIT 1"
            )
            for row in rows:
                try:
                    await store.cancel(1, ExecutionKey(row["job_id"], row["fire_at"]), "a client")
                except (Conflict, NotFound):
                    continue
            await asyncio.sleep(0.02)
            return True

        return step


@asynccontextmanager
async def _place(url: str) -> AsyncIterator[Place]:
    clock = HastyClock(SPEED)
    database = await open_database(url, name="test", size=4)
    await clock.install(database)
    await database.execute(ONE_AT_A_TIME)
    await database.execute("INSERT INTO lanes VALUES (0, 'default', 5, 1)")
    place = Place(url, database, clock)
    try:
        yield place
    finally:
        await place.close()
        await database.close()


def _run(work: Any) -> None:
    before = structlog.get_config()
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    try:
        uvloop.run(work)
    finally:
        structlog.configure(**before)
