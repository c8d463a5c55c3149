"""The audit log: who changed what, when, from where. Append-only, in daily partitions.

Entries about a job or an execution are written inside the transaction that changes it, by a watch that
compares it before and after: the log cannot say what did not happen, nor miss what did. Creations are written
by the very statement that creates (`define_jobs`). Whatever is neither is written right after it was done.

A job is named by ``job:<uuid>``: that costs the statement of creations less than the text users know, and is
turned into it when read.
"""

from collections.abc import Sequence
from typing import Any, Final, TypeAlias
from uuid import UUID

import msgspec

from tocsin.db.conditions import Conditions
from tocsin.db.pool import Database, Record, Session
from tocsin.db.rows import arrays
from tocsin.db.statements import named
from tocsin.domain.audit import SYSTEM, Mask, Origin
from tocsin.domain.cells import CELL
from tocsin.domain.ids import ExecutionKey, execution_text, job_text, parse_job_text
from tocsin.domain.instant import MILLISECOND, MINUTE, Instant
from tocsin.store.statements import sql

JOBS_CREATED: Final = "job.create_batch"
_WRITE = named("tocsin.store", "write_audit")
_COLUMNS: Final = (
    "tenant_ids",
    "actors",
    "actions",
    "objects",
    "befores",
    "afters",
    "request_ids",
    "addresses",
    "vias",
)
_JOB: Final = "job:"
_JOB_COLUMNS: Final = (
    "SELECT kind, name, description, tags, queue, priority, schedule, target, policies, state, state_reason, version"
    " FROM jobs WHERE cell = $1 AND id = $2 AND tenant_id = $3"
)
# A creation is written within this time of the instant inside the job's id.
_CREATED_BEFORE: Final = MINUTE
_CREATED_AFTER: Final = 10 * MINUTE
Rows: TypeAlias = list[Record]
WALK: Final = 30_000
WALK_OF_EACH: Final = 500
"""Entries that a page looks at for who did what, of one tenant, and of each where it is of all tenants'."""
_LATEST: Final = "ORDER BY a.at DESC, a.id DESC"


class Entry(msgspec.Struct, frozen=True):
    """Something that was done. `before` and `after` are JSON values without secrets."""

    tenant_id: int | None
    origin: Origin
    action: str
    object: str
    before: Any = None
    after: Any = None


class AuditFilter(msgspec.Struct, frozen=True, kw_only=True):
    """What a listing is narrowed to. The range includes its start and excludes its end."""

    actor: str | None = None
    action: str | None = None
    object: str | None = None
    at_from: Instant | None = None
    at_to: Instant | None = None


class Place(msgspec.Struct, frozen=True, array_like=True):
    """Where a page ended."""

    at: Instant
    id: int


class AuditPage(msgspec.Struct, frozen=True):
    """Entries, and where the next page begins, if there may be one."""

    rows: Rows
    next: Place | None


