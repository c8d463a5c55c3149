"""Days of history and of the audit log: made ahead, dropped whole, whatever else is in the way."""

import asyncio
from collections.abc import Coroutine
from typing import Any

import pytest

from tests.simulation.virtual_time import START, open_on_virtual_time
from tocsin.clock import VirtualClock
from tocsin.db.pool import Database, open_connection, open_database
from tocsin.domain.instant import DAY, MINUTE, Instant, format_instant
from tocsin.roles.preparing import prepare
from tocsin.scheduler.leaser import Leases
from tocsin.scheduler.retention import Retention
from tocsin.settings import Settings
from tocsin.store.history import HistoryStore
from tocsin.store.leases import LeaseStore

_ROW = (
    "INSERT INTO history (cell, job_id, fire_at, tenant_id, queue, priority, cause, state, due_at, run_at,"
    " finished_at, attempt) VALUES (0, gen_random_uuid(), $1, 1, 'default', 5, 'schedule', 'succeeded', $1, $1, $1, 1)"
)
_NOTE = "INSERT INTO audit (at, tenant_id, actor, action, object) VALUES ($1, 1, 'test', 'test', 'test')"
_DAYS = (
    "SELECT c.relname FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid"
    " WHERE i.inhparent = $1::text::regclass ORDER BY 1"
)


class AllShards(Leases):
    """A node that leases everything."""

    def trusted(self) -> dict[int, int]:
        return {0: 1}


@pytest.mark.parametrize(("table", "row"), [("history", _ROW), ("audit", _NOTE)])
def test_rows_in_the_default_partition_move_into_their_day_when_it_is_made(
    url: str, table: str, row: str
) -> None:
    async def main() -> None:
        database, _ = await open_on_virtual_time(url, VirtualClock(START))
        await database.execute(row, START + 8 * DAY)
        assert await _count(database, f"{table}_default") == 1
        await HistoryStore(database).make_partitions(START + DAY)
        assert await _count(database, f"{table}_default") == 0
        assert await _count(database, _name(table, START + 8 * DAY)) == 1
        await database.close()

    _run(main())


def test_days_that_nobody_made_in_time_get_their_partitions_later(url: str) -> None:
    """No scheduler ran for weeks; workers went on, and what they wrote is older than yesterday by now."""

    async def main() -> None:
        database, _ = await open_on_virtual_time(url, VirtualClock(START))
        for day in range(8, 21):
            await database.execute(_ROW, START + day * DAY)
        retention = _retention(database, days=10)
        await retention.run_once(START + 20 * DAY)
        assert await _count(database, "history_default") == 0
        assert await _count(database, "history") == 11  # what is older than ten days is gone
        assert await _count(database, _name("history", START + 12 * DAY)) == 1
        await database.close()

    _run(main())


def test_rows_far_ahead_stay_in_the_default_partition_and_stop_nothing(url: str) -> None:
    async def main() -> None:
        database, _ = await open_on_virtual_time(url, VirtualClock(START))
        await database.execute(_ROW, START + 400 * DAY)
        await _retention(database, days=5).run_once(START + 3 * DAY)
        assert _name("history", START + 10 * DAY) in await _days(database)
        assert await _count(database, "history_default") == 1
        await database.close()

    _run(main())


def test_a_day_that_cannot_be_made_keeps_no_other_from_being_made_or_dropped(url: str) -> None:
    async def main() -> None:
        database, _ = await open_on_virtual_time(url, VirtualClock(START))
        await database.execute(f"CREATE DOMAIN {_name('history', START + 15 * DAY)} AS integer")
        await _retention(database, days=1).run_once(START + 12 * DAY)
        days = await _days(database)
        assert _name("history", START) not in days
        assert _name("history", START + 15 * DAY) not in days
        assert _name("history", START + 16 * DAY) in days
        await database.close()

    _run(main())


