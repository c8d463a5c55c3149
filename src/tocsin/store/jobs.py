"""Jobs: define, read. Lists of them are in `job_listing`, changes to a job that exists in `control`."""

from collections.abc import Collection, Sequence
from functools import lru_cache
from typing import Any, Final, TypeAlias
from uuid import UUID

import msgspec

from tocsin.db.pool import Database, Record, Session, acting_tenants
from tocsin.db.rows import arrays
from tocsin.db.statements import named
from tocsin.domain.audit import Origin
from tocsin.domain.cells import CELL
from tocsin.domain.errors import Conflict, NotFound, Refused
from tocsin.domain.ids import job_text
from tocsin.domain.instant import MILLISECOND, Instant
from tocsin.domain.job import Definition
from tocsin.domain.policy import Policies
from tocsin.store.repeats import Once, leave_keys, take_keys
from tocsin.store.statements import sql

TAG_SEPARATOR: Final = "\x1f"
_NEAR: Final = 2_500 * MILLISECOND
_FIRST_ANSWER: Final = "SELECT request_hash, answer FROM idempotency WHERE tenant_id = $1 AND key = $2"
_NOBODY: Final = (None, None, None, None)
_DEFINE = named("tocsin.store", "define_jobs")
_ORIGIN: Final = ("actors", "request_ids", "addresses", "vias")
_COLUMNS: Final = (
    "ids",
    "tenant_ids",
    "shards",
    "kinds",
    "names",
    "descriptions",
    "tags",
    "queues",
    "priorities",
    "schedules",
    "targets",
    "policies",
    "fire_ats",
    "due_ats",
    "start_bys",
    *_ORIGIN,
    "created_ats",
)
"""What `define_jobs` takes of each job."""
_NULLABLE: Final = frozenset({"names", "descriptions", "tags", "due_ats", "start_bys", *_ORIGIN})


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
    origin: Origin | None = None
    """Who creates it, for the audit log."""
    created_at: Instant = 0
    """When the caller was told it was created; 0: when it is written."""


Keyed: TypeAlias = tuple[NewJob, Once | None]
"""A job and the idempotency key that it is created under."""


