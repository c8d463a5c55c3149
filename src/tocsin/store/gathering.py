"""Writes down what an operation acts on, before it acts on anything.

The statement that creates an operation takes the first chunk, in one look at the database; most operations
need no more. Of a larger one the schedulers look up the rest, chunk after chunk, each in a transaction of its
own that also notes its last thing: from there the next one goes on. Newer jobs and later ends lie before that
place, so what begins to match by them stays out, and nothing is written down twice. What has stopped matching
before its chunk is looked up stays out, too.
"""

import contextlib
from typing import Any, Final
from uuid import UUID

import msgspec

from tocsin.db.pool import Database, Record, Session
from tocsin.domain.errors import Unavailable
from tocsin.domain.instant import LATEST, SECOND, Instant, Span
from tocsin.domain.operation import AT_A_LOOK, Of
from tocsin.failpoints import Failpoints
from tocsin.store.execution_filter import ExecutionFilter, Place
from tocsin.store.execution_listing import select_executions
from tocsin.store.job_listing import JobFilter, select_jobs
from tocsin.store.selection import Selection

STORED_BATCH: Final = 500
"""Ids in a row of operation_batches. A chunk is a multiple of it."""
NOT_BEFORE_ALL_IS_GATHERED: Final[Instant] = LATEST
"""When an operation acts next, while it is not known yet on what."""
_AFTER_TROUBLE: Final[Span] = 30 * SECOND


class _Jobs(msgspec.Struct, frozen=True):
    """Jobs that are still to be looked up: those that match and follow one."""

    where: JobFilter
    after: UUID

    def selection(self, tenant_id: int) -> Selection:
        return select_jobs(tenant_id, self.where, self.after)


class _Executions(msgspec.Struct, frozen=True):
    """The same for executions."""

    where: ExecutionFilter
    after: Place

    def selection(self, tenant_id: int) -> Selection:
        return select_executions(tenant_id, self.where, self.after)


class Gathered(msgspec.Struct, frozen=True):
    """A chunk: how many there were, and what is left to look up, as it is stored."""

    number: int
    rest: str | None


class Gathering:
    """Looks up what large operations act on."""

    def __init__(self, database: Database, failpoints: Failpoints) -> None:
        self._database = database
        self._failpoints = failpoints

    async def advance(self, now: Instant) -> int:
        """One chunk, of the operation that has waited longest. Returns how many it found."""
        tried: list[int] = []
        try:
            async with self._database.transaction() as session:
                row = await session.fetchrow(
                    "SELECT id, tenant_id, things, matched, gathering FROM operations WHERE state = 'running' AND gather_at <= $1"
                    " ORDER BY gather_at LIMIT 1 FOR UPDATE SKIP LOCKED",
                    now,
                )
                if row is None:
                    return 0
                tried.append(row["id"])
                found = await self._chunk(session, row, now)
                await self._failpoints.reach("operations.gathered")
                return found
        except Exception:
            with contextlib.suppress(Unavailable):
                await self._put_off(tried, now + _AFTER_TROUBLE)
            raise

    async def _chunk(self, session: Session, row: Record, now: Instant) -> int:
        kind: type[_Jobs | _Executions] = _Jobs if row["things"] == Of.JOBS else _Executions
        selection = msgspec.json.decode(row["gathering"], type=kind).selection(row["tenant_id"])
        chunk = await gather(session, row["tenant_id"], row["id"], selection, now, begin=row["matched"])
        await session.execute(
            "UPDATE operations SET matched = matched + $2, gathering = $3::jsonb, updated_at = tocsin_now(),"
            " gather_at = CASE WHEN $3::jsonb IS NOT NULL THEN $4::timestamptz END,"
            " resume_at = CASE WHEN $3::jsonb IS NULL THEN $4 ELSE resume_at END WHERE id = $1",
            row["id"],
            chunk.number,
            chunk.rest,
            now,
        )
        return chunk.number

    async def _put_off(self, tried: list[int], until: Instant) -> None:
        await self._database.execute(
            "UPDATE operations SET gather_at = $2 WHERE id = ANY ($1::bigint[]) AND gather_at IS NOT NULL",
            tried,
            until,
        )


async def gather(
    session: Session,
    tenant_id: int,
    operation_id: int,
    selection: Selection,
    now: Instant,
    *,
    begin: int = 0,
) -> Gathered:
    """Write down a chunk of what a selection finds, behind the first `begin` things."""
    first = len(selection.values) + 1
    last: Any = await session.fetchrow(
        "WITH found AS MATERIALIZED (SELECT f.job_id, f.fire_at, f.finished_at, row_number() OVER () - 1 AS place"  # noqa: S608
        f" FROM ({selection.text}) AS f LIMIT {AT_A_LOOK}), written AS ("
        "INSERT INTO operation_batches (operation_id, tenant_id, number, job_ids, fire_ats)"
        f" SELECT ${first}, ${first + 1}, ${first + 2} + place / {STORED_BATCH}, array_agg(job_id ORDER BY place),"
        f" array_agg(coalesce(fire_at, 'epoch') ORDER BY place) FROM found GROUP BY place / {STORED_BATCH})"
        " SELECT place + 1 AS number, job_id, fire_at, finished_at FROM found ORDER BY place DESC LIMIT 1",
        *selection.values,
        operation_id,
        tenant_id,
        begin // STORED_BATCH,
    )
    return Gathered(0, None) if last is None else Gathered(last["number"], _rest(selection.where, last, now))


def _rest(where: msgspec.Struct | None, last: Record, now: Instant) -> str | None:
    if last["number"] < AT_A_LOOK:
        return None
    match where:
        case JobFilter():
            rest: Any = _Jobs(where, last["job_id"])
        case ExecutionFilter():
            before = msgspec.structs.replace(where, finished_to=where.finished_to or now)
            rest = _Executions(before, Place(last["job_id"], last["fire_at"], last["finished_at"]))
        case _:  # named one by one, and fewer than a chunk
            return None
    return msgspec.json.encode(rest).decode()
