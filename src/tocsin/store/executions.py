"""Executions as users see them: live and finished ones in one shape, cancel, retry."""

from collections.abc import Sequence
from datetime import timedelta
from typing import TypeAlias
from uuid import UUID

import msgspec

from tocsin.db.conditions import Conditions, containing
from tocsin.db.pool import Database, Record, Session
from tocsin.db.turns import pass_turns
from tocsin.domain.errors import Conflict, NotFound
from tocsin.domain.explain import Surroundings
from tocsin.domain.ids import ExecutionKey, execution_text
from tocsin.domain.instant import Instant, Span
from tocsin.domain.lifecycle import FINAL, LIVE, CancelResult, State
from tocsin.store.repeats import Once, take_key
from tocsin.store.statements import CELL, sql

Rows: TypeAlias = list[Record]


class ExecutionFilter(msgspec.Struct, frozen=True, kw_only=True):
    """What a listing is narrowed to. The range is of fire times; it includes its start and excludes its end."""

    state: State | None = None
    queue: str | None = None
    job_id: UUID | None = None
    fire_from: Instant | None = None
    fire_to: Instant | None = None
    min_lag: Span | None = None
    error: str | None = None


class Place(msgspec.Struct, frozen=True, array_like=True):
    """Where a page of the listing ended: among the live ones (no finish time) or in history."""

    job_id: UUID
    fire_at: Instant
    finished_at: Instant | None = None


class Cancellation(msgspec.Struct, frozen=True):
    """The answer of a cancellation, and the execution as that left it."""

    answer: CancelResult
    row: Record


