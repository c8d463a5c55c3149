"""Removes what was a tenant's, a small batch at a time: history that it keeps for fewer days than others, and
everything once the tenant is deleted.

A deleted tenant is suspended, so nothing of it begins any more; what runs may end first. The row of the
tenant goes last, and the foreign keys see to it that nothing is left behind. The audit log stays.
"""

from collections.abc import Sequence
from typing import Final
from uuid import UUID

import structlog

from tocsin.db.pool import Database, Record
from tocsin.domain.cells import CELL
from tocsin.domain.instant import DAY, Instant
from tocsin.store.executions import hold_executions
from tocsin.store.statements import sql

BATCH: Final = 1000
_FIRST: Final = UUID(int=0)
_OWNED: Final = (
    "idempotency", "backfills", "queue_pauses", "operations", "queues", "calendars", "alert_rules", "alert_channels",
    "connections", "secrets", "webhook_secrets", "declarations", "workers", "dashboard_sessions", "api_keys",
    "login_limits", "tallies", "forecasts", "forecast_groups", "limit_rates", "slots",
    "limit_slots", "lanes_entered", "settlements",
)  # fmt: skip
"""Tables with a tenant's rows beside jobs, executions, history and their logs, in the order in which they
go. Lanes are the lane remover's."""
_log = structlog.get_logger()


class TenantForgetting:
    """What deleted tenants had, and what tenants keep no longer."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._after: dict[int, UUID] = {}
        """How far the jobs of a tenant have been walked: those that still run are passed over."""

    async def deleted(self) -> Record | None:
        """The tenant that was deleted first and is still there."""
        return await self._database.fetchrow(
            "SELECT id, name, deleted_at FROM tenants WHERE deleted_at IS NOT NULL ORDER BY deleted_at LIMIT 1"
        )

    async def brief(self) -> list[Record]:
        """Tenants that keep history for a number of days of their own."""
        return await self._database.fetch(
            "SELECT id, (limits ->> 'history_days')::integer AS days FROM tenants"
            " WHERE limits ? 'history_days' AND deleted_at IS NULL ORDER BY id"
        )

    async def history(self, tenant_id: int, before: Instant) -> int:
        """Remove a batch of what ended before an instant. Returns how much."""
        oldest = await self._database.fetchrow(
            "SELECT tableoid::regclass::text AS day FROM history WHERE tenant_id = $1 AND finished_at < $2"
            " ORDER BY finished_at LIMIT 1",
            tenant_id,
            before,
        )
        if oldest is None:
            return 0
        statement = sql("forget_history_of_tenant").replace("the_day", oldest["day"])
        return len(await self._database.fetch(statement, CELL, tenant_id, before, BATCH))

    async def everything(self, tenant: Record, now: Instant) -> tuple[int, bool]:
        """Remove a batch of what a deleted tenant has. Returns how much, and whether the tenant is gone."""
        tenant_id = tenant["id"]
        if gone := await self._jobs(tenant_id) or await self.history(tenant_id, now + DAY):
            return gone, False
        for table in _OWNED:
            if gone := await self._rows(table, tenant_id):
                return gone, False
        row = await self._database.fetchrow(
            "DELETE FROM tenants WHERE id = $1 AND deleted_at IS NOT NULL"
            " AND NOT EXISTS (SELECT FROM jobs WHERE tenant_id = $1) RETURNING name",
            tenant_id,
        )
        self._after.pop(tenant_id, None)
        if row is not None:
            _log.info("tenant.forgotten", tenant=tenant["name"])
        return 0, row is not None

    async def _jobs(self, tenant_id: int) -> int:
        """Remove jobs with what waits of them. One that still runs stays until it has ended."""
        after = self._after.get(tenant_id, _FIRST)
        async with self._database.transaction() as session:
            rows = await session.fetch(
                "SELECT id FROM jobs WHERE cell = $1 AND tenant_id = $2 AND id > $3 ORDER BY id LIMIT $4"
                " FOR UPDATE SKIP LOCKED",
                CELL,
                tenant_id,
                after,
                BATCH,
            )
            if not rows:
                self._after.pop(tenant_id, None)
                return 0
            ids: Sequence[UUID] = [row["id"] for row in rows]
            await hold_executions(session, ids)
            await session.execute(
                "DELETE FROM executions WHERE cell = $1 AND job_id = ANY ($2::uuid[]) AND started_at IS NULL",
                CELL,
                ids,
            )
            gone = await session.fetch(
                "DELETE FROM jobs j WHERE j.cell = $1 AND j.id = ANY ($2::uuid[]) AND NOT EXISTS"
                " (SELECT FROM executions e WHERE e.cell = $1 AND e.job_id = j.id OFFSET 0) RETURNING 1",
                CELL,
                ids,
            )
        self._after[tenant_id] = ids[-1]
        return len(gone)

    async def _rows(self, table: str, tenant_id: int) -> int:
        rows = await self._database.fetch(
            f"DELETE FROM {table} WHERE ctid = ANY (ARRAY (SELECT ctid FROM {table} WHERE tenant_id = $1 LIMIT $2)) RETURNING 1",  # noqa: S608
            tenant_id,
            BATCH,
        )
        return len(rows)
