"""Backfills at rest: define, look, cancel, and move forward a step at a time."""

import contextlib
from collections.abc import Sequence
from datetime import timedelta
from typing import Final
from uuid import UUID

import msgspec

from tocsin.db.pool import Database, Record, Session
from tocsin.db.statements import named
from tocsin.db.turns import pass_turns
from tocsin.domain.backfill import Mode, Order, fires_of, next_step
from tocsin.domain.cells import CELL
from tocsin.domain.errors import Conflict, NotFound, Refused, Unavailable
from tocsin.domain.instant import SECOND, Instant, Span
from tocsin.domain.job import CATCH_UP_PRIORITY
from tocsin.domain.stored_job import read_schedule
from tocsin.store.calendars import blackouts_of
from tocsin.store.executions import hold_executions
from tocsin.store.jobs import no_job
from tocsin.store.repeats import Once, take_key
from tocsin.store.statements import sql
from tocsin.store.unread import Unread

_DEFINE = named("tocsin.store", "define_backfill")
_IDLE: Final[Span] = SECOND
_AFTER_OUTAGE: Final[Span] = 2 * SECOND
_PAUSE: Final[Span] = 30 * SECOND
"""After a step that failed, or that this version could not read."""
_COLUMNS: Final = """
    SELECT b.*, (SELECT count(*) FROM executions e WHERE e.cell = b.cell AND e.backfill_id = b.id)::integer AS live,
           (SELECT name FROM jobs WHERE cell = b.cell AND id = b.job_id) AS job_name
    FROM backfills b"""


class NewBackfill(msgspec.Struct, frozen=True):
    """A backfill to make."""

    start: Instant
    end: Instant
    mode: Mode
    order: Order
    pace: Span
    max_parallel: int


