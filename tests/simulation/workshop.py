"""The product's stores and queue on virtual time, operated by hand: for tests that show one fact each."""

import itertools
from collections.abc import Awaitable, Callable
from typing import Any
from uuid import UUID

from tests.simulation.virtual_time import START, VirtualTime, open_on_virtual_time, run_virtually
from tests.support.queues import WholeQueue, whole_queue
from tocsin.clock import VirtualClock
from tocsin.db.pool import Database, open_database
from tocsin.domain.ids import ExecutionKey, new_job_id, shard_of
from tocsin.domain.instant import SECOND, Instant, Span, format_instant
from tocsin.domain.job import Definition
from tocsin.domain.lifecycle import State
from tocsin.domain.policy import Policies
from tocsin.domain.schedule import Schedule, rule_of
from tocsin.domain.shard import DEFAULT_SHARDS
from tocsin.domain.target import NoopTarget, Target
from tocsin.queue.allotment import NO_DEFICITS, allot
from tocsin.queue.claims import Again, Claim, Finish
from tocsin.store.control.cancelling import Cancelling
from tocsin.store.control.pausing import Pausing
from tocsin.store.executions import ExecutionStore
from tocsin.store.jobs import JobStore, NewJob
from tocsin.store.leases import LeaseStore
from tocsin.store.plans import PlanStore

TENANT = 1
SHARDS = DEFAULT_SHARDS
CLAIM_TTL = 10.0
LEASE_TTL = 10.0
AHEAD: Span = 2 * SECOND
RECORD = '{"number": 1, "verdict": "failed"}'
_DEFAULT = Policies()
_NOOP = NoopTarget()


class Workshop:
    """Everything within reach."""

    def __init__(self, database: Database, plain: Database, time: VirtualTime) -> None:
        self.database = database
        self.plain = plain
        self.time = time
        self.jobs = JobStore(plain)
        self.cancelling = Cancelling(plain)
        self.pausing = Pausing(plain, horizon=30.0)
        self.executions = ExecutionStore(plain)
        self.leases = LeaseStore(plain, LEASE_TTL)
        self._tokens = itertools.count(1)

    def worker(self, node_id: int, **served: Any) -> WholeQueue:
        """A worker's view of the queue."""
        return whole_queue(self.database, node_id, CLAIM_TTL, **served)

    def planner(self, node_id: int) -> PlanStore:
        """A planner's view of the jobs."""
        return PlanStore(self.database, node_id)

    async def once(
        self, in_: Span = 0, policies: Policies = _DEFAULT, target: Target = _NOOP, **fields: Any
    ) -> ExecutionKey:
        """A one-off that is due `in_` from now."""
        now = self.time.now()
        definition = Definition(Schedule(at=format_instant(now + in_)), target, policies=policies, **fields)
        job_id = new_job_id(now)
        await self.jobs.define([self._new(job_id, definition, now + in_)], now)
        return ExecutionKey(job_id, now + in_)

    async def many(self, number: int, in_: Span = 0) -> None:
        """One-offs that are due together, written in one statement."""
        now = self.time.now()
        definition = Definition(Schedule(at=format_instant(now + in_)), NoopTarget())
        new = [self._new(new_job_id(now), definition, now + in_) for _ in range(number)]
        await self.jobs.define(new, now)

    async def recurring(self, every: Span, policies: Policies = _DEFAULT, **fields: Any) -> UUID:
        """A job that fires every so often."""
        now = self.time.now()
        schedule = Schedule(every=every / SECOND, **fields)
        job_id = new_job_id(now)
        first = rule_of(schedule).next_fire(now)
        assert first is not None
        await self.jobs.define(
            [self._new(job_id, Definition(schedule, NoopTarget(), policies=policies), first)], now
        )
        return job_id

    async def claim(self, worker: WholeQueue, *, take: int = 1000, ahead: Span = AHEAD) -> list[Claim]:
        """What a claimer's turn takes, all under one token."""
        now = self.time.now()
        views = [view for view in await worker.looking.look(now) if view.next_run_at <= now + ahead]
        return await worker.claiming.claim(
            allot(NO_DEFICITS, views, take)[0], now + ahead, next(self._tokens), now
        )

    def again(self, claim: Claim, in_: Span = SECOND) -> Again:
        """The settlement of an attempt that failed and may be repeated."""
        now = self.time.now()
        return Again(claim, now + in_, RECORD, Finish(claim, State.CANCELLED, now, reason="asked to stop"))

    def finish(self, claim: Claim, state: State = State.SUCCEEDED) -> Finish:
        """The settlement of an execution that is over."""
        return Finish(claim, state, self.time.now())

    async def live(self, key: ExecutionKey) -> Any:
        """The live row of an execution."""
        return await self.plain.fetchrow(
            "SELECT * FROM executions WHERE cell = 0 AND job_id = $1 AND fire_at = $2",
            key.job_id,
            key.fire_at,
        )

    async def past(self, key: ExecutionKey) -> list[Any]:
        """Its rows in history."""
        return await self.plain.fetch(
            "SELECT * FROM history WHERE cell = 0 AND job_id = $1 AND fire_at = $2", key.job_id, key.fire_at
        )

    async def count(self, table: str) -> int:
        return int((await self.plain.one(f"SELECT count(*) AS number FROM {table}"))["number"])

    @staticmethod
    def _new(job_id: UUID, definition: Definition, fire_at: Instant) -> NewJob:
        return NewJob(job_id, TENANT, shard_of(job_id, SHARDS), definition, fire_at, fire_at)


async def open_workshop(url: str, clock: VirtualClock, *, size: int = 4) -> Workshop:
    """A workshop over a fresh database."""
    database, time = await open_on_virtual_time(url, clock, size=size)
    return Workshop(database, await open_database(url, name="test clients", size=size), time)


async def close_workshop(shop: Workshop) -> None:
    await shop.database.close()
    await shop.plain.close()


def play(url: str, story: Callable[[Workshop], Awaitable[None]]) -> None:
    """Tell a story on virtual time."""
    clock = VirtualClock(START)

    async def scene() -> None:
        shop = await open_workshop(url, clock)
        try:
            await story(shop)
        finally:
            await close_workshop(shop)

    run_virtually(clock, scene())
