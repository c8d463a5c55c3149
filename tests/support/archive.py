"""An archive for tests: days of history made up in the database, and the archiver that takes them away."""

import asyncio
from pathlib import Path
from typing import Any

import duckdb
import msgspec

from tocsin.archive.tables import HISTORY, Table
from tocsin.archive.work import Place, perform
from tocsin.clock import VirtualClock
from tocsin.db.pool import Database
from tocsin.domain.instant import DAY, HOUR, SECOND, Instant
from tocsin.failpoints import Failpoints
from tocsin.scheduler.archiver import Archiver
from tocsin.scheduler.leaser import Leases
from tocsin.service import AGAIN_NOW
from tocsin.store.archived_days import ArchivedDays
from tocsin.store.archives import ArchiveStore
from tocsin.store.exporting import Export, export
from tocsin.store.history import HistoryStore
from tocsin.telemetry import Telemetry

NOW: Instant = 1_900_000_000 * SECOND // DAY * DAY + 6 * HOUR
"""In these tests: six o'clock in the morning of a day to come."""
_ROWS = """
    INSERT INTO history (cell, job_id, fire_at, tenant_id, queue, priority, cause, state, due_at, run_at, started_at, finished_at,
        attempt, attempts, outcome, reason, error_fingerprint, fire_count, node_id, claim_token, waits)
    SELECT 0, md5($1::text || (n % 37))::uuid, at - interval '1 s', 1 + n % 2, CASE n % 3 WHEN 0 THEN 'mail' ELSE 'default' END,
        n % 10, 'schedule', CASE n % 5 WHEN 0 THEN 'dead' WHEN 1 THEN 'expired' ELSE 'succeeded' END,
        at - interval '1 s', at - interval '1 s', CASE WHEN n % 5 <> 1 THEN at - interval '900 ms' END, at, 1 + n % 3,
        CASE WHEN n % 3 > 0 THEN '[{"number": 1, "verdict": "failed", "started_at": 1, "finished_at": 2, "node_id": 1}]'::jsonb END,
        CASE WHEN n % 2 = 0 THEN jsonb_build_object('verdict', 'succeeded', 'result', n) END,
        CASE n % 7 WHEN 0 THEN '' WHEN 1 THEN NULL WHEN 2 THEN E'two\\nlines, "quoted"\\r\\n\\\\.' WHEN 3 THEN 'Zürich \u2014 \U0001f514'
             ELSE 'reason ' || n END,
        CASE n % 5 WHEN 0 THEN 'print' || n % 2 END, 1, n % 4, n, CASE n % 11 WHEN 0 THEN '[]'::jsonb END
    FROM (SELECT n, $1::timestamptz + n * interval '7 s' AS at FROM generate_series(1, $2::integer) AS n) AS made"""
_NOTES = """
    INSERT INTO audit (at, tenant_id, actor, action, object, before, after, address)
    SELECT $1::timestamptz + n * interval '9 s', CASE WHEN n % 3 > 0 THEN n % 3 END, 'key', 'job.pause', 'job:' || n,
        '{"a": [1, null, "\u00e9"]}', CASE n % 2 WHEN 0 THEN jsonb_build_object('n', n) END, '127.0.0.1'
    FROM generate_series(1, $2::integer) AS n"""


class AllShards(Leases):
    """A node that leases everything."""

    def trusted(self) -> dict[int, int]:
        return {0: 1}


class Crash(BaseException):
    """The process dies here."""


async def inline(task: Any, kind: Any, module: str = "") -> Any:
    """What a process would answer, by this one: quicker."""
    answer = await export(task) if isinstance(task, Export) else await asyncio.to_thread(perform, task)
    return msgspec.json.decode(msgspec.json.encode(answer, enc_hook=str), type=kind)


async def fill_day(database: Database, day: Instant, rows: int, notes: int) -> None:
    """A day of history, and of the audit log."""
    for table, key in (("history", "finished_at"), ("audit", "at")):
        await database.execute(
            "SELECT make_day($1, $2, ($3::timestamptz AT TIME ZONE 'UTC')::date)", table, key, day
        )
    await database.execute(_ROWS, day, rows)
    await database.execute(_NOTES, day, notes)