class BackfillStore:
    """Backfills of all tenants."""

    def __init__(self, database: Database, unread: Unread | None = None) -> None:
        self._database = database
        self._unread = unread or Unread("backfill")

    async def define(
        self, tenant_id: int, job_id: UUID, new: NewBackfill, total: int, *, once: Once | None = None
    ) -> int:
        """Write a backfill down; a scheduler takes it from there."""
        async with self._database.transaction() as session:
            row = await session.fetchrow(
                *_DEFINE.given(
                    tenant_id=tenant_id,
                    cell=CELL,
                    job_id=job_id,
                    range_from=new.start,
                    range_to=new.end,
                    mode=new.mode,
                    direction=new.order,
                    pace=new.pace,
                    max_parallel=new.max_parallel,
                    total=total,
                )
            )
            if row is None:
                raise no_job(job_id)
            await take_key(session, once, job_id, row["id"])
            return int(row["id"])

    async def missing(self, job_id: UUID, fires: Sequence[Instant]) -> list[Instant]:
        """Those of these fire times that have no execution of their own, finished or not."""
        rows = await self._database.fetch(
            "SELECT f.fire_at FROM unnest($3::timestamptz[]) WITH ORDINALITY AS f (fire_at, place)"
            " WHERE NOT EXISTS (SELECT FROM history h WHERE h.cell = $1 AND h.job_id = $2 AND h.fire_at = f.fire_at"
            " AND h.state <> 'skipped') AND NOT EXISTS"
            " (SELECT FROM executions e WHERE e.cell = $1 AND e.job_id = $2 AND e.fire_at = f.fire_at) ORDER BY f.place",
            CELL,
            job_id,
            list(fires),
        )
        return [row["fire_at"] for row in rows]

    async def get(self, tenant_id: int, backfill_id: int) -> Record:
        """One backfill with how many of its executions are live."""
        row = await self._database.fetchrow(
            f"{_COLUMNS} WHERE b.id = $1 AND b.tenant_id = $2", backfill_id, tenant_id
        )
        if row is None:
            raise NotFound(f"no backfill {backfill_id}")
        return row

    async def of_tenant(
        self, tenant_id: int, state: str | None, before: int | None, limit: int
    ) -> list[Record]:
        """Backfills of a tenant, newest first."""
        return await self._database.fetch(
            f"{_COLUMNS} WHERE b.tenant_id = $1 AND ($2::text IS NULL OR b.state = $2)"
            " AND ($3::bigint IS NULL OR b.id < $3) ORDER BY b.id DESC LIMIT $4",
            tenant_id,
            state,
            before,
            limit,
        )

    async def of_job(self, tenant_id: int, job_id: UUID, before: int | None, limit: int) -> list[Record]:
        """Backfills of a job, newest first."""
        return await self._database.fetch(
            f"{_COLUMNS} WHERE b.tenant_id = $1 AND b.job_id = $2 AND ($3::bigint IS NULL OR b.id < $3)"
            " ORDER BY b.id DESC LIMIT $4",
            tenant_id,
            job_id,
            before,
            limit,
        )

    async def cancel(self, tenant_id: int, backfill_id: int) -> int:
        """Stop a backfill: nothing more is queued, what has not started is called off."""
        async with self._database.transaction() as session:
            row = await session.fetchrow(
                "UPDATE backfills SET state = 'cancelled', finished_at = tocsin_now()"
                " WHERE id = $1 AND tenant_id = $2 AND state = 'running' RETURNING job_id",
                backfill_id,
                tenant_id,
            )
            if row is None:
                raise Conflict(
                    f"cannot cancel a backfill that is {(await self.get(tenant_id, backfill_id))['state']}"
                )
            await hold_executions(session, [row["job_id"]])
            gone = await session.fetchrow(sql("cancel_backfill"), CELL, backfill_id)
            await pass_turns(session, CELL, [row["job_id"]])
            return int(gone["cancelled"])

    async def advance(self, shards: Sequence[int], now: Instant) -> tuple[int, Instant | None]:
        """Move one due backfill of these shards a step. Returns what was queued and when to look again."""
        tried: list[int] = []
        try:
            async with self._database.transaction() as session:
                row = await session.fetchrow(
                    f"{_COLUMNS} JOIN jobs j ON j.cell = b.cell AND j.id = b.job_id"
                    " WHERE b.shard = ANY ($1::smallint[]) AND b.state = 'running'"
                    " ORDER BY b.resume_at LIMIT 1 FOR UPDATE OF b SKIP LOCKED",
                    list(shards),
                )
                if row is None or row["resume_at"] > now:
                    return 0, row and row["resume_at"]
                tried.append(row["id"])
                try:
                    queued = await self._step(session, row, now)
                except Refused as error:  # before anything was written
                    queued = await self._leave(session, row, error.detail, now)
                # Another one may be due just as well.
                return queued, now
        except Exception as error:  # a step that fails, or takes too long, keeps no other from its own
            pause = _AFTER_OUTAGE if isinstance(error, Unavailable) else _PAUSE
            with contextlib.suppress(Unavailable):
                await self._put_off(self._database, tried, pause)
            raise

    async def _leave(self, session: Session, row: Record, why: str, now: Instant) -> int:
        """Put off what this version cannot read; the node that has the shard by then looks again."""
        self._unread.note(row["job_id"], row["id"], why, now)
        await self._put_off(session, [row["id"]], _PAUSE)
        return 0

    async def _put_off(self, session: Session, backfills: Sequence[int], pause: Span) -> None:
        if backfills:
            await session.execute(
                "UPDATE backfills SET resume_at = tocsin_now() + $2::interval WHERE id = ANY ($1::bigint[])",
                list(backfills),
                timedelta(microseconds=pause),
            )

    async def _step(self, session: Session, row: Record, now: Instant) -> int:
        step = next_step(
            left=row["total"] - row["position"],
            live=row["live"],
            max_parallel=row["max_parallel"],
            pace=row["pace"],
            idle=_IDLE,
        )
        queued = await self._queue(session, row, step.take, now) if step.take else 0
        position = row["position"] + step.take
        over = position == row["total"] and row["live"] + queued == 0
        await session.execute(
            "UPDATE backfills SET position = $2, planned = planned + $3, left_out = left_out + $4,"
            " resume_at = tocsin_now() + $5::interval, state = CASE WHEN $6 THEN 'completed' ELSE state END,"
            " finished_at = CASE WHEN $6 THEN tocsin_now() END WHERE id = $1",
            row["id"],
            position,
            queued,
            step.take - queued,
            timedelta(microseconds=step.wait),
            over,
        )
        if queued:
            await session.execute("SELECT pg_notify('tocsin', 'ready')")
        return queued

    async def _queue(self, session: Session, row: Record, take: int, now: Instant) -> int:
        schedule = read_schedule(row["schedule"])
        blackouts = await blackouts_of(session, row["tenant_id"], schedule)
        fires = fires_of(schedule, row["range_from"], row["range_to"], Order(row["direction"]), blackouts)
        chosen = fires[row["position"] : row["position"] + take]
        done = await session.fetchrow(
            sql("plan_backfill"),
            CELL,
            row["job_id"],
            row["id"],
            CATCH_UP_PRIORITY,
            chosen,
            [now + place for place in range(len(chosen))],
            row["mode"] == Mode.ALL,
        )
        return int(done["queued"]) if done else 0
