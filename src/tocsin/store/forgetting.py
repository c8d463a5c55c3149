"""Removes rows that say nothing any more, a small batch at a time.

Jobs end by the million, among pending ones by the billion, so nothing may search for them. But the day that
they ended on knows them all: before a day of history is dropped, it is walked from its first block to its
last, and the jobs that ended on it go. How far it was walked stands in `day_walks`, written with what was
removed; a day that was walked may be dropped.

Rows that belong to no day are found by sweeps: some blocks of a table at a time, round and round. They need
no index, and so nothing that writes to these tables pays for them. Tables that users fill (tenants,
calendars, secrets) are theirs to tidy.

Live executions are swept, too: fires that were missed, that no worker starts, and that cannot run any more.
"""

from datetime import UTC, date, datetime, timedelta
from typing import Any, Final

import msgspec

from tocsin.db.pool import Database
from tocsin.domain.cells import CELL
from tocsin.domain.instant import DAY, MINUTE, Instant, from_datetime, to_datetime
from tocsin.store.forgetting_tenants import TenantForgetting
from tocsin.store.misfires import MisfireStore
from tocsin.store.statements import sql

BLOCKS: Final = 32
"""Of a day in one batch: about a thousand rows."""
KEYS: Final = 1000
SWEPT: Final = {
    "jobs": 8,
    "slots": 32,
    "limit_rates": 32,
    "backfills": 32,
    "queue_pauses": 32,
    "operations": 32,
    "dashboard_sessions": 32,
    "api_keys": 32,
    "tallies": 32,
    "workers": 32,
    "executions": 8,
}
"""Tables, and how many blocks a batch has. Of a job that seems to be over all days of history are asked, of
an execution that was missed its job."""
_UNSTARTED: Final = 5 * MINUTE
"""What was missed so long ago and is in the queue is not about to be started. Workers decide about what they
meet."""


class Batch(msgspec.Struct, frozen=True):
    """How much was removed, and whether there is more to look at."""

    forgotten: int = 0
    more: bool = False


class Walk(msgspec.Struct, frozen=True):
    """A day of history that retention no longer keeps, and how many later ones wait behind it."""

    partition: str
    day: date
    behind: int


class ForgettingStore:
    """What is over, on the database's clock."""

    def __init__(self, database: Database, days: int, audit_days: int) -> None:
        self._database = database
        self._misfires = MisfireStore(database)
        self._days = days
        self._audit_days = audit_days
        self.tenants = TenantForgetting(database)

    async def oldest_day(self, now: Instant) -> Walk | None:
        """The oldest day of history that is to be walked, if there is one."""
        rows = await self._database.fetch(
            "SELECT c.relname, to_date(right(c.relname, 8), 'YYYYMMDD') AS day"
            " FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid"
            " WHERE i.inhparent = 'history'::regclass AND c.relname ~ '^history_\\d{8}$'"
            " AND to_date(right(c.relname, 8), 'YYYYMMDD') < $1"
            " AND NOT EXISTS (SELECT FROM day_walks w WHERE w.partition = c.relname AND w.done) ORDER BY day",
            to_datetime(now - self._days * DAY).date(),
        )
        return Walk(rows[0]["relname"], rows[0]["day"], len(rows) - 1) if rows else None

    async def ended_jobs(self, walk: Walk, now: Instant) -> Batch:
        """Go on with a day: forget jobs that ended on it. Nothing is done while another node does it."""
        async with self._database.transaction() as session:
            await session.execute(
                "INSERT INTO day_walks (partition, block) VALUES ($1, 0) ON CONFLICT DO NOTHING",
                walk.partition,
            )
            row = await session.fetchrow(
                "SELECT block, pg_relation_size(partition::regclass) / 8192 AS blocks FROM day_walks"
                " WHERE partition = $1 AND NOT done FOR UPDATE SKIP LOCKED",
                walk.partition,
            )
            if row is None:
                return Batch()
            end = row["block"] + BLOCKS
            gone = await session.fetch(
                sql("forget_ended_jobs").replace("the_day", walk.partition),
                CELL,
                row["block"],
                end,
                now - self._days * DAY,
                _begin_of(walk.day + timedelta(days=1)),
            )
            await session.execute(
                "UPDATE day_walks SET block = $2, done = $3 WHERE partition = $1",
                walk.partition,
                end,
                end >= row["blocks"],
            )
            return Batch(len(gone), more=end < row["blocks"])

    async def keys(self, low_mark: Instant) -> tuple[Batch, Instant]:
        """Forget idempotency keys that expired from `low_mark` on. Returns where to go on, too."""
        rows = await self._database.fetch(sql("forget_keys"), low_mark, KEYS)
        low_mark = max((row["expires_at"] for row in rows), default=low_mark)
        return Batch(len(rows), more=len(rows) == KEYS), low_mark

    async def sweep(self, table: str, block: int, now: Instant, mark: int | None) -> int:
        """Forget what is over in the blocks of a table from `block` on. Returns how much. Slots are judged by
        `mark`: see the statement."""
        if table == "slots" and mark is None:
            return 0
        since: dict[str, Any] = {
            "limit_rates": now,
            "dashboard_sessions": now,
            "slots": mark,
            "api_keys": now - self._audit_days * DAY,
            "workers": now - DAY,
            "executions": now - _UNSTARTED,
        }
        horizon = since.get(table, now - self._days * DAY)
        found = await self._database.fetch(sql(f"sweep_{table}"), CELL, block, block + SWEPT[table], horizon)
        if table == "executions":
            return await self._misfires.drop([(row["tenant_id"], row["job_id"]) for row in found], now)
        return len(found)

    async def blocks(self, table: str) -> int:
        """How large a table is."""
        row = await self._database.one("SELECT pg_relation_size($1::text::regclass) / 8192 AS blocks", table)
        return int(row["blocks"])

    async def mark(self) -> int:
        """The oldest transaction that may still write: what was written before is older than it."""
        row = await self._database.one("SELECT pg_snapshot_xmin(pg_current_snapshot())::xid AS mark")
        return int(row["mark"])


def _begin_of(day: date) -> Instant:
    return from_datetime(datetime(day.year, day.month, day.day, tzinfo=UTC))
