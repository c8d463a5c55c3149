"""Jobs: define, read, control. Every change happens in one transaction that begins by locking the job, so the
planner, other clients and workers see either all of it or nothing."""

from collections.abc import Sequence
from typing import Any, Final
from uuid import UUID

import msgspec

from tocsin.db.pool import Database, Record, Session, columns
from tocsin.db.statements import statement
from tocsin.domain.errors import Conflict, NotFound
from tocsin.domain.ids import ExecutionKey, job_text
from tocsin.domain.instant import MILLISECOND, Instant, parse_span
from tocsin.domain.job import Definition
from tocsin.domain.planning import Plan, plan
from tocsin.domain.policy import Policies
from tocsin.domain.schedule import Schedule, rule_of

CELL: Final = 0
_TAG_SEPARATOR: Final = "\x1f"
_NEAR: Final = 2_500 * MILLISECOND


class NewJob(msgspec.Struct, frozen=True):
    """A checked definition on its way into the database."""

    id: UUID
    tenant_id: int
    shard: int
    definition: Definition
    fire_at: Instant
    """The first fire time: a one-off's only one, a recurring job's cursor."""
    due_at: Instant
    """When a one-off runs: its fire time, or now if that has passed."""


class Cancelled(msgspec.Struct, frozen=True):
    """What a cancellation did: executions called off, and running ones asked to stop."""

    cancelled: int
    asked_to_stop: int


class JobFilter(msgspec.Struct, frozen=True):
    """What a listing is narrowed to."""

    state: str | None = None
    kind: str | None = None
    queue: str | None = None
    tag: str | None = None
    name: str | None = None


class JobStore:
    """Jobs of all tenants; every method names the tenant it acts for."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def define(self, jobs: Sequence[NewJob], now: Instant) -> set[UUID]:
        """Write jobs in one statement. Returns those refused because their name is taken."""
        rows = await self._database.fetch(
            _sql("define_jobs"), CELL, *columns([_row(job) for job in jobs], 15), _notice(jobs, now)
        )
        return {row["id"] for row in rows if row["id"] is not None}

    async def get(self, tenant_id: int, job_id: UUID) -> Record:
        """One job as the API shows it."""
        row = await self._database.fetchrow(
            f"{_sql('job_columns')} WHERE j.cell = $1 AND j.id = $2 AND j.tenant_id = $3",
            CELL,
            job_id,
            tenant_id,
        )
        if row is None:
            raise _no_job(job_id)
        return row

    async def list(self, tenant_id: int, where: JobFilter, before: UUID | None, limit: int) -> list[Record]:
        """A page, newest first, of jobs older than `before`."""
        return await self._database.fetch(
            f"""SELECT * FROM ({_sql("job_columns")}
                WHERE j.tenant_id = $1 AND ($2::uuid IS NULL OR j.id < $2)
                  AND ($3::text IS NULL OR j.kind = $3) AND ($4::text IS NULL OR j.queue = $4)
                  AND ($5::text IS NULL OR j.tags @> ARRAY[$5]) AND ($6::text IS NULL OR strpos(lower(j.name), lower($6)) > 0)
                ORDER BY j.id DESC) AS page
                WHERE $7::text IS NULL OR state = $7 LIMIT $8""",  # noqa: S608 - no user text in the statement
            tenant_id,
            before,
            where.kind,
            where.queue,
            where.tag,
            where.name,
            where.state,
            limit,
        )

    async def cancel(self, tenant_id: int, job_id: UUID, reason: str) -> Cancelled:
        """End a job: nothing of it starts any more once this returns."""
        async with self._database.transaction() as session:
            job = await _lock(session, tenant_id, job_id)
            if job["state"] in ("completed", "cancelled"):
                raise _wrong_state("cancel", job)
            done = await _call_off(session, job_id, reason)
            if job["kind"] == "once" and done == Cancelled(0, 0) and job["next_fire_at"] is None:
                raise Conflict("cannot cancel: the job has already completed")
            await session.execute(
                "UPDATE jobs SET state = 'cancelled', state_reason = $3, next_fire_at = NULL, version = version + 1,"
                " updated_at = tocsin_now() WHERE cell = $1 AND id = $2",
                CELL,
                job_id,
                reason,
            )
            return done

    async def delete(self, tenant_id: int, job_id: UUID) -> Cancelled:
        """Remove a job. Its history stays until retention takes it."""
        async with self._database.transaction() as session:
            await _lock(session, tenant_id, job_id)
            done = await _call_off(session, job_id, "job deleted")
            await session.execute("DELETE FROM jobs WHERE cell = $1 AND id = $2", CELL, job_id)
            return done

    async def pause(self, tenant_id: int, job_id: UUID, reason: str | None) -> int:
        """Hold a job's fires. Returns how many planned executions were taken back out of the queue."""
        async with self._database.transaction() as session:
            job = await _lock(session, tenant_id, job_id)
            if job["state"] != "active":
                raise _wrong_state("pause", job)
            held = [row["fire_at"] for row in await session.fetch(_sql("hold_executions"), CELL, job_id)]
            if job["kind"] == "once" and not held:
                raise Conflict("cannot pause: the job's only execution has already started")
            known = [*held, job["next_fire_at"]] if job["next_fire_at"] is not None else held
            await session.execute(
                "UPDATE jobs SET state = 'paused', state_reason = $3, next_fire_at = $4, fire_count = fire_count - $5,"
                " version = version + 1, updated_at = tocsin_now() WHERE cell = $1 AND id = $2",
                CELL,
                job_id,
                reason,
                min(known) if known else None,
                len(held) if job["kind"] == "recurring" else 0,
            )
            return len(held)

    async def resume(self, tenant_id: int, job_id: UUID, now: Instant) -> Plan:
        """Let a paused job fire again. What it missed meanwhile goes by its misfire policy, at once."""
        async with self._database.transaction() as session:
            job = await _lock(session, tenant_id, job_id)
            if job["state"] != "paused":
                raise _wrong_state("resume", job)
            done = _plan_of_resume(job, now)
            await session.execute(
                "UPDATE jobs SET state = CASE WHEN kind = 'recurring' AND $3::timestamptz IS NULL THEN 'completed'"
                " ELSE 'active' END, state_reason = NULL, paused_until = NULL,"
                " next_fire_at = $3, fire_count = fire_count + $4, version = version + 1, updated_at = tocsin_now()"
                " WHERE cell = $1 AND id = $2",
                CELL,
                job_id,
                done.cursor,
                len(done.fires),
            )
            for fire in done.fires:
                cause = "catch_up" if fire.late and job["kind"] == "recurring" else "schedule"
                await session.fetchrow(_sql("add_execution"), CELL, job_id, fire.at, cause)
            await _record_skips(session, job, done)
            await session.execute("SELECT pg_notify('tocsin', 'plan ready')")
            return done

    async def run(self, tenant_id: int, job_id: UUID, now: Instant) -> ExecutionKey:
        """Fire a job now, whatever its schedule says."""
        async with self._database.transaction() as session:
            job = await _lock(session, tenant_id, job_id)
            if job["state"] == "cancelled":
                raise _wrong_state("run", job)
            fire_at = now
            while await session.fetchrow(_sql("add_execution"), CELL, job_id, fire_at, "manual") is None:
                fire_at += 1  # that very microsecond is taken
            await session.execute("SELECT pg_notify('tocsin', 'ready')")
            return ExecutionKey(job_id, fire_at)


