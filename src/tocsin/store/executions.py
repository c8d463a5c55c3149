"""Executions as users see them: live and finished ones in one shape, cancel, retry."""

from typing import Final, TypeAlias
from uuid import UUID

import msgspec

from tocsin.db.pool import Database, Record
from tocsin.db.statements import statement
from tocsin.domain.errors import Conflict, NotFound
from tocsin.domain.ids import ExecutionKey, execution_text
from tocsin.domain.instant import Instant
from tocsin.domain.lifecycle import FINAL, LIVE, State

CELL: Final = 0
Rows: TypeAlias = list[Record]


class ExecutionFilter(msgspec.Struct, frozen=True):
    """What a listing is narrowed to."""

    state: State | None = None
    queue: str | None = None


class Place(msgspec.Struct, frozen=True, array_like=True):
    """Where a page of the listing ended: among the live ones (no finish time) or in history."""

    job_id: UUID
    fire_at: Instant
    finished_at: Instant | None = None


class ExecutionStore:
    """Executions of all tenants; every method names the tenant it acts for."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def get(self, tenant_id: int, key: ExecutionKey) -> Record:
        """One execution, wherever it is. A skip that lies inside a run of skips is found by its run."""
        row = await self._database.fetchrow(
            f"""{_sql("live_columns")} WHERE e.cell = $1 AND e.job_id = $2 AND e.fire_at = $3 AND e.tenant_id = $4
            UNION ALL
            {_sql("history_columns")} WHERE h.cell = $1 AND h.job_id = $2 AND h.tenant_id = $4
              AND (h.fire_at = $3 OR (h.fire_at <= $3 AND h.fire_until >= $3))
            ORDER BY fire_until NULLS FIRST LIMIT 1""",
            CELL,
            key.job_id,
            key.fire_at,
            tenant_id,
        )
        if row is None:
            raise NotFound(f"no execution {execution_text(key)}")
        return row

    async def of_job(self, tenant_id: int, job_id: UUID, before: Instant | None, limit: int) -> Rows:
        """Executions of one job, latest fire time first."""
        return await self._database.fetch(
            f"""({_sql("live_columns")} WHERE e.cell = $1 AND e.job_id = $2 AND e.tenant_id = $3
                 AND ($4::timestamptz IS NULL OR e.fire_at < $4) ORDER BY e.fire_at DESC LIMIT $5)
            UNION ALL
            ({_sql("history_columns")} WHERE h.cell = $1 AND h.job_id = $2 AND h.tenant_id = $3
                 AND ($4::timestamptz IS NULL OR h.fire_at < $4) ORDER BY h.fire_at DESC LIMIT $5)
            ORDER BY fire_at DESC LIMIT $5""",
            CELL,
            job_id,
            tenant_id,
            before,
            limit,
        )

    async def list(self, tenant_id: int, where: ExecutionFilter, after: Place | None, limit: int) -> Rows:
        """A page over live ones (newest job first), then finished ones (latest first)."""
        rows: Rows = []
        if where.state not in FINAL and (after is None or after.finished_at is None):
            rows = await self._live(tenant_id, where, after, limit)
            after = None
        if where.state not in LIVE and len(rows) < limit:
            rows += await self._finished(tenant_id, where, after, limit - len(rows))
        return rows

    async def cancel(self, tenant_id: int, key: ExecutionKey, reason: str) -> State:
        """Call an execution off. `cancelled`: it never starts. `running`: it was asked to stop."""
        row = await self.get(tenant_id, key)
        if row["state"] in FINAL:
            raise Conflict(f"cannot cancel an execution that is {row['state']}")
        async with self._database.transaction() as session:
            done = await session.fetchrow(_sql("cancel_executions"), CELL, key.job_id, key.fire_at, reason)
            if done["cancelled"]:
                return State.CANCELLED
            if await session.fetch(_sql("ask_to_stop"), CELL, key.job_id, key.fire_at):
                await session.execute("SELECT pg_notify('tocsin', 'stop')")
                return State.RUNNING
        raise Conflict("cannot cancel: the execution has just finished")

    async def retry(self, tenant_id: int, key: ExecutionKey) -> None:
        """Give a dead, expired or cancelled execution another round of attempts, under the same identity."""
        async with self._database.transaction() as session:
            args = (CELL, key.job_id, key.fire_at, tenant_id)
            if await session.fetchrow(_sql("revive_execution"), *args) is not None:
                await session.execute("SELECT pg_notify('tocsin', 'ready')")
                return
        row = await self.get(tenant_id, key)
        if row["state"] in ("dead", "expired", "cancelled"):
            raise Conflict("cannot retry: the job was deleted")
        raise Conflict(f"cannot retry an execution that is {row['state']}")

    async def _live(self, tenant_id: int, where: ExecutionFilter, after: Place | None, limit: int) -> Rows:
        return await self._database.fetch(
            f"""SELECT * FROM ({_sql("live_columns")}
                WHERE e.cell = $1 AND e.tenant_id = $2 AND ($3::uuid IS NULL OR (e.job_id, e.fire_at) < ($3, $4))
                  AND ($5::text IS NULL OR e.queue = $5)
                ORDER BY e.job_id DESC, e.fire_at DESC) AS page
                WHERE $6::text IS NULL OR state = $6 LIMIT $7""",  # noqa: S608
            CELL,
            tenant_id,
            after and after.job_id,
            after and after.fire_at,
            where.queue,
            where.state,
            limit,
        )

    async def _finished(
        self, tenant_id: int, where: ExecutionFilter, after: Place | None, limit: int
    ) -> Rows:
        # The literal condition lets the planner use the small index of dead ones.
        dead = "AND h.state = 'dead'" if where.state == State.DEAD else ""
        return await self._database.fetch(
            f"""{_sql("history_columns")}
                WHERE h.tenant_id = $1 AND ($2::timestamptz IS NULL OR h.finished_at <= $2)
                  AND ($2::timestamptz IS NULL OR (h.finished_at, h.job_id, h.fire_at) < ($2, $3::uuid, $4::timestamptz))
                  AND ($5::text IS NULL OR h.queue = $5) AND ($6::text IS NULL OR h.state = $6) {dead}
                ORDER BY h.finished_at DESC, h.job_id DESC, h.fire_at DESC LIMIT $7""",
            tenant_id,
            after and after.finished_at,
            after and after.job_id,
            after and after.fire_at,
            where.queue,
            where.state,
            limit,
        )


def _sql(name: str) -> str:
    return statement("tocsin.store", name)
