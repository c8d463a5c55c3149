"""The doctor finds each trouble that there is, names what mends it, and finds nothing in a healthy fleet.

Troubles are made in a real database: most in a transaction that is undone, so that they share one.
"""

import asyncio
import json
import re
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from typing import Any

import asyncpg
import pytest
from click.testing import CliRunner

from tests.support.api import in_process_api
from tests.support.commands import every_command
from tests.support.postgres import Cluster
from tests.support.processes import free_port
from tocsin.cli.main import cli
from tocsin.db.pool import Database, open_database
from tocsin.domain import findings
from tocsin.domain.findings import FINDINGS, Finding, diagnose
from tocsin.domain.picture import DatabaseSeen, NodeSeen, Picture
from tocsin.store import picture as pictures
from tocsin.store.picture import PictureStore

STATS = """[["s", "gauge", "", [["tocsin_worker_saturation", {}, %s], ["tocsin_clock_uncertainty_seconds", {}, %s],
 ["tocsin_leases_lost_total", {}, %s], ["tocsin_disk_free_ratio", {"place": "temporary"}, %s], ["tocsin_part_errors_total", {"part": "planner", "kind": "defect"}, %s]]]]"""
NODE = (
    "INSERT INTO nodes (id, name, roles, version, schema, expires_at, routes, stats) VALUES (%s, '%s', %s, '%s', %s,"
    " tocsin_now() + interval '%s', '{http,noop}', '%s')"
)
ENGINE = "ARRAY['scheduler', 'worker']"
NEWEST = "(SELECT max(number) FROM migrations)"


def node(
    id_: int = 1, name: str = "engine", roles: str = ENGINE, version: str = "1", schema: str = NEWEST, lasts: str = "1 h",
    saturation: float = 0.4, uncertain: float = 0.001, lost: int = 0,
    free: float = 0.4, defects: int = 0,
) -> str:  # fmt: skip
    return NODE % (
        id_, name, roles, version, schema, lasts, STATS % (saturation, uncertain, lost, free, defects)
    )  # fmt: skip


def waiting(
    number: int = 1, due: str = "5 min", queue: str = "default", route: str = "noop", attempt: int = 1, waits: str = "NULL"
) -> str:  # fmt: skip
    return (
        "INSERT INTO executions (cell, job_id, fire_at, tenant_id, queue, priority, due_at, run_at, route, attempt, waits_for)"
        f" SELECT 0, gen_random_uuid(), t, 1, '{queue}', 5, t, t, '{route}', {attempt}, {waits}"
        f" FROM generate_series(1, {number}), (SELECT tocsin_now() - interval '{due}' AS t) AS at"
    )


OWNED = "UPDATE shards SET owner = 1, expires_at = tocsin_now() + interval '1 h'"
HEALTHY = [node(), OWNED]
TOMORROW = "(tocsin_now() AT TIME ZONE 'UTC')::date + 1"

