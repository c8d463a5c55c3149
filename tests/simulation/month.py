"""A month of mixed work on virtual time: tenants that come and go, and all that they leave behind.

Twice a day a new tenant comes with one-offs, recurring jobs that end, limits by key, idempotency keys, a
backfill and API keys, and a process joins and vanishes. Of the tenant's four hosts one is away, one fails,
and one fails once; its worker claims three tasks at a gateway, and vanishes with one of them. One node
stays for the whole month and does everything: plans, runs, and tidies up. One job fires all the time into a
queue that is paused for the whole month; an alert tells of that.
"""

import asyncio
import random
from typing import Any
from uuid import UUID

from tests.simulation.faults import Faults, spin
from tests.simulation.month_outside import KINDS, TASK, TASKS, Hosts, work_once
from tests.simulation.node import SimulatedNode
from tests.simulation.virtual_time import VirtualTime
from tocsin.api.context import Context, make_context
from tocsin.api.endpoint import Asker
from tocsin.db.pool import Database
from tocsin.domain.addresses import AddressPolicy
from tocsin.domain.alert_channel import AlertChannel
from tocsin.domain.alert_rule import AlertRule, PausedQueue
from tocsin.domain.audit import Origin
from tocsin.domain.backfill import Mode, Order
from tocsin.domain.cells import CELL
from tocsin.domain.errors import OwnershipLost
from tocsin.domain.ids import new_job_id, shard_of
from tocsin.domain.instant import DAY, HOUR, SECOND, format_instant
from tocsin.domain.job import Definition
from tocsin.domain.limits import TenantLimits
from tocsin.domain.operation import Do, Of
from tocsin.domain.policy import Limit, Overlap, Policies, Retry
from tocsin.domain.schedule import Schedule, rule_of
from tocsin.domain.shard import DEFAULT_SHARDS
from tocsin.domain.target import HttpTarget, NoopTarget
from tocsin.domain.target import Target as JobTarget
from tocsin.domain.task_target import TaskTarget
from tocsin.failpoints import Failpoints
from tocsin.queue.claiming.unused_lanes import UnusedLanes
from tocsin.scheduler.alert_keeper import AlertKeeper
from tocsin.scheduler.backfiller import Backfiller
from tocsin.scheduler.forecaster import Forecaster
from tocsin.scheduler.forgetter import Forgetter
from tocsin.scheduler.lane_remover import LaneRemover
from tocsin.scheduler.operations import Operations
from tocsin.scheduler.resumer import Resumer
from tocsin.scheduler.retention import Retention
from tocsin.scheduler.tally_keeper import TallyKeeper
from tocsin.settings import Settings
from tocsin.store.acting import Acting
from tocsin.store.alert_courses import AlertCourses
from tocsin.store.alert_sources import AlertSources
from tocsin.store.alerts import AlertStore
from tocsin.store.backfills import BackfillStore, NewBackfill
from tocsin.store.control.pausing import Pausing
from tocsin.store.foreseeing import Foreseeing
from tocsin.store.forgetting import ForgettingStore
from tocsin.store.gathering import Gathering
from tocsin.store.history import HistoryStore
from tocsin.store.job_listing import JobFilter, select_jobs
from tocsin.store.jobs import NewJob
from tocsin.store.leases import LeaseStore, Renewal
from tocsin.store.operations import NewOperation
from tocsin.store.tallies import TallyStore
from tocsin.telemetry import Telemetry
from tocsin.worker.remote.assembly import make_gateway
from tocsin.worker.tallies import Tallies

WINDOWS_A_DAY = 2
HISTORY_DAYS = 3
AUDIT_DAYS = 4
SETTINGS = Settings(lease_ttl=30.0, claim_ttl=30.0, horizon=8.0, claim_ahead=2.0, concurrency=8)
LINES = 20
"""What the tasks of a tenant log."""
_STEPS = 3
_MOST_STEPS = 60
_FIRST_TENANT = 1
_LIMITS = '{"fires_per_second": 50, "in_flight": 50, "requests_per_second": 50, "pending_jobs": 100}'
_KEY = "INSERT INTO api_keys (id, tenant_id, name, secret_hash, scopes, revoked_at) VALUES ($1, $2, $1, '', '{read}', $3)"

_TWICE = Policies(retry=Retry(max_attempts=2, jitter=0))
_SESSION = (
    "INSERT INTO dashboard_sessions (token_hash, kind, tenant_id, key_id, expires_at)"
    " VALUES ($1, 'session', $2, $3, tocsin_now() + interval '12 hours')"
)
_LOGGED = (
    "INSERT INTO attempt_logs (cell, job_id, fire_at, attempt, seq, at, tenant_id, level, message, total)"
    " SELECT $1, $2, $3, 1, n, $3, $4, 'info', 'said', n FROM generate_series(1, $5) AS n"
)
_NOTE = (
    "INSERT INTO audit (at, tenant_id, actor, action, object) VALUES ($1, $2, 'test', 'key.create', 'test')"
)


