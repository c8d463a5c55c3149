"""What handlers work with."""

from collections.abc import Mapping, Sequence
from typing import Protocol, cast

import msgspec

from tocsin.api.auth import Authenticator
from tocsin.api.ends import Ends
from tocsin.api.entrance import ANY_HOST, Doors, Entrance
from tocsin.api.foresight import Foresight
from tocsin.api.fresh import Fresh
from tocsin.api.gateway import Gateway
from tocsin.api.intake import Intake
from tocsin.api.pulse import Pulse
from tocsin.api.quota import PendingJobs
from tocsin.api.throttle import Throttle
from tocsin.api.trials import Trials
from tocsin.archive.work import Place
from tocsin.clock import Clock
from tocsin.db.pool import Database
from tocsin.db.readiness import Readiness
from tocsin.domain.addresses import AddressPolicy
from tocsin.domain.grpc_target import GRPC, GrpcTarget
from tocsin.domain.limits import TenantLimits
from tocsin.domain.script_target import ScriptRules
from tocsin.domain.sealing import SecretBox
from tocsin.settings import Shown
from tocsin.store.alerts import AlertStore
from tocsin.store.archived_executions import ArchivedExecutions
from tocsin.store.archives import ArchiveStore
from tocsin.store.audit import AuditStore
from tocsin.store.backfills import BackfillStore
from tocsin.store.calendars import CalendarStore
from tocsin.store.connections import ConnectionStore
from tocsin.store.control.cancelling import Cancelling
from tocsin.store.control.changing import Changing
from tocsin.store.control.firing import Firing
from tocsin.store.control.pausing import Pausing
from tocsin.store.dead_letters import DeadLetterStore
from tocsin.store.declaring import Declaring
from tocsin.store.execution_listing import ExecutionListing
from tocsin.store.executions import ExecutionStore
from tocsin.store.forecasts import ForecastStore
from tocsin.store.job_listing import JobListing
from tocsin.store.jobs import JobStore
from tocsin.store.keys import KeyStore
from tocsin.store.leases import LeaseStore
from tocsin.store.logins import LoginStore
from tocsin.store.logs import LogStore
from tocsin.store.operations import OperationStore
from tocsin.store.picture import PictureStore
from tocsin.store.queues import QueueStore
from tocsin.store.repeats import RepeatStore
from tocsin.store.resealing import Resealing
from tocsin.store.secrets import SecretStore
from tocsin.store.series import SeriesStore
from tocsin.store.sessions import SessionStore
from tocsin.store.stats import StatsStore
from tocsin.store.system import SystemStore
from tocsin.store.tallies import TallyStore
from tocsin.store.tenants import TenantStore
from tocsin.store.timeline import TimelineStore
from tocsin.store.unique_keys import UniqueKeys
from tocsin.store.webhook_secrets import WebhookSecretStore
from tocsin.store.workers import WorkerStore
from tocsin.targets.caller import Caller
from tocsin.targets.message.caller import MessageCaller
from tocsin.targets.message.trying import Brokers
from tocsin.telemetry import Telemetry


class Describer(Protocol):
    """Knows the methods of gRPC servers."""

    async def describe(self, tenant_id: int, target: GrpcTarget) -> bytes:
        """The descriptors of a target's method, once target and message were checked with them."""


