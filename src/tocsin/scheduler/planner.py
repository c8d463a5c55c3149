"""Turns recurring jobs into executions, a little ahead of their fire times.

The planner reads the jobs of its shards whose cursor lies within the horizon, decides with `domain.planning`
what each becomes, and writes all of it in one fenced statement. Nothing is kept in memory between runs: the
cursor is the state, so a crash at any point loses nothing and repeats nothing. A write that finds its lease
gone, or a job changed meanwhile, has no effect on that job, and the node that holds the shard now reads it
afresh.
"""

import asyncio
from collections import Counter
from collections.abc import Hashable, Sequence
from typing import Final
from uuid import UUID

import msgspec
import structlog

from tocsin.domain.blackout import Range
from tocsin.domain.errors import OwnershipLost, Refused, Unreadable
from tocsin.domain.ids import job_text
from tocsin.domain.instant import MINUTE, SECOND, Instant, Span
from tocsin.domain.misfire import Missed
from tocsin.domain.planning import Plan, Terms, plan_in_slices, terms_of
from tocsin.domain.schedule import rule_of
from tocsin.failpoints import Failpoints
from tocsin.scheduler.leaser import Leases
from tocsin.service import AGAIN_NOW, Report
from tocsin.store.calendars import Calendars
from tocsin.store.plans import DueJob, PlanStore
from tocsin.telemetry import Telemetry

_BATCH: Final = 2000
_MOST_FIRES: Final = 5000
_DECIDED_PER_TURN: Final = 500  # fire times that are decided in a few milliseconds
_LATE: Final = MINUTE
"""Jobs whose cursor lies further back than this are read after all others."""
_LATE_REST: Final = 20
"""After a search for late jobs finds nothing, wait this many times its duration before searching again. A
search may take seconds: every fire since the oldest open transaction began has left a dead row to walk
over."""
_LONGEST_REST: Final = 60.0
_log = structlog.get_logger()