async def _call_off(session: Session, job_id: UUID, reason: str) -> Cancelled:
    row = await session.fetchrow(_sql("cancel_executions"), CELL, job_id, None, reason)
    asked = await session.fetch(_sql("ask_to_stop"), CELL, job_id, None)
    if asked:
        await session.execute("SELECT pg_notify('tocsin', 'stop')")
    return Cancelled(row["cancelled"] if row else 0, len(asked))


async def _record_skips(session: Session, job: Record, done: Plan) -> None:
    for skip in done.skips:
        await session.execute(
            "INSERT INTO history (cell, job_id, fire_at, fire_until, fire_count, tenant_id, queue, priority, cause,"
            " state, due_at, run_at, finished_at, attempt, reason)"
            " VALUES ($1, $2, $3, $4, $5, $6, $7, $8, 'schedule', 'skipped', $3, $3, tocsin_now(), 1, $9)",
            CELL,
            job["id"],
            skip.first,
            skip.last,
            skip.count,
            job["tenant_id"],
            job["queue"],
            job["priority"],
            skip.reason,
        )


def _plan_of_resume(job: Record, now: Instant) -> Plan:
    """What resuming at `now` fires and skips; the planner goes on from the cursor."""
    schedule = msgspec.json.decode(job["schedule"], type=Schedule)
    policies = msgspec.json.decode(job["policies"], type=Policies)
    left = None if schedule.max_fires is None else schedule.max_fires - job["fire_count"]
    cursor = job["next_fire_at"]
    if cursor is None:
        return Plan([], [], None)
    until = cursor if job["kind"] == "once" else now
    return plan(
        rule_of(schedule), cursor, misfire=policies.misfire, fires_left=left, live_from=now, until=until
    )


async def _lock(session: Session, tenant_id: int, job_id: UUID) -> Record:
    row = await session.fetchrow(_sql("lock_job"), CELL, job_id, tenant_id)
    if row is None:
        raise _no_job(job_id)
    return row


def _row(job: NewJob) -> tuple[Any, ...]:
    definition = job.definition
    start_within = definition.policies.start_within
    start_by = None if start_within is None else job.due_at + parse_span(start_within, "start_within")
    return (
        job.id,
        job.tenant_id,
        job.shard,
        definition.kind,
        definition.name,
        definition.description,
        _TAG_SEPARATOR.join(definition.tags),
        definition.queue,
        definition.priority,
        msgspec.json.encode(definition.schedule).decode(),
        msgspec.json.encode(definition.target).decode(),
        msgspec.json.encode(definition.policies).decode(),
        job.fire_at,
        job.due_at,
        start_by,
    )


def _notice(jobs: Sequence[NewJob], now: Instant) -> str | None:
    """One wake-up for the whole batch, and only if something is due before workers look by themselves."""
    words = set()
    for job in jobs:
        if job.definition.kind == "recurring":
            words.add("plan")
        elif job.due_at <= now + _NEAR:
            words.add("ready")
    return " ".join(sorted(words)) or None


def _no_job(job_id: UUID) -> NotFound:
    return NotFound(f"no job {job_text(job_id)}")


def _wrong_state(action: str, job: Record) -> Conflict:
    return Conflict(f"cannot {action} a job that is {job['state']}")


def _sql(name: str) -> str:
    return statement("tocsin.store", name)
