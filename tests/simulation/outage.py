"""One engine on virtual time that a test can switch off and on again.

The engine is the real planner, resumer, backfiller, reclaimer and worker over a real database; only time and
the called target are made up. `run_until` goes from one instant at which something is due to the next, so
hours pass in as many steps as things happen. `crash` drops everything the engine had in memory, and whatever
it was calling is never heard of again.
"""

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable, Sequence
from typing import Any
from uuid import UUID

import msgspec
import structlog

from tests.simulation.faults import spin
from tests.simulation.outage_oracle import HORIZON
from tests.simulation.virtual_time import VirtualTime, VirtualTimer, open_on_virtual_time, run_virtually
from tests.support.queues import whole_queue
from tocsin.clock import VirtualClock
from tocsin.db.pool import Database, open_database
from tocsin.domain.ids import shard_of
from tocsin.domain.instant import DAY, SECOND, Instant, Span
from tocsin.domain.job import Definition, check_definition
from tocsin.domain.outcome import SUCCEEDED, Outcome
from tocsin.domain.policy import Policies
from tocsin.domain.schedule import Schedule, read_schedule, rule_of
from tocsin.domain.shard import DEFAULT_SHARDS
from tocsin.domain.target import HttpTarget, Target
from tocsin.failpoints import Failpoints
from tocsin.scheduler.backfiller import Backfiller
from tocsin.scheduler.leaser import Leaser, Leases
from tocsin.scheduler.planner import Planner
from tocsin.scheduler.reclaimer import Reclaimer
from tocsin.scheduler.resumer import Resumer
from tocsin.settings import Settings
from tocsin.store.backfills import BackfillStore
from tocsin.store.control.cancelling import Cancelling
from tocsin.store.control.changing import Changing
from tocsin.store.control.firing import Firing
from tocsin.store.control.pausing import Pausing
from tocsin.store.jobs import JobStore, NewJob
from tocsin.store.leases import LeaseStore
from tocsin.store.misfires import MisfireStore
from tocsin.store.plans import PlanStore
from tocsin.targets.assignment import Assignment
from tocsin.targets.noop.caller import NoopCaller
from tocsin.telemetry import Telemetry
from tocsin.worker.worker import Worker

TENANT = 1
TARGET = HttpTarget("http://target.example/", timeout="12h")
NO_POLICIES = Policies()
# Claims outlast every call of these tests and no outage; leases outlast everything but a crash.
SETTINGS = Settings(
    lease_ttl=400 * DAY / SECOND,
    horizon=HORIZON / SECOND,
    claim_ttl=1800.0,
    claim_ahead=0.0,
    claim_batch=5000,
    concurrency=10_000,
)
# When each part has something to do next.
_WHEN = """
SELECT (SELECT min(run_at) FROM executions WHERE claim_token IS NULL) AS claimer,
       (SELECT min(deadline_at) FROM executions WHERE claim_token IS NOT NULL) AS reclaimer,
       (SELECT min(next_fire_at) - $1::bigint * interval '1 us' FROM jobs WHERE state = 'active' AND kind = 'recurring')
           AS planner,
       (SELECT min(paused_until) FROM jobs) AS resumer,
       (SELECT min(resume_at) FROM backfills WHERE state = 'running') AS backfiller,
       (SELECT tocsin_now() FROM executions WHERE cancel_requested LIMIT 1) AS heartbeat
"""
_ORDER = (
    "reclaimer",
    "resumer",
    "planner",
    "backfiller",
    "claimer",
    "starter",
    "misfires",
    "settler",
    "heartbeat",
)


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """What became of one fire time."""

    fire_at: Instant
    state: str
    reason: str | None = None
    cause: str | None = None
    due_at: Instant | None = None
    started_at: Instant | None = None
    attempt: int = 1


class Calls:
    """The target: every call takes as long as `lasts` says and then succeeds, or ends as `answer` says."""

    def __init__(self, time: VirtualTime) -> None:
        self._time = time
        self.lasts: Callable[[Assignment], Span] = lambda _: 0
        self.answer: Callable[[Assignment], Outcome] = lambda _: SUCCEEDED
        self.ends: dict[asyncio.Task[Any], Instant] = {}
        self.made: list[tuple[UUID, Instant, int]] = []

    def host(self, target: Any) -> None:
        """Its connections are not limited."""

    async def call(self, assignment: Assignment, target: Any, timeout: float) -> Outcome:
        self.made.append((assignment.job_id, assignment.fire_at, assignment.attempt))
        task = asyncio.current_task()
        assert task is not None
        span = self.lasts(assignment)
        self.ends[task] = self._time.now() + span
        try:
            await asyncio.sleep(span / SECOND)
        finally:
            del self.ends[task]
        return self.answer(assignment)


