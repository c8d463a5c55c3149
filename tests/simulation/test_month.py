"""A month of mixed work leaves every table, and everything that processes remember, within a stated bound."""

import asyncio
from collections import Counter
from pathlib import Path
from typing import Final

from tests.simulation.month import AUDIT_DAYS, HISTORY_DAYS, LINES, WINDOWS_A_DAY, Month
from tests.simulation.virtual_time import START, open_on_virtual_time, run_virtually
from tests.support.containers import containers
from tocsin.clock import VirtualClock
from tocsin.db.pool import Database, open_database
from tocsin.domain.shard import DEFAULT_SHARDS

DAYS: Final = 31
WINDOWS: Final = DAYS * WINDOWS_A_DAY
LIMITS_PAGE: Final = Path(__file__).parents[2] / "docs" / "operating" / "limits.md"
KEPT: Final = WINDOWS_A_DAY * (HISTORY_DAYS + 2)
"""Windows whose history is kept, with today and the day that is being forgotten."""
OF_USERS: Final = 10_000
"""What users and operators make is theirs to remove."""
BOUNDS: Final = {
    "jobs": 14 * (KEPT + 1),
    "executions": 5,  # of the paused queue the latest that was missed and what is not yet; of the last tenant
    # the next fire of a job, and the task with which its worker vanished
    "history": 18 * KEPT,
    "audit": 12 * WINDOWS_A_DAY * (AUDIT_DAYS + 2),
    "day_walks": 2,
    "idempotency": 2 * WINDOWS_A_DAY,
    "backfills": KEPT + 2,
    "queue_pauses": KEPT + 2,
    "operations": KEPT + 2,
    "operation_batches": 0,
    "operation_runs": 0,
    "dashboard_sessions": 4,
    "api_keys": WINDOWS + WINDOWS_A_DAY * (AUDIT_DAYS + 2) + 1,
    "tallies": 2 * 24 * (KEPT + 2),  # hours of a tenant's and the fleet's states, and the minutes of two days
    "forecasts": 8 * (KEPT + 2),
    "forecast_groups": KEPT + 2,
    "forecast_shards": DEFAULT_SHARDS,
    "slots": 2 * 3,
    "limit_rates": 2,
    "nodes": 3,
    "workers": 2 * WINDOWS_A_DAY,
    "attempt_logs": LINES * KEPT,
    "deciding": 0,
    "settlements": 0,
    "archives": 0,  # where none is kept; else one for each day and file
    "archive_leftovers": 0,
    "lanes": 3 * 3,
    "lanes_entered": 3 * 3,
    "shards": DEFAULT_SHARDS,
    "installation": 1,
    "migrations": 100,
    "limit_slots": 0,
    "tenants": OF_USERS,
    "tenant_logins": OF_USERS,
    "login_limits": OF_USERS,
    "queues": OF_USERS,
    "calendars": OF_USERS,
    "connections": OF_USERS,
    "secrets": OF_USERS,
    "webhook_secrets": OF_USERS,
    "declarations": OF_USERS,
    "alert_channels": OF_USERS,
    "alert_rules": OF_USERS,
    "alerts": 1,
}
PARTITIONS: Final = {
    "history": HISTORY_DAYS + 12,
    "audit": AUDIT_DAYS + 12,
    "attempt_logs": HISTORY_DAYS + 12,
}
"""Past days, today, a week ahead, yesterday, the default one, and what is being forgotten."""