class Planner:
    """Plans the shards that this node leases."""

    name = "planner"
    interval = 5.0

    def __init__(
        self,
        store: PlanStore,
        leases: Leases,
        *,
        horizon: float,
        wake_within: float,
        telemetry: Telemetry,
        failpoints: Failpoints,
    ) -> None:
        self._store = store
        self._leases = leases
        self._horizon: Span = round(horizon * SECOND)
        self._wake_within: Span = round(wake_within * SECOND)
        self._telemetry = telemetry
        self._failpoints = failpoints
        self._late_leases: dict[int, int] = {}
        """Those under which late jobs were last looked for."""
        self._rests_until = 0.0

    async def run_once(self, now: Instant) -> Report:
        """Plan what came within the horizon; says at once when there is more."""
        leases = dict(self._leases.trusted())
        if not leases:
            return Report()
        per_shard = max(1, _BATCH // len(leases))
        noted = self._store.unread.noted
        due = await self._due(leases, now, per_shard)
        if not due:
            return Report(again_at=AGAIN_NOW if self._store.unread.noted > noted else None)
        await self._failpoints.reach("planner.read")
        missed = await self._missed(due, now)
        plans = await self._decide(due, await self._store.calendars(due), missed, now)
        if plans:
            await self._write(leases, plans, now)
        unfinished = any(plan.cursor is not None and plan.cursor <= now + self._horizon for _, plan in plans)
        passed_over = self._store.unread.noted > noted
        cut_off = max(Counter(job.shard for job in due).values()) >= per_shard
        full = len(plans) < len(due) or cut_off or unfinished or passed_over
        return Report(done=len(plans), again_at=AGAIN_NOW if full else None)

    async def _due(self, leases: dict[int, int], now: Instant, per_shard: int) -> list[DueJob]:
        """Jobs that came within the horizon, and unless it is too soon for that those that are late."""
        loop = asyncio.get_running_loop()
        began, live_from = loop.time(), now - _LATE
        late, found = began >= self._rests_until or leases != self._late_leases, False
        try:
            due = await self._store.due(sorted(leases), now + self._horizon, per_shard, live_from, late=late)
            found = any(job.cursor < live_from for job in due)
        finally:  # one that takes too long and is given up must not be all that is tried from then on
            if late:
                self._late_leases = leases
                rest = min(_LATE_REST * (loop.time() - began), _LONGEST_REST)
                self._rests_until = began if found else loop.time() + rest
        return due

    async def _missed(self, due: list[DueJob], now: Instant) -> dict[UUID, list[Missed]]:
        """What was planned for those jobs that are behind, and has been missed."""
        behind = [job.id for job in due if _is_behind(job, now)]
        return await self._store.missed(behind) if behind else {}

    async def _decide(
        self, due: list[DueJob], calendars: Calendars, missed: dict[UUID, list[Missed]], now: Instant
    ) -> list[tuple[DueJob, Plan]]:
        """Plans for as many jobs as fit into one write.

        The same process fires what is due: others have their turn every few milliseconds, however much there
        is to catch up. A herd of equal jobs is planned once.
        """
        plans: list[tuple[DueJob, Plan]] = []
        known: dict[Hashable, Plan] = {}
        fires = since_turn = 0
        for job in due:
            decided, fresh = await self._decide_one(job, calendars, missed.get(job.id, ()), known, now)
            if decided is None:
                continue
            since_turn += fresh
            plans.append((job, decided))
            fires += len(decided.fires)
            if fires >= _MOST_FIRES:
                break
            if since_turn >= _DECIDED_PER_TURN:
                await asyncio.sleep(0)
                since_turn = 0
        return plans

    async def _decide_one(
        self,
        job: DueJob,
        calendars: Calendars,
        missed: Sequence[Missed],
        known: dict[Hashable, Plan],
        now: Instant,
    ) -> tuple[Plan | None, int]:
        """The plan of one job and how many fire times were decided for it; none if it has to be left to newer
        nodes. A defect that shows with one job is that job's: it is passed over for a while, and its shard
        goes on."""
        try:
            terms = self._terms(job, calendars, missed)
            alike = (job.schedule, job.cursor, terms.misfire, terms.fires_left, terms.offset, terms.planned)
            decided = None if job.schedule.exclude else known.get(alike)
            if decided is not None:
                return decided, 0
            decided = known[alike] = await self._plan(job, terms, now)
        except Refused as error:
            self._pass_over(job, error.detail, now)
        except Exception as error:  # noqa: BLE001 - see above
            _log.error("planner.job_failed", job=job_text(job.id), exc_info=error)
            self._pass_over(job, repr(error), now)
        else:
            return decided, decided.decided
        return None, 0

    def _pass_over(self, job: DueJob, why: str, now: Instant) -> None:
        self._store.unread.note(job.id, job.version, why, now + self._horizon)

    def _terms(self, job: DueJob, calendars: Calendars, missed: Sequence[Missed]) -> Terms:
        ranges: list[Range] = []
        for name in job.schedule.calendars:
            found = calendars.get((job.tenant_id, name), ())
            if isinstance(found, Unreadable):
                raise found
            ranges += found
        terms = terms_of(job.schedule, job.policies, job.id, job.fire_count, ranges)
        return msgspec.structs.replace(terms, planned=tuple(missed)) if missed else terms

    async def _plan(self, job: DueJob, terms: Terms, now: Instant) -> Plan:
        until = now + self._horizon
        slices = plan_in_slices(rule_of(job.schedule), job.cursor, terms, now=now, until=until)
        decided = next(slices)
        for further in slices:
            decided = further
            await asyncio.sleep(0)
        return decided

    async def _write(self, leases: dict[int, int], plans: list[tuple[DueJob, Plan]], now: Instant) -> None:
        near = now + self._wake_within
        wake = any(fire.due_at <= near for _, decided in plans for fire in decided.fires)
        await self._failpoints.reach("planner.before_write")
        written = await self._store.write(leases, plans, wake=wake)
        await self._failpoints.reach("planner.written")
        shards = len({job.shard for job, _ in plans})
        self._telemetry.planned.inc(written.planned)
        self._telemetry.duplicates_rejected.inc(
            sum(len(decided.fires) for _, decided in plans) - written.planned
            if written.moved == len(plans)
            else 0
        )
        if written.own < shards:
            self._telemetry.stale_writes.labels("plan").inc(shards - written.own)
            self._leases.drop()
            raise OwnershipLost(f"{shards - written.own} of {shards} leases had passed to other nodes")


def _is_behind(job: DueJob, now: Instant) -> bool:
    try:
        return job.cursor < job.policies.misfire.live_from(now)
    except Refused:  # its plan will fail for the same reason, and only its own
        return False