class Engine:
    """A scheduler and a worker, and the clients' way around them."""

    def __init__(self, database: Database, time: VirtualTime, settings: Settings = SETTINGS) -> None:
        self.database = database
        self.time = time
        self.settings = settings
        self.calls = Calls(time)
        self.jobs = JobStore(database)
        self.cancelling = Cancelling(database)
        self.pausing = Pausing(database, settings.horizon)
        self.changing = Changing(database, settings.horizon)
        self.firing = Firing(database)
        self.backfills = BackfillStore(database)
        self.horizon = round(settings.horizon * SECOND)
        self._rng = random.Random(1)
        self.instants = 0
        self.away: set[str] = set()
        """Parts that do nothing, as if whoever runs them were gone."""

    async def start(self) -> None:
        """Join the fleet as a new node and hold every shard."""
        leasing = LeaseStore(self.database, self.settings.lease_ttl)
        telemetry, points, clock = Telemetry(), Failpoints(), self.time.clock
        node_id = await leasing.register("engine", ("scheduler", "worker"), "test")
        self.leases = Leases(clock, self.settings.lease_ttl)
        leaser = Leaser(
            leasing, clock, self.leases, node_id=node_id, ttl=self.settings.lease_ttl, plans=True,
            telemetry=telemetry, failpoints=points, rejoin=_never,
        )  # fmt: skip
        await leaser.run_once(self.time.now())
        self.planner = Planner(
            PlanStore(self.database, node_id), self.leases, horizon=self.settings.horizon, wake_within=2.0,
            telemetry=telemetry, failpoints=points,
        )  # fmt: skip
        queue = whole_queue(self.database, node_id, self.settings.claim_ttl)
        self.reclaimer = Reclaimer(
            queue.reclaiming, queue.healing, self.leases, telemetry, points, claim_ttl=self.settings.claim_ttl,
            pause_lost=self.pausing.pause_lost,
        )  # fmt: skip
        self.resumer = Resumer(self.pausing, self.leases)
        self.backfiller = Backfiller(self.backfills, self.leases)
        self.worker = Worker(
            whole_queue(self.database, node_id, self.settings.claim_ttl), {"http": self.calls, "noop": NoopCaller()}, clock,
            self.settings, telemetry, points, node_id=node_id, misfires=MisfireStore(self.database),
            control=self.pausing,
        )  # fmt: skip
        self.timer = VirtualTimer(clock, self.worker.runner)
        worker = (
            self.worker.claimer, self.worker.starter, self.worker.misfires, self.worker.settler, self.worker.heartbeat
        )  # fmt: skip
        parts: Any = (self.planner, self.reclaimer, self.resumer, self.backfiller, *worker)
        self._parts = {part.name: part for part in parts}

    async def crash(self) -> None:
        """Lose everything in memory; the leases are free as if their time had run out."""
        for _, task in self.worker.runner._tasks.values():
            task.cancel()
        self.worker.runner._tasks.clear()
        self.timer.close()
        await spin()
        await self.database.execute("UPDATE shards SET owner = NULL, expires_at = tocsin_now()")
        await self.database.execute("DELETE FROM nodes")

    async def define(
        self, schedule: Any, policies: Policies = NO_POLICIES, target: Target = TARGET, **fields: Any
    ) -> UUID:
        """A job as the API would make it."""
        now = self.time.now()
        definition = Definition(read_schedule(schedule, now), target, policies=policies, **fields)
        check_definition(definition)
        job_id = UUID(int=self._rng.getrandbits(128))
        first = rule_of(definition.schedule).next_fire(now if definition.kind == "recurring" else -(1 << 62))
        assert first is not None
        shard = shard_of(job_id, DEFAULT_SHARDS)
        new = NewJob(job_id, TENANT, shard, definition, first, max(first, now))
        assert not await self.jobs.define([new], now)
        return job_id

    async def run_until(self, end: Instant) -> None:
        """Let everything happen that is due until `end`, each thing at its instant."""
        while (upcoming := await self.settle()) is not None and upcoming <= end:
            await self.time.advance_to(upcoming)
        await self.time.advance_to(end)
        await self.settle()

    async def run_until_done(self, patience: Span = DAY) -> None:
        """Until nothing is left to do."""
        limit = self.time.now() + patience
        while (upcoming := await self.settle()) is not None:
            assert upcoming < limit, f"still busy after {patience / SECOND} s"
            await self.time.advance_to(upcoming)

    async def settle(self) -> Instant | None:
        """Let every part run until none has anything to do at this instant. Returns the next instant at which
        one has."""
        self.instants += 1
        while True:
            await spin()
            now = self.time.now()
            when = await self._when()
            due = [name for name, instant in when.items() if instant is not None and instant <= now]
            if not due:
                return min((instant for instant in when.values() if instant is not None), default=None)
            for name in [name for name in _ORDER if name in due]:
                await self._parts[name].run_once(now)
            if "alarm" in due:
                self.timer.ring()

    async def _when(self) -> dict[str, Instant | None]:
        """When each part has something to do next; the calls under way are the target's part."""
        when = dict(await self.database.one(_WHEN, self.horizon))
        worker, now = self.worker, self.time.now()
        worker.claimer.forget_look()
        if when["heartbeat"] is not None:
            worker.heartbeat.look_for_stops()
        elif when["reclaimer"] is not None and self.calls.ends:
            when["heartbeat"] = max(
                now + 1, when["reclaimer"] - round(self.settings.claim_ttl * 0.45 * SECOND)
            )
        when["starter"] = worker.timetable.next_at()
        if worker.places.unused <= 0:  # both wait for a call to end
            when["claimer"] = when["starter"] = None
        when["misfires"] = now if worker.misfires else None
        when["alarm"] = self.timer.ring_at
        when["settler"] = now if worker.settler.backlog else None
        when |= dict.fromkeys(self.away)
        when["calls"] = min((end for end in self.calls.ends.values() if end > now), default=None)
        return when

    async def ledger(self, job_id: UUID, fire_times: Sequence[Instant]) -> list[Row]:
        """What became of each fire time: history with its runs of skips told apart, and what is still
        live."""
        rows = await self.database.fetch(
            "SELECT fire_at, fire_until, fire_count, state, reason, cause, due_at, started_at, attempt FROM history"
            " WHERE cell = 0 AND job_id = $1 UNION ALL SELECT fire_at, NULL, 1, 'live', NULL, cause, due_at, started_at,"
            " attempt FROM executions WHERE cell = 0 AND job_id = $1",
            job_id,
        )
        ledger = []
        for row in rows:
            if row["fire_until"] is None:
                ledger.append(_row(row, row["fire_at"]))
                continue
            inside = [time for time in fire_times if row["fire_at"] <= time <= row["fire_until"]]
            assert len(inside) == row["fire_count"], f"a run of {row['fire_count']} skips holds {len(inside)}"
            assert inside[0] == row["fire_at"]
            assert inside[-1] == row["fire_until"]
            ledger += [_row(row, time) for time in inside]
        return sorted(ledger, key=lambda row: row.fire_at)

    async def count(self, table: str, condition: str = "true", *args: Any) -> int:
        row = await self.database.one(f"SELECT count(*) AS n FROM {table} WHERE {condition}", *args)
        return int(row["n"])


