"""What handlers work with."""

import msgspec

from tocsin.api.auth import Authenticator
from tocsin.api.intake import Intake
from tocsin.clock import Clock
from tocsin.db.pool import Database
from tocsin.domain.addresses import AddressPolicy
from tocsin.store.backfills import BackfillStore
from tocsin.store.calendars import CalendarStore
from tocsin.store.control import JobControl
from tocsin.store.executions import ExecutionStore
from tocsin.store.jobs import JobStore
from tocsin.store.keys import KeyStore
from tocsin.store.leases import LeaseStore
from tocsin.telemetry import Telemetry


class Context(msgspec.Struct, frozen=True):
    """The API's stores and services."""

    database: Database
    clock: Clock
    telemetry: Telemetry
    policy: AddressPolicy
    shard_count: int
    jobs: JobStore
    control: JobControl
    calendars: CalendarStore
    backfills: BackfillStore
    executions: ExecutionStore
    leases: LeaseStore
    intake: Intake
    authenticator: Authenticator


def make_context(
    database: Database,
    clock: Clock,
    telemetry: Telemetry,
    policy: AddressPolicy,
    *,
    shard_count: int,
    lease_ttl: float,
    horizon: float = 30.0,
) -> Context:
    """Everything over one database."""
    jobs = JobStore(database)
    return Context(
        database,
        clock,
        telemetry,
        policy,
        shard_count,
        jobs,
        JobControl(database, horizon),
        CalendarStore(database),
        BackfillStore(database),
        ExecutionStore(database),
        LeaseStore(database, lease_ttl),
        Intake(jobs, clock),
        Authenticator(KeyStore(database), clock),
    )