SITUATIONS: dict[str, Sequence[str]] = {
    "no_scheduler": [node(roles="ARRAY['worker']"), OWNED],
    "no_worker": [node(roles="ARRAY['scheduler']"), OWNED],
    "little_disk": [node(free=0.04), OWNED],
    "unowned_shards": [*HEALTHY, "UPDATE shards SET owner = NULL WHERE shard < 3"],
    "nothing_planned": [
        *HEALTHY,
        ("INSERT INTO jobs (cell, id, tenant_id, shard, kind, state, queue, priority, schedule, target, policies, next_fire_at)"
        """ VALUES (0, gen_random_uuid(), 1, 0, 'recurring', 'active', 'default', 5, '{"every": 60}', '{"kind": "noop"}', '{}',"""
        " tocsin_now() - interval '5 min')"),
    ],
    "claims_not_taken_back": [
        *HEALTHY, waiting(),
        "UPDATE executions SET claim_token = 1, node_id = 1, deadline_at = tocsin_now() - interval '5 min'",
    ],
    "unserved_routes": [*HEALTHY, waiting(route="task:resize")],
    "paused_queues": [
        *HEALTHY, waiting(), ("INSERT INTO queues (tenant_id, name, paused_at, reason)"
        " VALUES (1, 'default', tocsin_now() - interval '1 h', 'maintenance')"),
    ],
    "suspended_tenants": [*HEALTHY, waiting(), "UPDATE tenants SET state = 'suspended' WHERE id = 1"],
    "full_workers": [node(saturation=1.0), OWNED, waiting()],
    "exploding_retries": [*HEALTHY, waiting(30, due="-1 min", attempt=4), waiting(5, due="-1 min")],
    "resting_hosts": [*HEALTHY, waiting(40, due="-1 min", waits="'host'")],
    "waits_for_newer": [*HEALTHY, waiting(1, due="-1 min", waits="'version'")],
    "busy_limits": [*HEALTHY, waiting(40, due="-1 min", waits="'slot'")],
    "late_queues": [*HEALTHY, waiting()],
    "dead_letters": [
        *HEALTHY, ("INSERT INTO tallies (tenant_id, step_s, bucket, queue, state, node_id, count)"
        " VALUES (0, 10, tocsin_now() - interval '1 min', 'default', 'dead', 0, 60),"
        " (0, 10, tocsin_now() - interval '1 min', 'default', 'succeeded', 1, 100)"),
    ],
    "vanished_nodes": [*HEALTHY, node(2, "gone", lasts="-1 min")],
    "lease_churn": [node(lost=5000), OWNED],
    "failing_parts": [node(defects=3), OWNED],
    "uncertain_clock": [node(uncertain=2.5), OWNED],
    "older_than_the_schema": [node(schema="1"), OWNED],
    "mixed_versions": [*HEALTHY, node(2, "newer", version="2")],
    "near_limits": [
        *HEALTHY, """UPDATE tenants SET limits = '{"pending_jobs": 10}' WHERE id = 1""",
        ("INSERT INTO jobs (cell, id, tenant_id, shard, kind, state, queue, priority, schedule, target, policies, next_fire_at)"
        """ SELECT 0, gen_random_uuid(), 1, 0, 'recurring', 'active', 'default', 5, '{"every": 60}', '{"kind": "noop"}', '{}',"""
        " tocsin_now() + interval '5 min' FROM generate_series(1, 9)"),
    ],
    "missing_partitions": [
        *HEALTHY, "DO $$ BEGIN EXECUTE 'DROP TABLE ' || to_char((tocsin_now() AT TIME ZONE 'UTC')::date + 1, '\"history_\"YYYYMMDD'); END $$",
    ],
    "failing_archive": [
        *HEALTHY, ("INSERT INTO archives (name, day, round, part, edition, failures, trouble)"
        " VALUES ('history', '2026-11-01', 0, 0, 1, 3, 'the archive cannot be written: No space left on device')"),
    ],
    "undropped_partitions": [
        *HEALTHY, "CREATE TABLE history_20200101 PARTITION OF history FOR VALUES FROM ('2020-01-01') TO ('2020-01-02')",
    ],
    "unsafe_settings": [*HEALTHY, "SET LOCAL synchronous_commit = off"],
}  # fmt: skip


class Inside:
    """A database as one of its transactions sees it."""

    def __init__(self, session: Any) -> None:
        self.fetch, self.fetchrow, self.execute = session.fetch, session.fetchrow, session.execute
        self.delay = 0.0

    async def within(self, _: float, query: str, *args: Any) -> Any:
        return await self.fetch(query, *args)

    async def one(self, query: str, *args: Any) -> Any:
        await asyncio.sleep(self.delay)
        return await self.fetchrow(query, *args)


@pytest.fixture(scope="module")
def shared(cluster: Cluster) -> Iterator[str]:
    url = cluster.new_database()
    yield url
    cluster.drop(url)


def found(url: str, statements: Sequence[str], delay: float = 0.0, **seen: Any) -> list[Finding]:
    """What the doctor says where these were done; they are undone in the end."""

    async def look(database: Database) -> list[Finding]:
        async with database.trial() as session:
            for statement in statements:
                await session.execute(statement)
            inside: Any = Inside(session)
            inside.delay = delay
            store = PictureStore(inside)
            given = {"history_days": 30, "wall_clock": time.time(), "row_security": None, "disk_free": None}
            return diagnose(await store.take(**given | seen))

    return with_open(url, look)


def with_open(url: str, look: Callable[[Database], Awaitable[list[Finding]]]) -> list[Finding]:
    async def run() -> list[Finding]:
        database = await open_database(url, name="doctor", size=3)
        try:
            return await look(database)
        finally:
            await database.close()

    return asyncio.run(run())


def codes(of: Sequence[Finding]) -> list[str]:
    return [one.code for one in of]


def test_nothing_is_wrong_with_a_healthy_fleet_under_load(shared: str) -> None:
    load = [waiting(500, due="2 s"), waiting(50, due="-10 s", attempt=2), waiting(5, queue="mail", due="1 s")]
    assert found(shared, [*HEALTHY, *load]) == []


def test_a_node_that_was_frozen_once_or_twice_does_not_churn(shared: str) -> None:
    assert found(shared, [node(lost=512), OWNED]) == []


@pytest.mark.parametrize("code", SITUATIONS)
def test_a_trouble_is_found_first_and_names_what_mends_it(shared: str, code: str) -> None:
    first, *others = found(shared, SITUATIONS[code])
    assert first.code == code
    assert first.evidence
    assert first.fix
    for words in re.findall(r"^tocsin ([a-z-]+)", first.fix):
        assert list(every_command(words)), first.fix
    assert not others or code == "no_worker", others  # one cause, one finding