class ExecutionStore:
    """Executions of all tenants; every method names the tenant it acts for."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def get(self, tenant_id: int, key: ExecutionKey) -> Record:
        """One execution, wherever it is. A skip that lies inside a run of skips is found by its run; a fire time that
        was skipped and then run after all is found by its run."""
        return await _get(self._database, tenant_id, key)

    async def of_job(
        self, tenant_id: int, job_id: UUID, before: tuple[Instant, bool] | None, limit: int
    ) -> Rows:
        """Executions of one job, latest fire time first, after the place that a fire time and whether it ran name:
        one that was skipped and then run after all has a row for each."""
        return await self._database.fetch(
            f"""SELECT * FROM (
                ({sql("live_columns")} WHERE e.cell = $1 AND e.job_id = $2 AND e.tenant_id = $3
                 AND ($4::timestamptz IS NULL OR e.fire_at < $4) ORDER BY e.fire_at DESC LIMIT $5)
                UNION ALL
                ({sql("history_columns")} WHERE h.cell = $1 AND h.job_id = $2 AND h.tenant_id = $3
                 AND ($4::timestamptz IS NULL
                      OR (h.fire_at <= $4 AND (h.fire_at, h.state <> 'skipped') < ($4, $6::boolean)))
                 ORDER BY h.fire_at DESC, h.state <> 'skipped' DESC LIMIT $5)) AS found
                ORDER BY fire_at DESC, state = 'skipped' LIMIT $5""",  # noqa: S608
            CELL,
            job_id,
            tenant_id,
            before and before[0],
            limit,
            before and before[1],
        )

    async def recent(self, tenant_id: int, job_ids: Sequence[UUID], limit: int) -> Rows:
        """The last finished executions of each of a page of jobs, latest first."""
        return await self._database.fetch(sql("recent_of_jobs"), CELL, list(job_ids), tenant_id, limit)

    async def list(self, tenant_id: int, where: ExecutionFilter, after: Place | None, limit: int) -> Rows:
        """A page over live ones (newest job first), then finished ones (latest first)."""
        rows: Rows = []
        if after is None or after.finished_at is None:
            if where.state not in FINAL:
                rows = await self._live(tenant_id, where, after, limit)
            after = None  # history begins where the live ones end
        if where.state not in LIVE and len(rows) < limit:
            rows += await self._finished(tenant_id, where, after, limit - len(rows))
        return rows

    async def surroundings(self, tenant_id: int, queue: str) -> Surroundings:
        """What may keep queued executions of a tenant and queue waiting at this moment."""
        row = await self._database.one(sql("surroundings"), CELL, tenant_id, queue)
        return Surroundings(**dict(row))

    async def cancel(self, tenant_id: int, key: ExecutionKey, reason: str) -> Cancellation:
        """Call an execution off, or ask it to stop if it has started. One that is over is refused."""
        await self.get(tenant_id, key)
        async with self._database.transaction() as session:
            await hold_executions(session, key.job_id, key.fire_at)
            answer = await _called_off(session, key, reason)
            await pass_turns(session, CELL, [key.job_id])
            row = await _get(session, tenant_id, key)
            if answer is None:
                raise Conflict(f"cannot cancel an execution that is {row['state']}")
            return Cancellation(answer, row)

    async def retry(self, tenant_id: int, key: ExecutionKey, *, once: Once | None = None) -> None:
        """Give a dead, expired or cancelled execution another round of attempts, under the same identity."""
        async with self._database.transaction() as session:
            args = (CELL, key.job_id, key.fire_at, tenant_id)
            if await session.fetchrow(sql("revive_execution"), *args) is not None:
                await take_key(session, once, key.job_id, key.fire_at)
                await session.execute("SELECT pg_notify('tocsin', 'ready')")
                return
        row = await self.get(tenant_id, key)
        if row["state"] in ("dead", "expired", "cancelled"):
            raise Conflict("cannot retry: the job is cancelled or deleted")
        raise Conflict(f"cannot retry an execution that is {row['state']}")

    async def _live(self, tenant_id: int, where: ExecutionFilter, after: Place | None, limit: int) -> Rows:
        if where.error is not None:
            return []  # errors are known of what is over
        inner = Conditions()
        inner.add("e.cell = {}", CELL)
        inner.add("e.tenant_id = {}", tenant_id)
        inner.add("(e.job_id, e.fire_at) < ({}::uuid,", after and after.job_id)
        if after is not None:
            inner.continue_with("{}::timestamptz)", after.fire_at)
        inner.add("e.queue = {}", where.queue)
        inner.add("e.job_id = {}", where.job_id)
        inner.add("e.fire_at >= {}", where.fire_from)
        inner.add("e.fire_at < {}", where.fire_to)
        inner.add("e.started_at - e.due_at >= {}", _interval(where.min_lag))
        outer = Conditions(after=inner)
        outer.add("state = {}", where.state)
        return await self._database.fetch(
            f"SELECT * FROM ({sql('live_columns')} WHERE {inner} ORDER BY e.job_id DESC, e.fire_at DESC) AS page"  # noqa: S608
            f" WHERE {outer} LIMIT {limit:d}",
            *inner.values,
            *outer.values,
        )

    async def _finished(
        self, tenant_id: int, where: ExecutionFilter, after: Place | None, limit: int
    ) -> Rows:
        inner = Conditions()
        inner.add("h.tenant_id = {}", tenant_id)
        if after is not None:
            inner.add("h.finished_at <= {}", after.finished_at)  # the row comparison alone would not prune
            inner.add("(h.finished_at, h.job_id, h.fire_at) < ({}::timestamptz,", after.finished_at)
            inner.continue_with("{}::uuid,", after.job_id)
            inner.continue_with("{}::timestamptz)", after.fire_at)
        inner.add("h.queue = {}", where.queue)
        inner.add("h.state = {}", where.state)
        inner.add("h.job_id = {}", where.job_id)
        inner.add("h.fire_at >= {}", where.fire_from)
        inner.add("h.finished_at >= {}", where.fire_from)  # nothing ends before it fires; prunes partitions
        inner.add("h.fire_at < {}", where.fire_to)
        inner.add("h.started_at - h.due_at >= {}", _interval(where.min_lag))
        inner.add("lower(h.reason) LIKE {}", containing(where.error))
        # The literal condition lets the planner use the small index of dead ones.
        dead = " AND h.state = 'dead'" if where.state == State.DEAD else ""
        return await self._database.fetch(
            f"{sql('history_columns')} WHERE {inner}{dead}"
            f" ORDER BY h.finished_at DESC, h.job_id DESC, h.fire_at DESC LIMIT {limit:d}",
            *inner.values,
        )


async def _get(session: Session, tenant_id: int, key: ExecutionKey) -> Record:
    row = await session.fetchrow(
        f"""SELECT * FROM ({sql("live_columns")} WHERE e.cell = $1 AND e.job_id = $2 AND e.fire_at = $3 AND e.tenant_id = $4
        UNION ALL
        {sql("history_columns")} WHERE h.cell = $1 AND h.job_id = $2 AND h.tenant_id = $4
          AND (h.fire_at = $3 OR (h.fire_at <= $3 AND h.fire_until >= $3))) AS found
        ORDER BY state = 'skipped', fire_until NULLS FIRST LIMIT 1""",  # noqa: S608
        CELL,
        key.job_id,
        key.fire_at,
        tenant_id,
    )
    if row is None:
        raise NotFound(f"no execution {execution_text(key)}")
    return row


def _interval(span: Span | None) -> timedelta | None:
    return None if span is None else timedelta(microseconds=span)


async def _called_off(session: Session, key: ExecutionKey, reason: str) -> CancelResult | None:
    """What became of an execution that is held; None if it is over."""
    done = await session.fetchrow(sql("cancel_executions"), CELL, *key, reason)
    if done is not None and done["cancelled"]:
        return CancelResult.CANCELLED
    if done is not None and done["not_retried"]:
        return CancelResult.REQUESTED
    if not await session.fetch(sql("ask_to_stop"), CELL, *key, reason):
        return None
    await session.execute("SELECT pg_notify('tocsin', 'stop')")
    return CancelResult.REQUESTED


async def hold_executions(session: Session, job_id: UUID, fire_at: Instant | None = None) -> None:
    """Keep a job's executions, or one of them, as they are until commit, except for what this transaction does."""
    await session.execute(sql("hold_executions"), CELL, job_id, fire_at)
