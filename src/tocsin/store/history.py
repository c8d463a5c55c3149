"""The days of the append-only tables: made ahead, dropped whole.

Each day is one transaction, so that a day that cannot be made or dropped now keeps no other from it. Making a
day locks the default partition, dropping one locks the whole table, and whatever reads history for long, as a
backup does, is in the way of both; everything that settles would then stand in line behind us. So a lock is
waited for no longer than a settlement may be held up, and `Unavailable` says: not now, come again in some
minutes. Nothing here is urgent, because a row whose day is missing goes into the default partition, and moves
when its day is made.

Where there is an archive, a day of what is archived is dropped by `archived_days`, or waits.
"""

from collections.abc import Iterable, Sequence
from datetime import date, timedelta
from typing import Final

import structlog

from tocsin.archive.tables import TABLES, Table
from tocsin.db.pool import Database, DatabaseError
from tocsin.domain.instant import DAY, Instant, to_datetime
from tocsin.store.archived_days import ArchivedDays

_KEY_OF: Final = {"history": "finished_at", "audit": "at", "attempt_logs": "at"}
_DAYS_AHEAD: Final = 7
_WAIT_FOR_WALK: Final = timedelta(days=7)
"""How much longer a day is kept at most when its jobs are not forgotten."""
_LOCK_TIMEOUT_MS: Final = 50
_OVERDUE: Final = timedelta(days=2)
_LOCK_TIMEOUT_WHEN_OVERDUE_MS: Final = 1000
"""On a slow disk settlements may always take longer than the short timeout; then the disk must not fill
up."""
_MOVING_SECONDS: Final = 3600
"""A day that was not made in time may have many rows."""
_log = structlog.get_logger()


class HistoryStore:
    """Partitions of the append-only tables."""

    def __init__(self, database: Database, archived: ArchivedDays | None = None) -> None:
        """`archived`: what drops the days of archived tables, once they are in the archive."""
        self._database = database
        self._archived = archived

    async def make_partitions(self, now: Instant) -> int:
        """Make sure that today, the coming days, yesterday, and days of which there are rows already have
        partitions."""
        today = to_datetime(now).date()
        wanted = [today + timedelta(days=number) for number in (*range(_DAYS_AHEAD + 1), -1)]
        made = 0
        for table in _KEY_OF:
            strays = [day for day in await self._days_of_strays(table) if day < wanted[-1]]
            made += await self._make(table, [*wanted, *strays])
        return made

    async def drop_partitions(self, now: Instant, days: int, table: str = "history") -> int:
        """Drop the days of a table that are older than `days`."""
        horizon = to_datetime(now - days * DAY).date()
        old = [day for day in await self._days(table) if day < horizon]
        if table == "history":
            old = await self._walked(old, horizon)
        if self._archived is not None and table in TABLES:
            return await self._drop_archived(self._archived, TABLES[table], old, horizon)
        for day in old:
            try:
                await self._drop(_partition(table, day), _patience(day, horizon))
            except DatabaseError as error:  # something that is not ours depends on it; the others can go
                _log.error("partition.not_dropped", table=table, day=str(day), error=str(error))
        if any(day < horizon for day in await self._days_of_strays(table)):
            await self._drop_strays(table, horizon)
        return len(old)

    async def _drop_archived(
        self, archived: ArchivedDays, table: Table, old: Sequence[date], horizon: date
    ) -> int:
        """Rows that lie in no day stay, for their days are made, and archived like others."""
        waiting = [day for day in old if not await archived.drop(table, day, _patience(day, horizon))]
        if waiting:
            _log.warning(
                "history.waits_for_archive", table=table.name, day=str(waiting[0]), days=len(waiting)
            )
        return len(old) - len(waiting)

    async def _walked(self, days: Sequence[date], horizon: date) -> list[date]:
        """Those whose ended jobs are forgotten, and those for which that was waited for too long."""
        rows = await self._database.fetch("SELECT partition FROM day_walks WHERE done")
        walked = {row["partition"] for row in rows}
        return [day for day in days if _partition("history", day) in walked or day < horizon - _WAIT_FOR_WALK]

    async def _drop(self, partition: str, lock_timeout: int) -> None:
        async with self._database.transaction() as session:
            await session.execute(f"SET LOCAL lock_timeout = {lock_timeout}")
            await session.execute(f"DROP TABLE IF EXISTS {partition}")
            await session.execute("DELETE FROM day_walks WHERE partition = $1", partition)

    async def _make(self, table: str, days: Iterable[date]) -> int:
        there, made = await self._days(table), 0
        for day in days:
            if day in there:
                continue
            try:
                made += await self._make_day(table, day)
            except DatabaseError as error:  # the other days are as good as ever
                _log.error("partition.not_made", table=table, day=str(day), error=str(error))
        return made

    async def _make_day(self, table: str, day: date) -> bool:
        # The move is rolled back if the lock that is needed at the end cannot be had.
        async with self._database.transaction() as session:
            await session.execute(_BRIEFLY)
            await session.execute(f"LOCK TABLE {table}_default IN ACCESS EXCLUSIVE MODE")
        async with self._database.transaction() as session:
            await session.execute(_PATIENTLY)
            await session.execute("SELECT pg_advisory_xact_lock(hashtext('tocsin partitions'))")
            made = "SELECT make_day($1, $2, $3) AS made"
            row = await session.fetchrow(made, table, _KEY_OF[table], day, timeout=_MOVING_SECONDS)
            return bool(row["made"])

    async def _drop_strays(self, table: str, horizon: date) -> None:
        async with self._database.transaction() as session:
            await session.execute(_PATIENTLY)
            old = (
                f"DELETE FROM {table}_default WHERE {_KEY_OF[table]} < $1::date::timestamp AT TIME ZONE 'UTC'"  # noqa: S608
            )
            await session.execute(old, horizon, timeout=_MOVING_SECONDS)

    async def _days(self, table: str) -> list[date]:
        rows = await self._database.fetch(
            "SELECT to_date(right(c.relname, 8), 'YYYYMMDD') AS day FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid"
            " WHERE i.inhparent = $1::text::regclass AND c.relname ~ '_\\d{8}$' ORDER BY day",
            table,
        )
        return [row["day"] for row in rows]

    async def _days_of_strays(self, table: str) -> list[date]:
        """Days of which there are rows in the default partition. It is empty, but for a few rows after
        trouble."""
        async with self._database.transaction() as session:
            await session.execute(_PATIENTLY)
            rows = await session.fetch(
                f"SELECT DISTINCT ({_KEY_OF[table]} AT TIME ZONE 'UTC')::date AS day FROM {table}_default ORDER BY day DESC",  # noqa: S608
                timeout=_MOVING_SECONDS,
            )
        return [row["day"] for row in rows]


def _patience(day: date, horizon: date) -> int:
    return _LOCK_TIMEOUT_WHEN_OVERDUE_MS if day < horizon - _OVERDUE else _LOCK_TIMEOUT_MS


def _partition(table: str, day: date) -> str:
    return f"{table}_{day:%Y%m%d}"


_BRIEFLY: Final = f"SET LOCAL lock_timeout = {_LOCK_TIMEOUT_MS}"
# Nothing but a scan finds rows by their day alone, and engine connections would rather walk an index.
_PATIENTLY: Final = (
    f"{_BRIEFLY}; SET LOCAL statement_timeout = '{_MOVING_SECONDS}s'; SET LOCAL enable_seqscan = on"
)
