"""What handlers work with."""

import msgspec

from tocsin.api.auth import Authenticator
from tocsin.api.entrance import ANY_HOST, Doors, Entrance
from tocsin.api.fresh import Fresh
from tocsin.api.intake import Intake
from tocsin.api.pulse import Pulse
from tocsin.api.quota import PendingJobs
from tocsin.api.throttle import Throttle
from tocsin.clock import Clock
from tocsin.db.pool import Database
from tocsin.domain.addresses import AddressPolicy
from tocsin.domain.limits import TenantLimits
from tocsin.domain.sealing import SecretBox
from tocsin.store.audit import AuditStore
from tocsin.store.backfills import BackfillStore
from tocsin.store.calendars import CalendarStore
from tocsin.store.control.cancelling import Cancelling
from tocsin.store.control.changing import Changing
from tocsin.store.control.firing import Firing
from tocsin.store.control.pausing import Pausing
from tocsin.store.executions import ExecutionStore
from tocsin.store.jobs import JobStore
from tocsin.store.keys import KeyStore
from tocsin.store.leases import LeaseStore
from tocsin.store.repeats import RepeatStore
from tocsin.store.resealing import Resealing
from tocsin.store.secrets import SecretStore
from tocsin.store.sessions import SessionStore
from tocsin.store.stats import StatsStore
from tocsin.store.tenants import TenantStore
from tocsin.store.webhook_secrets import WebhookSecretStore
from tocsin.telemetry import Telemetry


class Context(msgspec.Struct, frozen=True):
    """The API's stores and services.

    Those over the API's own connections see the tenant that a call acts for; `tenants`, `keys`, `resealing` and `whole_audit`
    are over the operator's, which see all, and are only for endpoints that ask for the `admin` scope. `sessions` is, too: it is
    asked by the hash of what a browser holds, before anybody knows for whom.
    """

    database: Database
    clock: Clock
    telemetry: Telemetry
    policy: AddressPolicy
    shard_count: int
    jobs: JobStore
    cancelling: Cancelling
    pausing: Pausing
    changing: Changing
    firing: Firing
    calendars: CalendarStore
    backfills: BackfillStore
    executions: ExecutionStore
    repeats: RepeatStore
    leases: LeaseStore
    intake: Intake
    authenticator: Authenticator
    entrance: Entrance
    stats: StatsStore
    fresh: Fresh
    pulse: Pulse
    sessions: SessionStore
    throttle: Throttle
    pending: PendingJobs
    audit: AuditStore
    whole_audit: AuditStore
    tenants: TenantStore
    keys: KeyStore
    secrets: SecretStore
    webhook_secrets: WebhookSecretStore
    resealing: Resealing
    wall: str | None = None
    """Why row-level security does not protect this process, if it does not."""
    echo: bool = False
    """Whether `/v1/echo` answers."""


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
) -> Context:
    """Everything over one database. `operator` is a way into it that sees all tenants, if `database` does not; `patience`
    is how many seconds a creation waits in line."""
    operator, stats = operator or database, StatsStore(database)
    jobs, tenants, sessions = JobStore(database), TenantStore(operator), SessionStore(operator)
    authenticator = Authenticator(KeyStore(database), tenants, clock, defaults or TenantLimits(), sessions)
    return Context(
        database,
        clock,
        telemetry,
        policy,
        shard_count,
        jobs,
        Cancelling(database),
        Pausing(database, horizon),
        Changing(database, horizon),
        Firing(database),
        CalendarStore(database),
        BackfillStore(database),
        ExecutionStore(database),
        RepeatStore(database),
        LeaseStore(database, lease_ttl),
        Intake(jobs, clock, patience),
        authenticator,
        Entrance(authenticator, doors),
        stats,
        Fresh(),
        Pulse(stats, clock),
        sessions,
        Throttle(clock),
        PendingJobs(tenants, clock, horizon),
        AuditStore(database),
        AuditStore(operator),
        tenants,
        KeyStore(operator),
        SecretStore(database, box),
        WebhookSecretStore(database, box),
        Resealing(operator, box),
        wall,
        echo,
    )
