"""Operations at rest: define, look, hold, stop. `acting` moves them forward.

The things that an operation acts on are fixed when it is created: their ids are written down in batches
(`gathering`), and what begins to match later is not touched.
"""

from collections.abc import Sequence
from typing import Any, Final, TypeAlias
from uuid import UUID

import msgspec

from tocsin.db.pool import Database, Record, Session, columns
from tocsin.db.statements import named
from tocsin.domain.audit import Origin
from tocsin.domain.cells import CELL
from tocsin.domain.errors import Conflict, NotFound
from tocsin.domain.ids import ExecutionKey
from tocsin.domain.instant import Instant, Span
from tocsin.domain.operation import AT_A_LOOK, Do, Of, StopAt
from tocsin.store.audit import Entry, write_audit
from tocsin.store.gathering import NOT_BEFORE_ALL_IS_GATHERED, gather
from tocsin.store.repeats import Once, take_key
from tocsin.store.selection import Selection
from tocsin.store.statements import sql

_INSERT = named("tocsin.store", "insert_operation")
_MOST_AT_ONCE: Final = 20
_SAMPLE: Final = 10
_NO_JOB: Final = UUID(int=0)
_COLUMNS: Final = (
    "SELECT o.*, (SELECT count(*) FROM operation_runs r WHERE r.operation_id = o.id)::integer AS under_way"
    " FROM operations o"
)
Rows: TypeAlias = list[Record]


class NewOperation(msgspec.Struct, frozen=True, kw_only=True):
    """An operation to make."""

    do: Do
    of: Of
    filter: Any
    """As it was asked for, to be shown."""
    selection: Selection
    reason: str | None
    pace: Span
    steps: tuple[int, ...]
    stop_at: StopAt | None


class Preview(msgspec.Struct, frozen=True):
    """What an operation would act on: how many in which state (of executions, and in which state their jobs),
    and the first of them."""

    states: Rows
    sample: Rows
    oldest: Instant | None