class JobStore:
    """Jobs of all tenants; every method names the tenant it acts for."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def define(self, jobs: Sequence[NewJob], now: Instant, *, one_request: bool = False) -> set[UUID]:
        """Write jobs in one statement. Returns those refused because their name is taken. Jobs of one request
        are one entry in the audit log."""
        return await _define(self._database, jobs, now, one_request=one_request)

    async def define_under(self, jobs: Sequence[Keyed], now: Instant) -> set[UUID]:
        """Write jobs of one request, each under its idempotency key if it has one. Returns those whose names
        are taken; `Repeated` if a key is, and then nothing was written."""
        if not any(once for _, once in jobs):
            return await _define(self._database, [job for job, _ in jobs], now, one_request=True)
        async with self._database.transaction() as session:
            return await _define_under(session, jobs, now)

    async def define_all(self, batches: Sequence[Sequence[Keyed]], now: Instant) -> set[UUID]:
        """Write all jobs or none: returns those whose names are taken, and then nothing was written."""
        try:
            async with self._database.transaction() as session:
                for batch in batches:
                    if refused := await _define_under(session, batch, now):
                        raise _TakenNames(refused)
        except _TakenNames as taken:
            return taken.ids
        return set()

    async def define_once(
        self, job: NewJob, key: str, request_hash: bytes, answer: str, now: Instant
    ) -> str | None:
        """Write a job under an idempotency key. Returns the first answer if the key was used before."""
        async with self._database.transaction() as session:
            taken = (job.tenant_id, key, request_hash, job.id, answer)
            if await session.fetchrow(sql("idempotent_key"), *taken) is not None:
                if await _define(session, [job], now):
                    raise name_taken(job.definition)
                return None
        return await self.known_answer(job.tenant_id, key, request_hash)

    async def known_answer(self, tenant_id: int, key: str, request_hash: bytes) -> str:
        """The answer to the first request with this idempotency key, which was carried out just now."""
        return _same_request(await self._database.one(_FIRST_ANSWER, tenant_id, key), request_hash)

    async def first_answer(self, tenant_id: int, key: str, request_hash: bytes) -> str | None:
        """The answer to the first request with this idempotency key, if there was one that still counts."""
        row = await self._database.fetchrow(f"{_FIRST_ANSWER} AND expires_at > tocsin_now()", tenant_id, key)
        return None if row is None else _same_request(row, request_hash)

    async def planned(
        self, tenant_id: int, job_id: UUID, after: Instant
    ) -> tuple[Instant | None, list[Instant]]:
        """The first fire time of a recurring job that is not planned yet, and when those run that are and
        have a fire time after `after`."""
        rows = await self._database.fetch(
            "SELECT j.next_fire_at, e.due_at FROM jobs j LEFT JOIN executions e ON e.cell = j.cell AND e.job_id = j.id"
            " AND e.cause = 'schedule' AND e.started_at IS NULL AND e.attempt = 1 AND e.fire_at > $4"
            " WHERE j.cell = $1 AND j.id = $2 AND j.tenant_id = $3 ORDER BY e.fire_at",
            CELL,
            job_id,
            tenant_id,
            after,
        )
        cursor = rows[0]["next_fire_at"] if rows else None
        return cursor, [row["due_at"] for row in rows if row["due_at"] is not None]

    async def by_name(self, tenant_id: int, name: str) -> UUID | None:
        """The recurring job that has the name: one that can still fire."""
        row = await self._database.fetchrow(
            "SELECT id FROM jobs WHERE cell = $1 AND tenant_id = $2 AND name = $3 AND kind = 'recurring'"
            " AND state IN ('active', 'paused')",
            CELL,
            tenant_id,
            name,
        )
        return None if row is None else row["id"]

    async def names(self, tenant_id: int, job_ids: Collection[UUID]) -> dict[UUID, str]:
        """The names of jobs that have one, by primary key."""
        if not job_ids:
            return {}
        rows = await self._database.fetch(
            "SELECT id, name FROM jobs WHERE cell = $1 AND id = ANY ($2::uuid[]) AND tenant_id = $3 AND name IS NOT NULL",
            CELL,
            list(job_ids),
            tenant_id,
        )
        return {row["id"]: row["name"] for row in rows}

    async def get(self, tenant_id: int, job_id: UUID) -> Record:
        """One job as the API shows it."""
        row = await self._database.fetchrow(
            f"{sql('job_columns')} WHERE j.cell = $1 AND j.id = $2 AND j.tenant_id = $3",
            CELL,
            job_id,
            tenant_id,
        )
        if row is None:
            raise no_job(job_id)
        return row


async def define_within(session: Session, jobs: Sequence[NewJob], now: Instant) -> None:
    """Write one-offs in a transaction that does something else, too."""
    await _define(session, jobs, now)


class _TakenNames(Exception):
    def __init__(self, ids: set[UUID]) -> None:
        super().__init__()
        self.ids = ids


async def _define(
    session: Session, jobs: Sequence[NewJob], now: Instant, *, one_request: bool = False
) -> set[UUID]:
    given = arrays(_COLUMNS, [_row(job, now) for job in jobs])
    given = {name: _shortened(column, nullable=name in _NULLABLE) for name, column in given.items()}
    if one_request:
        given |= {name: given[name][:1] for name in _ORIGIN}
    # A request's own tenant, so that the policies judge the jobs by it; the jobs' tenants where many share a
    # batch.
    tenants = acting_tenants() or ",".join(map(str, sorted({job.tenant_id for job in jobs})))
    rows = await session.fetch(
        *_DEFINE.given(
            cell=CELL, **given, notice=_notice(jobs, now), tenants=tenants, one_request=one_request
        )
    )
    return {row["id"] for row in rows if row["id"] is not None}


async def define_in(
    session: Session, jobs: Sequence[NewJob], now: Instant, *, one_request: bool = True
) -> set[UUID]:
    """Write jobs inside a transaction. Returns those whose names are taken."""
    return await _define(session, jobs, now, one_request=one_request)


async def _define_under(session: Session, jobs: Sequence[Keyed], now: Instant) -> set[UUID]:
    """Inside a transaction: keys first, then jobs; the keys of jobs that are refused are free again."""
    keyed = [(once, job.id) for job, once in jobs if once is not None]
    if keyed:
        await take_keys(session, keyed)
    refused = await _define(session, [job for job, _ in jobs], now, one_request=True)
    await leave_keys(session, [once for once, job_id in keyed if job_id in refused])
    return refused


def _shortened(column: list[Any], *, nullable: bool) -> list[Any]:
    """What must be sent of a column: `unnest` fills up with NULL, and the statement, where there can be none,
    with the first value."""
    if nullable:
        return column if any(value is not None for value in column) else []
    return column[:1] if column.count(column[0]) == len(column) else column


def _same_request(row: Record, request_hash: bytes) -> str:
    if row["request_hash"] != request_hash:
        raise Refused("the key was used for another request", field="idempotency_key")
    first: str = row["answer"]
    return first


def name_taken(definition: Definition) -> Conflict:
    """The answer for a recurring job whose name is in use."""
    return Conflict(f"a recurring job named {definition.name!r} exists", field="name", code="name_taken")


def _row(job: NewJob, now: Instant) -> tuple[Any, ...]:
    definition = job.definition
    return (
        job.id,
        job.tenant_id,
        job.shard,
        definition.kind,
        definition.name,
        definition.description,
        TAG_SEPARATOR.join(definition.tags) if definition.tags else None,
        definition.queue,
        definition.priority,
        msgspec.json.encode(definition.schedule).decode(),
        msgspec.json.encode(definition.target).decode(),
        _policies_text(definition.policies),
        job.fire_at,
        None if job.due_at == job.fire_at else job.due_at,
        definition.policies.start_by(job.due_at),
        *(_NOBODY if job.origin is None else _columns_of(job.origin)),
        job.created_at or now,
    )


def _columns_of(origin: Origin) -> tuple[str | None, ...]:
    return origin.actor, origin.request_id, origin.address, origin.via


@lru_cache(maxsize=4096)
def _policies_text(policies: Policies) -> str:
    return msgspec.json.encode(policies).decode()


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