def test_a_day_that_cannot_be_dropped_keeps_no_other_from_being_dropped(url: str) -> None:
    async def main() -> None:
        database, _ = await open_on_virtual_time(url, VirtualClock(START))
        kept = _name("history", START)
        await database.execute(f"CREATE VIEW report AS SELECT count(*) FROM {kept}")  # an operator's
        retention = _retention(database, days=1)
        await retention.run_once(START + 12 * DAY)
        days = await _days(database)
        assert kept in days
        assert _name("history", START + DAY) not in days
        await database.close()

    _run(main())


def test_the_start_does_not_fail_for_want_of_a_partition(url: str, tmp_path: Any) -> None:
    async def main() -> None:
        database = await open_database(url, name="test", size=1)
        await database.execute(f"DROP TABLE {(await _days(database))[-2]}")
        reader = await open_connection(url, name="backup")
        await reader.execute("BEGIN; LOCK TABLE history_default, audit_default IN ACCESS SHARE MODE")
        await prepare(url, Settings(data_dir=tmp_path), announce=False)
        await reader.close()
        await database.close()

    _run(main())


def test_a_transaction_that_reads_history_delays_no_settlement_while_a_day_is_to_be_dropped(url: str) -> None:
    async def main() -> None:
        database, _ = await open_on_virtual_time(url, VirtualClock(START))
        reader = await open_connection(url, name="backup")
        await reader.execute("BEGIN; SELECT count(*) FROM history")
        settling = await open_connection(url, name="settling")
        await settling.execute("SET lock_timeout = '1800ms'")  # beyond this a settlement was held up
        retention = _retention(database, days=1)
        now = await _first_day_is_over(database)
        tending = asyncio.create_task(retention.run_once(now))
        while not tending.done():
            await settling.execute(_ROW, START)
            await asyncio.sleep(0)
        report = await tending
        assert report.again_at is not None
        assert report.again_at >= now + MINUTE
        await reader.close()
        await settling.close()
        await database.close()

    _run(main())


def test_a_day_that_is_in_use_is_tried_again_minutes_later_however_often_the_scheduler_is_woken(
    url: str,
) -> None:
    async def main() -> None:
        database, _ = await open_on_virtual_time(url, VirtualClock(START))
        reader = await open_connection(url, name="backup")
        await reader.execute("BEGIN; SELECT count(*) FROM history")
        store = CountingStore(database)
        retention = _retention(database, days=1, store=store)
        now = await _first_day_is_over(database)
        for second in range(60):
            await retention.run_once(now + second * 1_000_000)
        assert store.tries == 1
        await reader.execute("COMMIT")
        await retention.run_once(now + 10 * MINUTE)
        assert _name("history", START) not in await _days(database)
        await reader.close()
        await database.close()

    _run(main())


class CountingStore(HistoryStore):
    """Counts how often it is asked to drop days of history."""

    tries = 0

    async def drop_partitions(self, now: Instant, days: int, table: str = "history") -> int:
        self.tries += table == "history"
        return await super().drop_partitions(now, days, table)


def _retention(database: Database, *, days: int, store: HistoryStore | None = None) -> Retention:
    nodes = LeaseStore(database, 4.0)
    return Retention(store or HistoryStore(database), nodes, AllShards(VirtualClock(START), 4.0), days)


async def _first_day_is_over(database: Database) -> Instant:
    """Its jobs are forgotten, and retention no longer keeps it. Returns when that is."""
    await database.execute(
        "INSERT INTO day_walks (partition, block, done) VALUES ($1, 0, true)", _name("history", START)
    )
    return START + 2 * DAY


def _name(table: str, instant: Instant) -> str:
    return f"{table}_{format_instant(instant)[:10].replace('-', '')}"


async def _days(database: Database, table: str = "history") -> list[str]:
    return [row["relname"] for row in await database.fetch(_DAYS, table)]


async def _count(database: Database, table: str) -> int:
    return int((await database.one(f"SELECT count(*) AS n FROM {table}"))["n"])


def _run(main: Coroutine[Any, Any, None]) -> None:
    asyncio.run(main)