class AuditStore:
    """Reads and writes the log."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def write(self, *entries: Entry) -> None:
        """Add entries."""
        await write_audit(self._database, entries)

    async def system(
        self,
        action: str,
        object_: str,
        *,
        tenant_id: int | None = None,
        before: Any = None,
        after: Any = None,
    ) -> None:
        """Note what Tocsin did by itself. Without a tenant only operators see it."""
        await self.write(Entry(tenant_id, SYSTEM, action, object_, before, after))

    async def list(
        self, tenant_id: int | None, where: AuditFilter, after: Place | None, limit: int
    ) -> AuditPage:
        """A page of one tenant's entries, or of all tenants' and the system's, latest first."""
        job_id, end = _job_of(where.object), None
        if job_id is not None:
            rows = await self._of_job(job_id, tenant_id, where, after, limit)
        elif where.object is None and (where.actor or where.action):
            rows, end = await self._walk(tenant_id, where, after, limit)
        else:
            rows = await self._page(tenant_id, "true", where, after, limit)
        return AuditPage(rows, _place(rows[-1]) if len(rows) == limit else end)

    async def _of_job(
        self, job_id: UUID, tenant_id: int | None, where: AuditFilter, after: Place | None, limit: int
    ) -> Rows:
        """By object, the index knows all but creations; a job's creation is where its id says, and older than
        the rest."""
        rows = await self._page(tenant_id, "a.action <> 'job.create'", where, after, limit)
        created = (job_id.int >> 80) * MILLISECOND
        first, last = created - _CREATED_BEFORE, created + _CREATED_AFTER
        near = msgspec.structs.replace(
            where, at_from=max(where.at_from or first, first), at_to=min(where.at_to or last, last)
        )
        if len(rows) < limit:
            rows += await self._page(tenant_id, "a.action = 'job.create'", near, after, limit - len(rows))
        if len(rows) < limit:
            listed = f"a.action = '{JOBS_CREATED}' AND a.after -> 'jobs' ? '{job_id}'"
            near = msgspec.structs.replace(near, object=None)
            rows += await self._page(tenant_id, listed, near, after, limit - len(rows))
        return rows

    async def _page(
        self, tenant_id: int | None, only: str, where: AuditFilter, after: Place | None, limit: int
    ) -> Rows:
        inner = _range(where, after)
        _add_others(inner, where)
        return await self._latest(tenant_id, f"{sql('audit_columns')} WHERE {only} AND {{}}", inner, limit)

    async def _walk(
        self, tenant_id: int | None, where: AuditFilter, after: Place | None, limit: int
    ) -> tuple[Rows, Place | None]:
        """What matches among the latest entries, and where that was broken off, if it was: no index knows who
        did what. The last entry that was looked at comes along whether it matches or not; of many tenants the
        first of them ends the page."""
        inner = _range(where, after)
        most = WALK_OF_EACH if tenant_id is None else WALK
        others = Conditions(after=inner) if tenant_id is None else Conditions(after=_with(inner, tenant_id))
        _add_others(others, where)
        newest = f"(SELECT * FROM audit a WHERE {{}} {_LATEST} LIMIT {most}) a"  # noqa: S608
        walked = f"(SELECT a.*, row_number() OVER () = {most} AS last FROM {newest}) a"  # noqa: S608
        columns = sql("audit_columns").replace(
            "FROM audit a", f", a.last, ({others}) IS TRUE AS matches FROM {walked}"
        )
        text = f"{columns} WHERE ({others}) OR a.last"
        found: Rows = []
        for row in await self._latest(tenant_id, text, inner, limit + 1, others.values):
            if row["matches"]:
                found.append(row)
            if len(found) == limit:
                break
            if row["last"]:
                return found, _place(row)
        return found, None

    async def _latest(
        self, tenant_id: int | None, text: str, inner: Conditions, limit: int, more: Sequence[Any] = ()
    ) -> Rows:
        """The latest of what a statement finds, whose conditions stand at `{}`. The index leads with the
        tenant: for all tenants, the latest of each are merged."""
        page = f"{_LATEST} LIMIT {limit:d}"
        if tenant_id is not None:
            inner = _with(inner, tenant_id)
            return await self._database.fetch(f"{text.format(inner)} {page}", *inner.values, *more)
        each = text.format(f"a.tenant_id = t.id AND {inner}")
        rest = text.format(f"a.tenant_id IS NULL AND {inner}")
        return await self._database.fetch(
            f"SELECT * FROM (SELECT p.* FROM tenants t CROSS JOIN LATERAL ({each} {page}) AS p"  # noqa: S608
            f" UNION ALL ({rest} {page})) AS a {page}",
            *inner.values,
            *more,
        )


async def write_audit(session: Session, entries: Sequence[Entry]) -> None:
    """Add entries, in the session's transaction if it has one."""
    rows = [
        (
            entry.tenant_id,
            entry.origin.actor,
            entry.action,
            entry.object,
            _json(entry.before),
            _json(entry.after),
            entry.origin.request_id,
            entry.origin.address,
            entry.origin.via,
        )
        for entry in entries
    ]
    await session.execute(*_WRITE.given(**arrays(_COLUMNS, rows)))