class Context(msgspec.Struct, frozen=True):
    """The API's stores and services.

    Those over the API's own connections see the tenant that a call acts for; `tenants`, `keys`, `resealing`,
    `all_queues`, `all_series`, `tallies`, `system`, `picture` and `whole_audit` are over the operator's,
    which see all, and are only for callers with the `admin` scope. `sessions` is, too: it is asked by the
    hash of what a browser holds, before its tenant is known. So are `logins` and `archives`.
    """

    database: Database
    clock: Clock
    telemetry: Telemetry
    policy: AddressPolicy
    shard_count: int
    jobs: JobStore
    job_listing: JobListing
    cancelling: Cancelling
    pausing: Pausing
    changing: Changing
    firing: Firing
    declaring: Declaring
    unique_keys: UniqueKeys
    calendars: CalendarStore
    connections: ConnectionStore
    alerts: AlertStore
    backfills: BackfillStore
    executions: ExecutionStore
    execution_listing: ExecutionListing
    dead_letters: DeadLetterStore
    operations: OperationStore
    queues: QueueStore
    all_queues: QueueStore
    repeats: RepeatStore
    leases: LeaseStore
    intake: Intake
    authenticator: Authenticator
    entrance: Entrance
    stats: StatsStore
    series: SeriesStore
    all_series: SeriesStore
    timeline: TimelineStore
    forecasts: ForecastStore
    foresight: Foresight
    fresh: Fresh
    pulse: Pulse
    sessions: SessionStore
    throttle: Throttle
    pending: PendingJobs
    audit: AuditStore
    whole_audit: AuditStore
    tallies: TallyStore
    system: SystemStore
    picture: PictureStore
    tenants: TenantStore
    keys: KeyStore
    secrets: SecretStore
    webhook_secrets: WebhookSecretStore
    resealing: Resealing
    readiness: Readiness
    workers: WorkerStore
    logs: LogStore
    ends: Ends
    trials: Trials
    logins: LoginStore
    archives: ArchiveStore
    gateway: Gateway | None = None
    archived: ArchivedExecutions | None = None
    """Executions of days that left the database; None without an archive."""
    wall: str | None = None
    """Why row-level security does not protect this process, if it does not."""
    echo: bool = False
    """Whether `/v1/echo` answers."""
    scripts: ScriptRules | None = None
    """What scripts may do; None where there are none."""
    grpc: Describer | None = None
    """Knows the methods of gRPC servers; None where the extra is not installed."""
    brokers: Brokers = Brokers({})
    """What tries connections out."""
    settings: Sequence[Shown] = ()
    """Those in force in this process, for operators."""


def make_context(
    database: Database,
    clock: Clock,
    telemetry: Telemetry,
    policy: AddressPolicy,
    *,
    shard_count: int,
    lease_ttl: float,
    horizon: float = 45.0,
    patience: float = 15.0,
    operator: Database | None = None,
    defaults: TenantLimits | None = None,
    wall: str | None = None,
    box: SecretBox | None = None,
    doors: Doors = ANY_HOST,
    echo: bool = False,
    scripts: ScriptRules | None = None,
    settings: Sequence[Shown] = (),
    gateway: Gateway | None = None,
    callers: Mapping[str, Caller] | None = None,
    archive: Place | None = None,
) -> Context:
    """Everything over one database. `operator` is a way into it that sees all tenants, if `database` does
    not; `patience` is how many seconds a creation waits in line."""
    operator, stats = operator or database, StatsStore(database)
    operations, leases = OperationStore(database), LeaseStore(database, lease_ttl)
    jobs, tenants, sessions = JobStore(database), TenantStore(operator), SessionStore(operator)
    forecasts = ForecastStore(database)
    archived = None if archive is None else ArchivedExecutions(database, archive)
    authenticator = Authenticator(KeyStore(database), tenants, clock, defaults or TenantLimits(), sessions)
    return Context(
        database,
        clock,
        telemetry,
        policy,
        shard_count,
        jobs,
        JobListing(database),
        Cancelling(database),
        Pausing(database, horizon),
        Changing(database, horizon),
        Firing(database),
        Declaring(database, horizon),
        UniqueKeys(database),
        CalendarStore(database),
        ConnectionStore(database),
        AlertStore(database),
        BackfillStore(database),
        ExecutionStore(database),
        ExecutionListing(database, archived),
        DeadLetterStore(database),
        operations,
        QueueStore(database),
        QueueStore(operator),
        RepeatStore(database),
        leases,
        Intake(jobs, clock, patience),
        authenticator,
        Entrance(authenticator, doors),
        stats,
        SeriesStore(database),
        SeriesStore(operator),
        TimelineStore(database),
        forecasts,
        Foresight(forecasts, clock),
        Fresh(),
        Pulse(stats, operations, leases, clock),
        sessions,
        Throttle(clock),
        PendingJobs(tenants, clock, horizon),
        AuditStore(database),
        AuditStore(operator),
        TallyStore(operator),
        SystemStore(operator),
        PictureStore(operator),
        tenants,
        KeyStore(operator),
        SecretStore(database, box),
        WebhookSecretStore(database, box),
        Resealing(operator, box),
        Readiness(operator.presence),
        WorkerStore(database),
        LogStore(database),
        Ends(ExecutionStore(operator)),
        Trials(callers or {}, clock),
        LoginStore(operator, horizon, defaults or TenantLimits()),
        ArchiveStore(operator),
        gateway,
        archived,
        wall,
        echo,
        scripts,
        cast("Describer | None", (callers or {}).get(GRPC)),
        Brokers(
            {kind: one.opening for kind, one in (callers or {}).items() if isinstance(one, MessageCaller)}
        ),
        settings,
    )
