"""Jobs: define, find, read. Changes to a job that exists are in `control`."""

from collections.abc import Sequence
from typing import Any, Final
from uuid import UUID

import msgspec

from tocsin.db.pool import Database, Record, columns
from tocsin.db.statements import statement
from tocsin.domain.errors import NotFound
from tocsin.domain.ids import job_text
from tocsin.domain.instant import MILLISECOND, Instant, parse_span
from tocsin.domain.job import Definition

CELL: Final = 0
TAG_SEPARATOR: Final = "\x1f"
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
            raise no_job(job_id)
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
        TAG_SEPARATOR.join(definition.tags),
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


def no_job(job_id: UUID) -> NotFound:
    """The answer for an id that names nothing this tenant has."""
    return NotFound(f"no job {job_text(job_id)}")


def _sql(name: str) -> str:
    return statement("tocsin.store", name)