@pytest.mark.parametrize(
    ("code", "seen"),
    [
        ("slow_database", {"delay": 0.15}),
        ("wrong_clock", {"wall_clock": time.time() - 3600}),
        ("little_disk", {"disk_free": 0.04}),
        ("open_wall", {"row_security": "the login may not turn into tocsin_api"}),
    ],
)
def test_a_trouble_around_the_database_is_found(shared: str, code: str, seen: dict[str, Any]) -> None:
    assert codes(found(shared, HEALTHY, **seen)) == [code]


def test_a_lock_that_others_wait_for_is_found_with_its_process_though_tables_cannot_be_read(
    shared: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(findings, "_BLOCKING_S", 0.0)
    monkeypatch.setattr(pictures, "_PATIENCE_S", 0.1)

    async def look(database: Database) -> list[Finding]:
        holder = await asyncpg.connect(shared, server_settings={"application_name": "a forgotten psql"})
        waiter = await asyncpg.connect(shared)
        await holder.execute("BEGIN; LOCK TABLE tocsin.queues")
        wait = asyncio.create_task(waiter.execute("BEGIN; LOCK TABLE tocsin.queues"))
        store, seen = PictureStore(database), []
        deadline = time.monotonic() + 30
        while len(seen) < 2 and time.monotonic() < deadline:
            seen = diagnose(await store.take(30, time.time(), None, None))
        pid = holder.get_server_pid()
        await holder.close()
        await asyncio.gather(wait, return_exceptions=True)
        await waiter.close()
        assert str(pid) in seen[0].fix
        assert "a forgotten psql" in seen[0].evidence[0]
        return seen

    assert codes(with_open(shared, look)) == ["blocked_sessions", "unread_tables"]


def test_a_transaction_that_stays_open_is_found(shared: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(findings, "_LONG_TRANSACTION_S", 0.0)  # the trial's own transaction is open
    assert codes(found(shared, HEALTHY)) == ["long_transaction"]


def test_few_connections_are_found(shared: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(findings, "_FEW_CONNECTIONS", 0.0)
    assert codes(found(shared, HEALTHY)) == ["few_connections"]


def test_a_slot_that_nobody_reads_is_found(shared: str) -> None:
    async def make(database: Database) -> list[Finding]:
        await database.execute("SELECT pg_create_physical_replication_slot('forgotten', true)")
        return []

    async def drop(database: Database) -> list[Finding]:
        await database.execute("SELECT pg_drop_replication_slot('forgotten')")
        return []

    with_open(shared, make)
    try:
        assert codes(found(shared, HEALTHY)) == ["unused_slots"]
    finally:
        with_open(shared, drop)


def test_a_table_of_dead_rows_is_found(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pictures, "_MANY_DEAD", 100)

    async def look(database: Database) -> list[Finding]:
        async with database.connection() as session:
            await session.execute(
                "INSERT INTO tallies (tenant_id, step_s, bucket, queue, state, node_id, count)"
                " SELECT 9, 60, tocsin_now(), 'q' || n, 'dead', 0, 1 FROM generate_series(1, 3000) AS n"
            )
            await session.execute("DELETE FROM tallies")
            await session.execute("SELECT pg_stat_force_next_flush()")
        return []

    with_open(url, look)
    assert codes(found(url, HEALTHY)) == ["bloated_tables"]


def test_commits_that_wait_for_a_standby_are_found() -> None:
    healthy = Picture(nodes=[NodeSeen(name="engine", roles=["scheduler", "worker"])])
    assert diagnose(healthy) == []
    assert codes(
        diagnose(Picture(nodes=healthy.nodes, database=DatabaseSeen(standing="waiting")))
    ) == ["commits_wait"]  # fmt: skip


def test_every_finding_is_provoked() -> None:
    here = {
        "slow_database", "wrong_clock", "little_disk", "open_wall", "blocked_sessions", "unread_tables", "long_transaction",
        "few_connections", "unused_slots", "bloated_tables", "commits_wait",
    }  # fmt: skip
    assert {find.__name__ for find in FINDINGS} == {*SITUATIONS, *here}
    assert len(FINDINGS) >= 25


def test_the_api_answers_with_what_it_found(url: str) -> None:
    with in_process_api(url) as api:
        answer = api.get("/v1/system/findings").json()
        assert not answer["healthy"]
        assert answer["findings"][0]["code"] == "no_scheduler"
        assert api.get("/v1/system/findings", key=api.new_key("read", "write")).status == 403


def test_the_command_says_that_nobody_answers_and_exits_with_1() -> None:
    options = ["doctor", "--url", f"http://127.0.0.1:{free_port()}", "--key", "k" * 16]
    done = CliRunner().invoke(cli, options)
    assert done.exit_code == 1
    assert "no_api" in done.output
    told = json.loads(CliRunner().invoke(cli, [*options, "--json"]).output)
    assert [one["code"] for one in told["findings"]] == ["no_api"]
