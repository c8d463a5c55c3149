"""The two halves of an engine: the scheduler's background parts, and a worker with the targets that it can
call.

`tocsin engine` runs both in one process, `tocsin scheduler` and `tocsin worker` one each. A new background
part is one line in `scheduler_loops`, a new kind of target one line in
`roles/callers.py`.
"""

from typing import Any, Final

from tocsin.domain.cells import CELL
from tocsin.queue.attempt_log import attempt_log
from tocsin.queue.claiming.entered_lanes import EnteredLanes
from tocsin.queue.claiming.unused_lanes import UnusedLanes
from tocsin.queue.holder import Holder
from tocsin.queue.queue import open_queue
from tocsin.queue.reclaiming.reclaiming import Reclaiming
from tocsin.queue.slots.healing import Healing
from tocsin.roles.archive import archived_days, make_archiver, place_of
from tocsin.roles.callers import make_callers
from tocsin.roles.joining import Membership
from tocsin.roles.process import Process
from tocsin.scheduler.alert_keeper import AlertKeeper
from tocsin.scheduler.backfiller import Backfiller
from tocsin.scheduler.clock_watch import ClockWatch
from tocsin.scheduler.forecaster import Forecaster
from tocsin.scheduler.forgetter import Forgetter
from tocsin.scheduler.lane_remover import LaneRemover
from tocsin.scheduler.leaser import Leases
from tocsin.scheduler.login_keeper import LoginKeeper
from tocsin.scheduler.operations import Operations
from tocsin.scheduler.planner import Planner
from tocsin.scheduler.queue_keeper import QueueKeeper
from tocsin.scheduler.reclaimer import Reclaimer
from tocsin.scheduler.resumer import Resumer
from tocsin.scheduler.retention import Retention
from tocsin.scheduler.tally_keeper import TallyKeeper
from tocsin.service import Loop
from tocsin.store.acting import Acting
from tocsin.store.alert_courses import AlertCourses
from tocsin.store.alert_sources import AlertSources
from tocsin.store.backfills import BackfillStore
from tocsin.store.control.pausing import Pausing
from tocsin.store.foreseeing import Foreseeing
from tocsin.store.forgetting import ForgettingStore
from tocsin.store.gathering import Gathering
from tocsin.store.history import HistoryStore
from tocsin.store.logins import LoginStore
from tocsin.store.misfires import MisfireStore
from tocsin.store.plans import PlanStore
from tocsin.store.queues import QueueStore
from tocsin.store.rewinding import Rewinding
from tocsin.store.tallies import TallyStore
from tocsin.store.unread import Unread
from tocsin.worker.tallies import Tallies
from tocsin.worker.worker import Worker

ENGINE: Final = ("scheduler", "worker")
_BACKLOG_FIRST: Final = 5.0
"""Seconds that housekeeping leaves to what became due while no engine ran."""


def scheduler_loops(process: Process, member: Membership, leases: Leases) -> list[Loop]:
    """Everything that plans and tidies; nothing of it runs yet."""
    settings, database, telemetry = process.settings, member.database, process.telemetry
    planner = _planner(process, member, leases)
    planning = Loop(planner, process.clock)
    backfiller = Backfiller(BackfillStore(database, Unread("backfill", telemetry)), leases)
    backfilling = Loop(backfiller, process.clock)
    pausing = Pausing(database, settings.horizon)
    resumer = Resumer(pausing, leases, Unread("pause", telemetry))
    resuming = Loop(resumer, process.clock)
    member.notices.on("plan", planning.wake)
    member.notices.on("backfill", backfilling.wake)
    member.notices.on("pauses", resuming.wake)
    keeping = Loop(QueueKeeper(QueueStore(database), leases), process.clock)
    member.notices.on("queues", keeping.wake)
    acting = Acting(database, settings.horizon, process.failpoints)
    operating = Loop(Operations(acting, Gathering(database, process.failpoints)), process.clock)
    member.notices.on("operation", operating.wake)
    forecaster = Forecaster(Foreseeing(database, member.node_id), leases, process.clock, telemetry)
    forecasting = Loop(forecaster, process.clock, first_after=_BACKLOG_FIRST)
    member.notices.on("plan", forecaster.jobs_changed)
    member.notices.on("plan", forecasting.wake)
    alerting = Loop(_alert_keeper(process, member, leases), process.clock, first_after=_BACKLOG_FIRST)
    member.notices.on("alerts", alerting.wake)
    services: list[Any] = [
        Reclaimer(
            Reclaiming(database, CELL),
            Healing(database, CELL),
            leases,
            telemetry,
            process.failpoints,
            claim_ttl=settings.claim_ttl,
            pause_lost=pausing.pause_lost,
            attempts=attempt_log(settings.log_attempts, settings.log_share),
        ),
        ClockWatch(process.clock, Rewinding(database, settings.lease_ttl), leases, planning.wake),
        LoginKeeper(
            LoginStore(database, settings.horizon, settings.tenant_limits),
            EnteredLanes(database, CELL),
            leases,
            process.clock,
        ),
        Retention(
            HistoryStore(database, archived_days(process, database)),
            member.lease_store,
            leases,
            settings.history_days,
            settings.audit_days,
        ),
    ]
    housekeeping: list[Any] = [
        LaneRemover(UnusedLanes(database, CELL), leases),
        TallyKeeper(TallyStore(database), leases),
        Forgetter(
            ForgettingStore(database, settings.history_days, settings.audit_days), leases, process.clock
        ),
    ]
    if (place := place_of(settings)) is not None:
        housekeeping.append(make_archiver(process, database, leases, place))
    return [
        planning,
        backfilling,
        resuming,
        keeping,
        operating,
        forecasting,
        alerting,
        *(Loop(service, process.clock) for service in services),
        *(Loop(service, process.clock, first_after=_BACKLOG_FIRST) for service in housekeeping),
    ]


async def make_worker(process: Process, member: Membership) -> Worker:
    """A worker that hears notices; nothing of it runs yet."""
    settings, database = process.settings, member.database
    callers, owners = make_callers(process, database), {}
    if process.tasks is not None:
        callers = {**callers, **await process.tasks.open(process, database)}
        owners = dict.fromkeys(process.tasks.routes, process.tasks.tenant_id)
    starting = await process.open("start", size=1, pinned=True)
    worker = Worker(
        open_queue(
            database,
            Holder(member.node_id),
            cell=CELL,
            claim_ttl=settings.claim_ttl,
            routes=callers,
            queues=settings.queues,
            owners=owners,
            starts=starting,
        ),
        callers,
        process.clock,
        settings,
        process.telemetry,
        process.failpoints,
        node_id=member.node_id,
        misfires=MisfireStore(database),
        control=Pausing(database, settings.horizon),
        tallies=Tallies(TallyStore(database, member.node_id), process.clock, process.telemetry),
    )
    process.telemetry.places.set(settings.concurrency)
    worker.listen(member.notices)
    return worker


def _alert_keeper(process: Process, member: Membership, leases: Leases) -> AlertKeeper:
    settings, database = process.settings, member.database
    sources = AlertSources(database, settings.horizon, settings.tenant_limits)
    return AlertKeeper(AlertCourses(database, member.node_id), sources, leases, process.clock)


def _planner(process: Process, member: Membership, leases: Leases) -> Planner:
    return Planner(
        PlanStore(member.database, member.node_id, Unread("job", process.telemetry)),
        leases,
        horizon=process.settings.horizon,
        wake_within=process.settings.claim_ahead,
        telemetry=process.telemetry,
        failpoints=process.failpoints,
    )
