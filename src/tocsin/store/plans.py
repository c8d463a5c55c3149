"""What the planner reads and writes."""

from collections.abc import Sequence
from datetime import timedelta
from itertools import chain
from typing import Any, Final
from uuid import UUID

import msgspec

from tocsin.db.pool import Database, Record, Session
from tocsin.db.rows import arrays
from tocsin.db.statements import named
from tocsin.domain.cells import CELL
from tocsin.domain.errors import Unreadable
from tocsin.domain.instant import Instant, format_instant, parse_span
from tocsin.domain.job import CATCH_UP_PRIORITY
from tocsin.domain.misfire import Missed
from tocsin.domain.planning import Fire, Plan, Skip
from tocsin.domain.policy import Policies
from tocsin.domain.schedule import Schedule
from tocsin.domain.stored_job import read_policies, read_schedule
from tocsin.store.calendars import Calendars, ranges_by_calendar
from tocsin.store.misfires import decisions_of, missed_executions, write_decisions
from tocsin.store.unread import Unread

FIRE_COLUMNS: Final = ("fire_ats", "due_ats", "waits", "late", "start_bys", "graces")
"""What statements that plan take of each fire."""
_DUE = named("tocsin.store", "due_jobs")
_WRITE = named("tocsin.store", "write_plan")
_MOVE_COLUMNS: Final = (
    "tenant_ids",
    "job_ids",
    "job_shards",
    "expected",
    "versions",
    "cursors",
    "numbers_of_fires",
)


class DueJob(msgspec.Struct, frozen=True):
    """A recurring job whose cursor came within the horizon."""

    id: UUID
    shard: int
    tenant_id: int
    cursor: Instant
    version: int
    fire_count: int
    schedule: Schedule
    policies: Policies


class Written(msgspec.Struct, frozen=True):
    """How much of a plan took effect. Fewer shards than asked for means that leases were lost."""

    own: int
    moved: int
    planned: int


class PlanStore:
    """Cursors and planned executions of one cell."""

    def __init__(self, database: Database, node_id: int, unread: Unread | None = None) -> None:
        self.unread = unread or Unread("job")
        self._database = database
        self._node_id = node_id

    async def due(
        self,
        shards: Sequence[int],
        until: Instant,
        per_shard: int,
        live_from: Instant = 0,
        *,
        late: bool = True,
    ) -> list[DueJob]:
        """Jobs of these shards whose cursor is not beyond `until`, earliest first in each shard; but those
        whose cursor lies before `live_from` have missed something already, and come after all others, if at
        all. What this version cannot read is noted in `unread`, and passed over by the next looks."""
        unread_ids, unread_versions = self.unread.passed_over(until)
        rows = await self._database.fetch(
            *_DUE.given(
                cell=CELL,
                shards=list(shards),
                until=until,
                per_shard=per_shard,
                live_from=live_from,
                late=late,
                unread_ids=unread_ids,
                unread_versions=unread_versions,
            )
        )
        due = []
        for row in rows:
            try:
                due.append(_due_job(row))
            except Unreadable as error:
                self.unread.note(row["id"], row["version"], error.detail, until)
        return due

    async def calendars(self, jobs: Sequence[DueJob]) -> Calendars:
        """The calendars that these jobs name, by tenant and name; or why one cannot be read."""
        tenants = {job.tenant_id for job in jobs if job.schedule.calendars}
        return await ranges_by_calendar(self._database, sorted(tenants)) if tenants else {}

    async def missed(self, job_ids: Sequence[UUID]) -> dict[UUID, list[Missed]]:
        """What was planned for these jobs and has been missed."""
        return await missed_executions(self._database, job_ids)

    async def write(
        self, leases: dict[int, int], plans: Sequence[tuple[DueJob, Plan]], *, wake: bool
    ) -> Written:
        """Write plans, fenced by the leases' epochs."""
        behind = {job.id: (job, plan) for job, plan in plans if plan.late or plan.dropped}
        if not behind:
            written, _ = await self._write(self._database, leases, plans, [], wake=wake)
            return written
        async with self._database.transaction() as session:
            written, moved = await self._write(session, leases, plans, list(behind), wake=wake)
            decisions = [
                decisions_of(job.id, plan.late, plan.dropped, job.policies.misfire)
                for job, plan in map(behind.__getitem__, moved)
            ]
            await write_decisions(session, chain.from_iterable(decisions))
        return written

    async def _write(
        self,
        session: Database | Session,
        leases: dict[int, int],
        plans: Sequence[tuple[DueJob, Plan]],
        behind: Sequence[UUID],
        *,
        wake: bool,
    ) -> tuple[Written, list[UUID]]:
        """Returns also which of the jobs that are `behind` moved."""
        shards = sorted({job.shard for job, _ in plans})
        moves = arrays(_MOVE_COLUMNS, [_move(job, plan) for job, plan in plans])
        fires = [_fire_row(job, fire) for job, plan in plans for fire in plan.fires]
        row = await session.fetchrow(
            *_WRITE.given(
                cell=CELL,
                node_id=self._node_id,
                shards=shards,
                epochs=[leases[shard] for shard in shards],
                **moves,
                **arrays(("fire_tenant_ids", "fire_job_ids", *FIRE_COLUMNS), fires),
                skips=_skips(plans),
                wake=wake,
                catch_up_priority=CATCH_UP_PRIORITY,
                behind=behind,
            )
        )
        assert row is not None  # noqa: S101 - it always returns a row
        return Written(row["own"], row["moved"], row["planned"]), row["moved_late"] or []


def skip_entry(skip: Skip) -> dict[str, Any]:
    """A skip as statements read it."""
    return {
        "first": format_instant(skip.first),
        "last": format_instant(skip.last),
        "count": skip.count,
        "reason": skip.reason,
    }


def _move(job: DueJob, plan: Plan) -> tuple[Any, ...]:
    return job.tenant_id, job.id, job.shard, job.cursor, job.version, plan.cursor, len(plan.fires)


def _fire_row(job: DueJob, fire: Fire) -> tuple[Any, ...]:
    return job.tenant_id, job.id, *fire_columns(fire, job.policies)


def fire_columns(fire: Fire, policies: Policies) -> tuple[Any, ...]:
    """A fire of a recurring job as statements read it, by `FIRE_COLUMNS`."""
    wait = timedelta(microseconds=fire.wait)
    grace = timedelta(microseconds=parse_span(policies.misfire.grace, "misfire.grace"))
    return fire.at, fire.due_at, wait, fire.late, policies.start_by(fire.due_at), grace


def _skips(plans: Sequence[tuple[DueJob, Plan]]) -> str:
    return msgspec.json.encode(
        [
            {"tenant_id": job.tenant_id, "id": str(job.id)} | skip_entry(skip)
            for job, plan in plans
            for skip in plan.skips
        ]
    ).decode()


def _due_job(row: Record) -> DueJob:
    return DueJob(
        row["id"],
        row["shard"],
        row["tenant_id"],
        row["next_fire_at"],
        row["version"],
        row["fire_count"],
        read_schedule(row["schedule"]),
        read_policies(row["policies"]),
    )