class OperationStore:
    """Operations of all tenants; every method names the tenant it acts for."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def preview(self, selection: Selection) -> Preview:
        """What an operation would act on; nothing is written."""
        text, values = selection.text, [*selection.values, CELL]
        jobs = f"LEFT JOIN jobs j ON j.cell = ${len(values)} AND j.id = f.job_id"
        states = await self._database.fetch(
            "SELECT f.state, j.state AS job_state, count(*)::integer AS number, min(f.fire_at) AS oldest"  # noqa: S608
            f" FROM (SELECT * FROM ({text}) AS f LIMIT {AT_A_LOOK + 1}) AS f {jobs} GROUP BY 1, 2",
            *values,
        )
        sample = await self._database.fetch(
            f"SELECT f.*, j.name FROM (SELECT * FROM ({text}) AS f LIMIT {_SAMPLE}) AS f {jobs}",  # noqa: S608
            *values,
        )
        oldest = min((row["oldest"] for row in states if row["oldest"] is not None), default=None)
        return Preview(states, sample, oldest)

    async def define(
        self, tenant_id: int, new: NewOperation, now: Instant, origin: Origin, *, once: Once | None = None
    ) -> int:
        """Write an operation down with all that it acts on; a scheduler takes it from there."""
        async with self._database.transaction() as session:
            await _check_room(session, tenant_id)
            operation_id = await _insert(session, tenant_id, new, now, origin)
            chunk = await gather(session, tenant_id, operation_id, new.selection, now)
            await session.execute(
                "UPDATE operations SET matched = $2::bigint, state = CASE WHEN $2::bigint = 0 THEN 'completed' ELSE state END,"
                " finished_at = CASE WHEN $2::bigint = 0 THEN tocsin_now() END, gathering = $3::jsonb,"
                " gather_at = CASE WHEN $3::jsonb IS NOT NULL THEN resume_at END,"
                " resume_at = CASE WHEN $3::jsonb IS NULL THEN resume_at ELSE $4::timestamptz END WHERE id = $1",
                operation_id,
                chunk.number,
                chunk.rest,
                NOT_BEFORE_ALL_IS_GATHERED,
            )
            await take_key(session, once, _NO_JOB, operation_id)
            asked = {
                "do": new.do,
                "of": new.of,
                "where": new.filter,
                "matched": chunk.number,
                "more": True if chunk.rest else None,
                "reason": new.reason,
            }
            await note(session, tenant_id, origin, "operation.create", operation_id, asked)
            await session.execute("SELECT pg_notify('tocsin', 'operation')")
            return operation_id

    async def get(self, tenant_id: int, operation_id: int) -> Record:
        """One operation."""
        return await _get(self._database, tenant_id, operation_id)

    async def list(self, tenant_id: int, state: str | None, before: int | None, limit: int) -> Rows:
        """A page, newest first."""
        return await self._database.fetch(
            f"{_COLUMNS} WHERE o.tenant_id = $1 AND ($2::text IS NULL OR o.state = $2)"
            " AND ($3::bigint IS NULL OR o.id < $3) ORDER BY o.id DESC LIMIT $4",
            tenant_id,
            state,
            before,
            limit,
        )

    async def changed_since(self, tenants: Sequence[int], since: Instant) -> Rows:
        """Operations of these tenants that moved lately."""
        return await self._database.fetch(
            f"{_COLUMNS} WHERE o.tenant_id = ANY ($1::integer[]) AND o.updated_at >= $2 ORDER BY o.id LIMIT 100",
            list(tenants),
            since,
        )

    async def pause(self, tenant_id: int, operation_id: int, reason: str | None, origin: Origin) -> None:
        """Hold an operation: once this has returned, it acts on nothing more until it is resumed."""
        await self._move(tenant_id, operation_id, "pause", ("running",), "paused", reason, origin)

    async def resume(self, tenant_id: int, operation_id: int, origin: Origin) -> None:
        """Let an operation go on. The brake looks at what comes from now on, and a step that failed is left
        behind."""
        await self._move(tenant_id, operation_id, "resume", ("paused",), "running", None, origin)

    async def cancel(self, tenant_id: int, operation_id: int, reason: str | None, origin: Origin) -> None:
        """Stop an operation for good. Its effects stay, and executions that it has fired go on."""
        await self._move(
            tenant_id, operation_id, "cancel", ("running", "paused"), "cancelled", reason, origin
        )

    async def _move(
        self,
        tenant_id: int,
        operation_id: int,
        action: str,
        before: tuple[str, ...],
        after: str,
        reason: str | None,
        origin: Origin,
    ) -> None:
        async with self._database.transaction() as session:
            row = await session.fetchrow(
                "UPDATE operations SET state = $4, state_reason = $5, recent = '', step_failed = 0,"
                " resume_at = CASE WHEN gathering IS NULL THEN tocsin_now() ELSE resume_at END,"
                " gathering = CASE WHEN $4 <> 'cancelled' THEN gathering END,"
                " updated_at = tocsin_now(), finished_at = CASE WHEN $4 = 'cancelled' THEN tocsin_now() END"
                " WHERE id = $1 AND tenant_id = $2 AND state = ANY ($3::text[]) RETURNING done, matched",
                operation_id,
                tenant_id,
                list(before),
                after,
                reason,
            )
            if row is None:
                found = await _get(session, tenant_id, operation_id)
                raise Conflict(f"cannot {action} an operation that is {found['state']}")
            if after == "cancelled":
                await forget_things(session, operation_id)
            told = {"done": row["done"], "matched": row["matched"], "reason": reason}
            await note(session, tenant_id, origin, f"operation.{action}", operation_id, told)
            await session.execute("SELECT pg_notify('tocsin', 'operation')")


async def forget_things(session: Session, operation_id: int) -> None:
    """Of an operation that is over only the numbers stay."""
    await session.execute("DELETE FROM operation_batches WHERE operation_id = $1", operation_id)
    await session.execute("DELETE FROM operation_runs WHERE operation_id = $1", operation_id)


async def note(
    session: Session, tenant_id: int, origin: Origin, action: str, operation_id: int, after: dict[str, Any]
) -> None:
    """An entry in the audit log, in the transaction that it is about."""
    told = {name: value for name, value in after.items() if value is not None}
    await write_audit(session, [Entry(tenant_id, origin, action, f"operation:{operation_id}", None, told)])


async def _check_room(session: Session, tenant_id: int) -> None:
    row = await session.fetchrow(
        "SELECT count(*) AS number FROM operations WHERE tenant_id = $1 AND state IN ('running', 'paused')",
        tenant_id,
    )
    if row is not None and row["number"] >= _MOST_AT_ONCE:
        raise Conflict(f"{_MOST_AT_ONCE} operations are under way or paused; cancel one, or wait")


async def _insert(session: Session, tenant_id: int, new: NewOperation, now: Instant, origin: Origin) -> int:
    row: Any = await session.fetchrow(
        *_INSERT.given(
            tenant_id=tenant_id,
            action=new.do,
            things=new.of,
            filter=None if new.filter is None else msgspec.json.encode(new.filter).decode(),
            reason=new.reason,
            pace=new.pace,
            steps=list(new.steps),
            stop_share=new.stop_at and new.stop_at.share,
            stop_of=new.stop_at and new.stop_at.of,
            resume_at=now,
            created_by=origin.actor,
        )
    )
    return int(row["id"])


async def _get(session: Session, tenant_id: int, operation_id: int) -> Record:
    row = await session.fetchrow(f"{_COLUMNS} WHERE o.id = $1 AND o.tenant_id = $2", operation_id, tenant_id)
    if row is None:
        raise NotFound(f"no operation {operation_id}")
    return row


def named_jobs(tenant_id: int, job_ids: Sequence[UUID]) -> Selection:
    """Jobs that were named one by one. Those that are not there are among them: the operation says so."""
    return Selection(sql("named_jobs"), [CELL, tenant_id, list(dict.fromkeys(job_ids))])


def named_executions(tenant_id: int, keys: Sequence[ExecutionKey]) -> Selection:
    """Executions that were named one by one."""
    return Selection(sql("named_executions"), [CELL, tenant_id, *columns(list(dict.fromkeys(keys)), 2)])