FEW: Final = WINDOWS // 2
"""More than this is growth: of whatever comes with each tenant there are twice as many by then."""
REMEMBERED: Final = {
    "Leases._held": DEFAULT_SHARDS,
    "Leaser._kept": DEFAULT_SHARDS,
    "Planner._late_leases": DEFAULT_SHARDS,
    "Throttle._buckets": 10_000,
    "PendingJobs._estimates": 10_000,
    "Slots._made": 100_000,
    "HttpCaller._urls": 4096,
    "HostBreaker._troubled": 10_000,
    "Forecaster._known": DEFAULT_SHARDS,
    "Forecaster._todo": DEFAULT_SHARDS,
    "_Sums._kept": 2_000,
}
"""What is remembered by key, and at most how much of it; `docs/operating/limits.md` says so."""
REACHED: Final = {
    "HttpCaller._urls", "HostBreaker._troubled", "TokenSource._kept", "HostLines._hosts", "Slots._made",
    "Sessions._by_id", "HeldClaims._claims", "HeldClaims._heard_at", "ServedLanes._all", "LowMarks._marks",
    "RemoteSettler._waiting", "Planner._late_leases", "Throttle._buckets", "Alarm._waiting",
}  # fmt: skip
"""Some of what must be within reach: of the planner, the worker, its targets, the gateway, the API."""


def test_every_table_has_a_bound_here_and_on_the_page_of_limits(url: str) -> None:
    async def main() -> set[str]:
        database = await open_database(url, name="test", size=1)
        rows = await database.fetch(
            "SELECT relname FROM pg_class WHERE relnamespace = 'tocsin'::regnamespace AND relkind IN ('r', 'p')"
            " AND NOT relispartition"
        )
        await database.close()
        return {row["relname"] for row in rows}

    tables, page = asyncio.run(main()), LIMITS_PAGE.read_text()
    assert tables == set(BOUNDS)
    assert [table for table in tables if f"`{table}`" not in page] == []


def test_a_month_of_mixed_work_leaves_every_table_and_every_memory_bounded(url: str) -> None:
    clock = VirtualClock(START)

    async def main() -> None:
        database, virtual = await open_on_virtual_time(url, clock)
        leasing = await open_database(url, name="test leases", size=1)
        month = Month(database, leasing, virtual)
        await month.begin()
        for day in range(DAYS):
            await month.pass_day(day)
        try:
            await _expect_worked(leasing)
            await _expect_bounded_tables(leasing)
            _expect_bounded_memory(month)
        finally:
            await leasing.close()
            await database.close()

    run_virtually(clock, main())


async def _expect_worked(database: Database) -> None:
    row = await database.one("SELECT count(*) AS n, count(DISTINCT tenant_id) AS tenants FROM history")
    assert row["tenants"] >= HISTORY_DAYS * WINDOWS_A_DAY, "hardly anything ran: this proves nothing"
    rows = await database.fetch(
        """SELECT coalesce(j.target ->> 'url', j.target ->> 'kind') AS called, h.state, h.attempt
           FROM history h JOIN jobs j ON j.cell = h.cell AND j.id = h.job_id WHERE h.state NOT IN ('cancelled', 'skipped')"""
    )
    ends = Counter(
        (row["called"].removeprefix("https://").partition("-")[0], row["state"], row["attempt"])
        for row in rows
    )
    assert ends.keys() == {
        ("noop", "succeeded", 1),
        ("ops.example/", "succeeded", 1),  # an alert
        ("good", "succeeded", 1),
        ("recovering", "succeeded", 2),
        ("away", "dead", 2),
        ("wrong", "dead", 2),
        ("task", "succeeded", 1),
        ("task", "dead", 1),
    }
    assert (
        min(ends[kind, state, 2] for kind, state in (("away", "dead"), ("recovering", "succeeded")))
        > HISTORY_DAYS
    )


async def _expect_bounded_tables(database: Database) -> None:
    found = {table: (await database.one(f"SELECT count(*) AS n FROM {table}"))["n"] for table in BOUNDS}
    assert {table: n for table, n in found.items() if n > BOUNDS[table]} == {}
    for table, most in PARTITIONS.items():
        row = await database.one(
            "SELECT count(*) AS n FROM pg_inherits WHERE inhparent = $1::text::regclass", table
        )
        assert row["n"] <= most
        assert (await database.one(f"SELECT count(*) AS n FROM {table}_default"))["n"] == 0


def _expect_bounded_memory(month: Month) -> None:
    found = containers(month.node, month.api, month.gateway, month.forgetter, *month.services)
    assert found.keys() >= REACHED, "the way to what the parts remember was not found"
    assert {path: n for path, n in found.items() if n > REMEMBERED.get(path, FEW)} == {}
