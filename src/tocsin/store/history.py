"""History's partitions: made ahead, dropped whole. Nothing is ever deleted row by row."""

from datetime import timedelta
from typing import Final

from tocsin.db.pool import Database
from tocsin.domain.ids import new_job_id
from tocsin.domain.instant import DAY, Instant, to_datetime
from tocsin.store.statements import CELL

_PARTITIONED: Final = ("history", "audit")
_DAYS_AHEAD: Final = 7


class HistoryStore:
    """Partitions of the append-only tables, and the one-offs whose history is gone."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def make_partitions(self, now: Instant) -> int:
        """Make sure that today and the coming days have partitions."""
        made = 0
        async with self._database.transaction() as session:
            await session.execute("SET LOCAL lock_timeout = '2s'")
            await session.execute("SELECT pg_advisory_xact_lock(hashtext('tocsin partitions'))")
            first = to_datetime(now).date() - timedelta(days=1)
            for table in _PARTITIONED:
                row = await session.fetchrow(
                    "SELECT make_daily_partitions($1, $2, $3) AS made", table, first, _DAYS_AHEAD + 2
                )
                made += row["made"]
        return made

    async def drop_partitions(self, now: Instant, days: int, table: str = "history") -> int:
        """Drop the days of a table that are older than `days`."""
        async with self._database.transaction() as session:
            await session.execute("SET LOCAL lock_timeout = '2s'")
            horizon = to_datetime(now - days * DAY).date()
            row = await session.fetchrow("SELECT drop_daily_partitions($1, $2) AS dropped", table, horizon)
            return int(row["dropped"])

    async def forget_one_offs(self, now: Instant, days: int, limit: int = 1000) -> int:
        """Remove one-off jobs that completed so long ago that their history is gone. Ids sort by age."""
        newest = new_job_id(now - days * DAY)
        rows = await self._database.fetch(
            "DELETE FROM jobs WHERE (cell, id) IN (SELECT j.cell, j.id FROM jobs j WHERE j.cell = $1 AND j.id < $2"
            " AND j.kind = 'once' AND j.state <> 'paused' AND j.updated_at < tocsin_now() - make_interval(days => $4)"
            " AND NOT EXISTS (SELECT FROM executions e WHERE e.cell = j.cell AND e.job_id = j.id)"
            " AND NOT EXISTS (SELECT FROM history h WHERE h.cell = j.cell AND h.job_id = j.id)"
            " ORDER BY j.id LIMIT $3) RETURNING id",
            CELL,
            newest,
            limit,
            days,
        )
        return len(rows)

    async def forget_keys(self, limit: int = 10_000) -> int:
        """Remove idempotency keys that no longer count."""
        rows = await self._database.fetch(
            "DELETE FROM idempotency WHERE (tenant_id, key) IN (SELECT tenant_id, key FROM idempotency"
            " WHERE expires_at <= tocsin_now() ORDER BY expires_at LIMIT $1) AND expires_at <= tocsin_now() RETURNING 1",
            limit,
        )
        return len(rows)