class Watch:
    """A witness that compares one thing at the beginning and at the end of each transaction."""

    def __init__(self, tenant_id: int, origin: Origin, action: str, object_: str) -> None:
        self.written = 0
        self._tenant_id = tenant_id
        self._origin = origin
        self._action = action
        self.object = object_
        self._mask = Mask()
        self._before: Any = None

    async def begin(self, session: Session) -> None:
        """Remember how it was."""
        self._before = await self._look(session)

    async def end(self, session: Session) -> None:
        """Write an entry if it is different now."""
        after = await self._look(session)
        if after != self._before:
            entry = Entry(self._tenant_id, self._origin, self._action, self.object, self._before, after)
            await write_audit(session, [entry])
            self.written += 1

    async def _look(self, session: Session) -> Any:
        raise NotImplementedError


class JobWatch(Watch):
    """Watches a job. The first look does not lock it, so that the change keeps its own order of locks: should
    another change come in between, `before` is from before both, and the versions tell."""

    def __init__(self, tenant_id: int, origin: Origin, action: str, job_id: UUID) -> None:
        super().__init__(tenant_id, origin, action, job_object(job_id))
        self._job_id = job_id

    async def _look(self, session: Session) -> Any:
        row = await session.fetchrow(_JOB_COLUMNS, CELL, self._job_id, self._tenant_id)
        return None if row is None else self._mask.job(dict(row))


class ExecutionWatch(Watch):
    """Watches an execution's state."""

    def __init__(self, tenant_id: int, origin: Origin, action: str, key: ExecutionKey) -> None:
        super().__init__(tenant_id, origin, action, execution_text(key))
        self._key = key

    async def _look(self, session: Session) -> Any:
        row = await session.fetchrow(
            f"SELECT state, attempt, cancel_requested FROM ({sql('live_columns')} WHERE e.cell = $1 AND e.job_id = $2"  # noqa: S608
            f" AND e.fire_at = $3 AND e.tenant_id = $4 UNION ALL {sql('history_columns')} WHERE h.cell = $1"
            " AND h.job_id = $2 AND h.fire_at = $3 AND h.tenant_id = $4) AS e LIMIT 1",
            CELL,
            *self._key,
            self._tenant_id,
        )
        return None if row is None else dict(row)


def job_object(job_id: UUID) -> str:
    """How the log names a job."""
    return f"{_JOB}{job_id}"


def shown_object(stored: str) -> str:
    """How users name it."""
    job_id = _job_of(stored)
    return stored if job_id is None else job_text(job_id)


def shown_after(row: Record) -> Any:
    """How things were afterwards; jobs that a batch created are named as users name them."""
    after: Any = None if row["after"] is None else msgspec.json.decode(row["after"])
    if row["action"] == JOBS_CREATED and after is not None:
        return after | {"jobs": [job_text(UUID(job)) for job in after["jobs"]]}
    return after


def stored_object(shown: str) -> str:
    """How the log names what a user names so."""
    return job_object(parse_job_text(shown)) if shown.startswith("job_") else shown


def _job_of(stored: str | None) -> UUID | None:
    if stored is None or not stored.startswith(_JOB):
        return None
    try:
        return UUID(stored.removeprefix(_JOB))
    except ValueError:
        return None


def _range(where: AuditFilter, after: Place | None) -> Conditions:
    """What the order of a listing knows: its begin, its end, and where the page before ended."""
    conditions = Conditions()
    if after is not None:
        conditions.add("a.at <= {}", after.at)  # the row comparison alone would not prune partitions
        conditions.add("(a.at, a.id) < ({}::timestamptz,", after.at)
        conditions.continue_with("{}::bigint)", after.id)
    conditions.add("a.at >= {}", where.at_from)
    conditions.add("a.at < {}", where.at_to)
    return conditions


def _add_others(conditions: Conditions, where: AuditFilter) -> None:
    conditions.add("a.actor = {}", where.actor)
    conditions.add("a.action = {}", where.action)
    conditions.add("a.object = {}", where.object)


def _with(inner: Conditions, tenant_id: int) -> Conditions:
    """The same conditions, of one tenant."""
    own = inner.copy()
    own.add("a.tenant_id = {}", tenant_id)
    return own


def _place(row: Record) -> Place:
    return Place(row["at"], row["id"])


def _json(value: Any) -> str | None:
    return None if value is None else msgspec.json.encode(value).decode()