class Month:
    """One installation, from its first day on."""

    def __init__(self, database: Database, leasing: Database, time: VirtualTime) -> None:
        self._database = database
        self._leasing = leasing
        self._time = time
        self.api: Context = make_context(
            database,
            time.clock,
            Telemetry(),
            AddressPolicy(),
            shard_count=DEFAULT_SHARDS,
            lease_ttl=SETTINGS.lease_ttl,
        )

    async def begin(self) -> None:
        """Start the node that stays."""
        clock = self._time.clock
        faults = Faults(random.Random(1), clock.now, ttl=SETTINGS.lease_ttl)
        faults.quiet = True
        join = (self._database, self._leasing, clock, SETTINGS, faults, Hosts(clock))
        self.node = await SimulatedNode.join("stays", *join)  # type: ignore[arg-type]
        self.gateway = make_gateway(
            self._database, LeaseStore(self._leasing, SETTINGS.lease_ttl), clock, SETTINGS, Telemetry(), Failpoints(),
            node_id=self.node.node_id, cell=CELL,
        )  # fmt: skip
        self.node.leaser._heard = self._hear
        leases, nodes = self.node.leases, LeaseStore(self._leasing, SETTINGS.lease_ttl)
        self.forgetter = Forgetter(
            ForgettingStore(self._database, HISTORY_DAYS, AUDIT_DAYS), self.node.leases, clock
        )
        tallies = Tallies(TallyStore(self._database, 1), clock)
        self.node.worker.settler._count_succeeded = tallies.succeeded
        self.operations = Operations(
            Acting(self._database, SETTINGS.horizon, Failpoints()), Gathering(self._database, Failpoints())
        )
        self.services: list[Any] = [
            *(part.loop.service for part in self.node.parts),
            *(loop.service for loop in self.gateway.loops),
            Backfiller(BackfillStore(self._database), leases),
            Resumer(Pausing(self._database, SETTINGS.horizon), leases),
            LaneRemover(UnusedLanes(self._database, CELL), leases),
            tallies,
            TallyKeeper(TallyStore(self._database), leases),
            Forecaster(Foreseeing(self._database, self.node.node_id), leases, clock, Telemetry()),
            Retention(HistoryStore(self._database), nodes, leases, HISTORY_DAYS, AUDIT_DAYS),
            AlertKeeper(
                AlertCourses(self._database, self.node.node_id),
                AlertSources(self._database, SETTINGS.horizon, TenantLimits()),
                leases,
                clock,
            ),
        ]
        await self.begin_what_waits()

    async def begin_what_waits(self) -> None:
        """A job that nothing starts, and a rule that watches its queue."""
        await self.api.queues.pause(_FIRST_TENANT, "paused", None, None, Origin("test"))
        await self._recurring(_FIRST_TENANT, Schedule(every=60.0), Policies(), queue="paused")
        alerts = AlertStore(self._leasing)
        await alerts.put_channel(
            _FIRST_TENANT, "ops", AlertChannel(kind="webhook", url="https://ops.example/")
        )
        rule = AlertRule(watch=PausedQueue(longer_than="1m"), channels=("ops",))
        await alerts.put_rule(_FIRST_TENANT, "paused", rule)

    async def pass_day(self, day: int) -> None:
        """Work, and much time in which nothing is done."""
        for half in range(WINDOWS_A_DAY):
            number = day * WINDOWS_A_DAY + half
            began = self._time.now()
            tenant = await self._come(number)
            remote = work_once(self.gateway.gateway, tenant, f"live-{number}", f"queue-{number}")
            working = asyncio.create_task(remote)
            for step in range(_MOST_STEPS):
                await self._step()
                if working.done() and step >= _STEPS:
                    break
            assert working.done(), "the remote worker gets nothing"
            await working
            await self._tidy()
            await self._time.advance_to(began + DAY // WINDOWS_A_DAY + SECOND)

    def _hear(self, renewal: Renewal) -> None:
        self.node.worker.heard(renewal)
        self.gateway.heard(renewal)

    async def _step(self) -> None:
        for service in self.services:
            try:
                await service.run_once(self._time.now())
            except OwnershipLost:  # it slept for half a day, and joins anew
                await service.run_once(self._time.now())
        if (at := self.node.rings_at()) is not None and at <= self._time.now():
            self.node.timer.ring()
        await spin()
        await self._time.advance(SECOND)

    async def _tidy(self) -> None:
        """As many batches as are wanted right away."""
        again_at = 0
        while again_at < self._time.now() + SECOND:
            again_at = (await self.forgetter.run_once(self._time.now())).again_at or 0
            await self._time.advance_to(min(again_at, self._time.now() + SECOND))

    async def _come(self, number: int) -> int:
        """A tenant comes, defines its jobs, and is not heard of again. Returns its id."""
        row = await self._leasing.one(
            "INSERT INTO tenants (name, limits) VALUES ($1, $2) RETURNING id", f"tenant-{number}", _LIMITS
        )
        tenant: int = row["id"]
        now = self._time.now()
        queue = f"queue-{number}"
        for policies in (
            Policies(),
            Policies(limit=Limit(f"key-{number}", max_parallel=2)),
            Policies(limit=Limit(f"rate-{number}", rate=100)),
        ):
            await self._once(tenant, queue, policies, HttpTarget(f"https://{queue}.example/"))
        new = self._new(tenant, Definition(Schedule(at=format_instant(now)), NoopTarget(), queue=queue))
        await self.api.jobs.define_once(new, f"request-{number}", b"", "{}", now)
        ending = Schedule(every=12 * 3600.0, starts_at=format_instant(now), max_fires=2)
        job_id = await self._recurring(tenant, ending, Policies(overlap=Overlap.SKIP))
        pending = await self._recurring(tenant, Schedule(every=60.0), Policies())
        fill = NewBackfill(now - 24 * HOUR, now, Mode.ALL, Order.OLDEST_FIRST, 0, 10)
        await self.api.backfills.define(tenant, job_id, fill, 0)
        await self._time.advance(SECOND)
        await self.api.cancelling.cancel(tenant, pending, "over")
        await self.api.queues.pause(tenant, queue, None, None, Origin("test"))
        await self.api.queues.resume(tenant, queue, Origin("test"))
        await self._operate(tenant)
        await self._visit(tenant, number)
        for kind in KINDS:
            await self._once(tenant, queue, _TWICE, HttpTarget(f"https://{kind}-{number}.example/"))
        for _ in TASKS:
            await self._once(tenant, queue, Policies(retry=Retry(max_attempts=1)), TaskTarget(TASK))
        return tenant

    async def _operate(self, tenant: int) -> None:
        """Act on all that the tenant has."""
        new = NewOperation(
            do=Do.CANCEL_QUEUED, of=Of.JOBS, filter={}, selection=select_jobs(tenant, JobFilter()), reason=None, pace=0,
            steps=(), stop_at=None,
        )  # fmt: skip
        now = self._time.now()
        await self.api.operations.define(tenant, new, now, Origin("test"))
        while (await self.operations.run_once(now)).done:
            pass

    async def _visit(self, tenant: int, number: int) -> None:
        """What requests leave in the memory of an API process, and what vanished processes leave in the
        database."""
        asker = Asker(tenant, f"key-{number}", frozenset(), limits=TenantLimits(requests_per_second=50.0))
        self.api.throttle.admit(asker)
        await self.api.pending.admit(tenant, 100)
        await self._leasing.execute(_NOTE, self._time.now(), tenant)
        await self._leasing.execute(_KEY, f"live-{number}", tenant, None)
        await self._leasing.execute(_KEY, f"revoked-{number}", tenant, self._time.now())
        await self._leasing.execute(_SESSION, f"{number}".encode(), tenant, f"revoked-{number}")
        now = self._time.now()
        await self._leasing.execute(_LOGGED, CELL, new_job_id(now), now, tenant, LINES)
        await LeaseStore(self._leasing, SETTINGS.lease_ttl).register(f"node {number}", ("worker",), "test")

    async def _once(self, tenant: int, queue: str, policies: Policies, target: JobTarget) -> None:
        schedule = Schedule(at=format_instant(self._time.now()))
        definition = Definition(schedule, target, policies=policies, queue=queue)
        await self.api.jobs.define([self._new(tenant, definition)], self._time.now())

    async def _recurring(
        self, tenant: int, schedule: Schedule, policies: Policies, queue: str = "default"
    ) -> UUID:
        new = self._new(tenant, Definition(schedule, NoopTarget(), policies=policies, queue=queue))
        await self.api.jobs.define([new], self._time.now())
        return new.id

    def _new(self, tenant: int, definition: Definition) -> NewJob:
        now = self._time.now()
        job_id = new_job_id(now)
        rule = rule_of(definition.schedule)
        fire_at = rule.next_fire(now - 1)
        assert fire_at is not None
        return NewJob(
            job_id, tenant, shard_of(job_id, DEFAULT_SHARDS), definition, fire_at, fire_at, Origin("test")
        )