def play(url: str, start: Instant, story: Callable[[Engine], Awaitable[None]], **settings: Any) -> None:
    """Tell a story that begins at `start` with a running engine."""
    clock = VirtualClock(start)
    before = structlog.get_config()
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))

    async def tell() -> None:
        await _tidy(url)
        database, time = await open_on_virtual_time(url, clock)
        engine = Engine(database, time, msgspec.structs.replace(SETTINGS, **settings))
        try:
            await engine.start()
            await story(engine)
        finally:
            await engine.crash()
            await database.close()

    try:
        run_virtually(clock, tell())
    finally:
        structlog.configure(**before)


async def _tidy(url: str) -> None:
    """Several stories may share a database: each begins with nothing."""
    database = await open_database(url, name="test setup", size=1)
    await database.execute("DROP SEQUENCE IF EXISTS virtual_time")
    for table in (
        "executions",
        "history",
        "backfills",
        "idempotency",
        "lanes",
        "jobs",
        "calendars",
        "queues",
        "queue_pauses",
        "operations",
        "audit",
    ):
        await database.execute(f"DELETE FROM {table}")
    await database.close()


def schedule(**fields: Any) -> Schedule:
    return msgspec.convert(fields, Schedule)


def _row(row: Any, fire_at: Instant) -> Row:
    return Row(
        fire_at=fire_at,
        state=row["state"],
        reason=row["reason"],
        cause=row["cause"],
        due_at=row["due_at"],
        started_at=row["started_at"],
        attempt=row["attempt"],
    )


async def _never() -> None:
    raise AssertionError("the node was forgotten")
