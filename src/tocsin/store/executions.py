"""Executions as users see them: live and finished ones in one shape, cancel, retry. Lists of all are in
`execution_listing`."""

from collections.abc import Sequence
from typing import TypeAlias
from uuid import UUID

import msgspec

from tocsin.db.pool import Database, Record, Session
from tocsin.db.turns import pass_turns
from tocsin.domain.cells import CELL
from tocsin.domain.errors import Conflict, NotFound
from tocsin.domain.explain import Surroundings
from tocsin.domain.ids import ExecutionKey, execution_text
from tocsin.domain.instant import Instant
from tocsin.domain.lifecycle import LIVE, CancelResult
from tocsin.domain.task_target import task_of
from tocsin.store.repeats import Once, take_key
from tocsin.store.statements import sql

Rows: TypeAlias = list[Record]
Keys: TypeAlias = list[ExecutionKey]


class Cancellation(msgspec.Struct, frozen=True):
    """The answer of a cancellation, and the execution as that left it."""

    answer: CancelResult
    row: Record


class ExecutionStore:
    """Executions of all tenants; every method names the tenant it acts for."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def get(self, tenant_id: int, key: ExecutionKey) -> Record:
        """One execution, wherever it is. A skip that lies inside a run of skips is found by its run; a fire
        time that was skipped and then run after all is found by its run."""
        return await _get(self._database, tenant_id, key)

    async def of_job(
        self, tenant_id: int, job_id: UUID, before: tuple[Instant, bool] | None, limit: int
    ) -> Rows:
        """Executions of one job, latest fire time first, after the place that a fire time and whether it ran
        name: one that was skipped and then run after all has a row for each."""
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

    async def over(self, keys: Sequence[ExecutionKey]) -> "Keys":
        """Those of some executions that are live no more."""
        rows = await self._database.fetch(
            sql("executions_over"), CELL, [key.job_id for key in keys], [key.fire_at for key in keys]
        )
        return [keys[row["place"]] for row in rows]

    async def result(self, tenant_id: int, key: ExecutionKey) -> str | None:
        """What a task returned, as JSON text."""
        row = await self._database.fetchrow(
            "SELECT h.outcome -> 'result' AS result FROM history h WHERE h.cell = $1 AND h.job_id = $2 AND h.fire_at = $3"
            " AND h.tenant_id = $4 AND h.outcome ? 'result' LIMIT 1",
            CELL,
            *key,
            tenant_id,
        )
        return None if row is None else str(row["result"])

    async def turn_held_by(self, job_id: UUID) -> Instant | None:
        """The fire time of the execution that has the turn of a job that must not overlap."""
        row = await self._database.fetchrow(
            "SELECT fire_at FROM executions WHERE cell = $1 AND job_id = $2 AND has_turn LIMIT 1",
            CELL,
            job_id,
        )
        return None if row is None else row["fire_at"]

    async def surroundings(self, tenant_id: int, queue: str, route: str | None) -> Surroundings:
        """What may keep queued executions of a tenant, queue and route waiting at this moment."""
        row = await self._database.one(sql("surroundings"), CELL, tenant_id, queue, route)
        return Surroundings(**dict(row), task=None if route is None else task_of(route))

    async def cancel(self, tenant_id: int, key: ExecutionKey, reason: str) -> Cancellation:
        """Call an execution off, or ask it to stop if it has started. One that was over before is refused;
        one that ends meanwhile may have been called, and is answered so."""
        before = await self.get(tenant_id, key)
        async with self._database.transaction() as session:
            await hold_executions(session, [key.job_id], [key.fire_at])
            answer = await _called_off(session, key, reason)
            await pass_turns(session, CELL, [key.job_id])
            row = await _get(session, tenant_id, key)
            if answer is None and before["state"] not in LIVE:
                raise Conflict(f"cannot cancel an execution that is {row['state']}")
            return Cancellation(answer or CancelResult.REQUESTED, row)

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


async def hold_executions(
    session: Session, job_ids: Sequence[UUID], fire_ats: Sequence[Instant] | None = None
) -> None:
    """Keep executions of jobs, all or those at some fire times, as they are until commit, except for what
    this transaction does."""
    await session.execute(sql("hold_executions"), CELL, job_ids, fire_ats)