class Days:
    """Days of history, an archiver and retention over one database."""

    def __init__(
        self,
        database: Database,
        url: str,
        place: Place,
        *,
        piece: int = 100,
        run: Any = inline,
        now: Instant = NOW,
    ) -> None:
        self.database = database
        self.place = place
        self.now = now
        self.failpoints = Failpoints()
        self.telemetry = Telemetry()
        self.store = ArchiveStore(database)
        self.history = HistoryStore(database, ArchivedDays(database, self.failpoints))
        self.archiver = Archiver(
            self.store,
            AllShards(VirtualClock(now), 10.0),
            VirtualClock(now),
            self.telemetry,
            self.failpoints,
            place,
            url,
            piece=piece,
            run=run,
        )

    async def fill(self, ago: int, rows: int, notes: int = 0) -> None:
        """Executions that ended so many days ago, of two tenants; and entries of the audit log."""
        for table in ("history", "audit"):  # empty ones
            await self.database.execute("SELECT drop_daily_partitions($1, '2029-01-01')", table)
        await fill_day(self.database, self.now // DAY * DAY - ago * DAY, rows, notes)
        await self.database.execute(
            "INSERT INTO day_walks (partition, block, done) SELECT c.relname, 0, true FROM pg_inherits i"
            " JOIN pg_class c ON c.oid = i.inhrelid WHERE i.inhparent = 'history'::regclass ON CONFLICT DO NOTHING"
        )

    async def archive(self) -> int:
        """Archive all there is to. Returns how many rows."""
        rows, again = 0, AGAIN_NOW
        while again == AGAIN_NOW:
            report = await self.archiver.run_once(self.now)
            rows, again = rows + report.done, report.again_at or 0
        return rows

    async def drop(self, days: int = 1) -> int:
        """What retention does. Returns how many days of history went."""
        await self.history.drop_partitions(self.now, days, "audit")
        return await self.history.drop_partitions(self.now, days)

    async def tidy(self, days: int = 1, tries: int = 50) -> None:
        """Archive and drop until nothing is left to, whatever comes in between."""
        for _ in range(tries):
            self.archiver._not_before = 0
            await self.archive()
            await self.drop(days)
            self.archiver._not_before = 0
            if not await self.old_days(days):
                return
        raise AssertionError(await self.database.fetch("SELECT * FROM archives"))

    async def old_days(self, days: int = 1) -> list[str]:
        """Partitions that retention should have dropped."""
        horizon = (self.now - days * DAY) // DAY * DAY
        rows = await self.database.fetch(
            "SELECT c.relname FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid"
            " WHERE i.inhparent IN ('history'::regclass, 'audit'::regclass) AND c.relname ~ '_\\d{8}$'"
            " AND to_date(right(c.relname, 8), 'YYYYMMDD') < ($1::timestamptz AT TIME ZONE 'UTC')::date",
            horizon,
        )
        return [row["relname"] for row in rows]

    async def stored(self, table: Table = HISTORY) -> list[str]:
        """The rows in the database, as text."""
        columns = ", ".join(column.name for column in table.columns)
        selected = table.selected.removesuffix(f", {table.extra}")
        rows = await self.database.fetch(
            f"SELECT row_to_json(t)::text AS row FROM (SELECT {selected} FROM {table.name}) AS t ({columns})"
        )
        return sorted(_normal(msgspec.json.decode(row["row"])) for row in rows)

    async def archived(self, table: Table = HISTORY, folder: Path | None = None) -> list[str]:
        """The rows in the archive's files, as text, read as anybody would: without a line of ours."""
        rows = await self.database.fetch(
            "SELECT object FROM archives WHERE name = $1 AND state = 'dropped' AND object IS NOT NULL",
            table.name,
        )
        found: list[str] = []
        for row in rows:
            file = str((folder or Path(self.place.where)) / row["object"])
            columns = ", ".join(f'"{column.name}"' for column in table.columns)
            result = duckdb.execute(f"SELECT {columns} FROM '{file}'")
            names = [column[0] for column in result.description]
            found += [_normal(dict(zip(names, one, strict=True))) for one in result.fetchall()]
        return sorted(found)

    def crash_at(self, point: str) -> None:
        """Die there, the next time."""

        async def crash() -> None:
            self.failpoints._armed.pop(point)
            raise Crash(point)

        self.failpoints.arm(point, crash)


def _normal(row: dict[str, Any]) -> str:
    return msgspec.json.encode(
        {name: value if value is None else str(value) for name, value in row.items()}, order="sorted"
    ).decode()
