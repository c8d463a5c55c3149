"""The hot statements keep the plans they were written for: by the intended index, never over a whole table.

Asked of engine connections, which plan once for all parameters, over tables as a busy installation has them,
and as they are before: empty, or full of work that nobody has claimed yet. The plan made then is the one in
use later.
"""

import asyncio
import re
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest

from tests.support.postgres import Cluster
from tests.support.queues import queue_statement
from tocsin.db.pool import Database, open_database
from tocsin.db.statements import named
from tocsin.domain.instant import HOUR, SECOND

ROWS = 50_000
_FILL = f"""
INSERT INTO jobs (cell, id, tenant_id, shard, kind, queue, priority, schedule, target, policies, next_fire_at)
SELECT 0, gen_random_uuid(), 1, n % 64, 'recurring', 'default', 5, '{{"every": "1m"}}', '{{"kind": "noop"}}', '{{}}',
       now() + n * interval '100 milliseconds'
FROM generate_series(1, {ROWS}) AS n;
INSERT INTO lanes (cell, queue, priority, tenant_id, route)
VALUES (0, 'default', 5, 1, 'noop'), (0, 'default', 3, 1, 'noop'), (0, 'slow', 5, 1, 'noop');
INSERT INTO executions (cell, job_id, fire_at, tenant_id, queue, priority, due_at, run_at, route)
SELECT 0, id, next_fire_at, 1, CASE WHEN shard = 7 THEN 'slow' ELSE 'default' END, CASE WHEN shard = 9 THEN 3 ELSE 5 END,
       next_fire_at, next_fire_at - interval '1 hour', 'noop'
FROM jobs;
"""
_CLAIM = """
UPDATE executions SET claim_token = 1, node_id = 1, deadline_at = run_at + interval '10 seconds'
WHERE job_id IN (SELECT id FROM jobs WHERE shard = 11);
INSERT INTO history (cell, job_id, fire_at, tenant_id, queue, priority, cause, state, due_at, run_at, finished_at, attempt)
SELECT 0, id, next_fire_at - interval '1 day', 1, 'default', 5, 'schedule', 'succeeded', now(), now(), now(), 1 FROM jobs;
"""


@contextmanager
def filled(cluster: Cluster, *fillings: str) -> Iterator[str]:
    """A database with something in it, as vacuum and analyze leave it."""
    url = cluster.new_database()

    async def fill() -> None:
        database = await open_database(url, name="test setup", size=1, timeout=120)
        for filling in fillings:
            await database.execute(filling)
        for table in ("jobs", "executions", "history", "lanes", "shards"):
            await database.execute(f"VACUUM ANALYZE {table}")
        await database.close()

    asyncio.run(fill())
    yield url
    cluster.drop(url)


@pytest.fixture(scope="module")
def busy(cluster: Cluster) -> Iterator[str]:
    """Many jobs, live executions and history."""
    with filled(cluster, _FILL, _CLAIM) as url:
        yield url


@pytest.fixture(scope="module")
def waiting(cluster: Cluster) -> Iterator[str]:
    """Many executions, none of them claimed."""
    with filled(cluster, _FILL) as url:
        yield url


@pytest.fixture(scope="module")
def empty(cluster: Cluster) -> Iterator[str]:
    """Nothing at all."""
    with filled(cluster) as url:
        yield url


class Node(msgspec.Struct):
    """A step of a plan."""

    kind: str
    table: str | None
    index: str | None
    condition: str


async def plan_of(database: Database, package: str, name: str, given: str | None = None) -> list[Node]:
    """The steps of the plan that every execution of a statement gets on an engine connection."""
    text = (queue_statement(name) if package == QUEUE else named(package, name)).text
    text = text.replace("the_day", "history_default")
    parameters = max(int(number) for number in re.findall(r"\$(\d+)", text))
    async with database.connection() as connection:
        await connection.execute(f"PREPARE probe AS {text}")
        given = given or ", ".join(["NULL"] * parameters)
        rows = await connection.fetch(f"EXPLAIN (FORMAT JSON) EXECUTE probe ({given})")
        await connection.execute("DEALLOCATE probe")
    return list(_nodes(msgspec.json.decode(rows[0][0])[0]["Plan"]))


def _nodes(plan: dict[str, Any]) -> Iterator[Node]:
    yield Node(
        plan["Node Type"], plan.get("Relation Name"), plan.get("Index Name"), plan.get("Index Cond", "")
    )
    for part in plan.get("Plans", ()):
        yield from _nodes(part)


DB, QUEUE, STORE = "tocsin.db", "tocsin.queue", "tocsin.store"
JOB_KEY = "jobs_pkey or jobs_of_tenant"  # both hold the whole key
EXPECTED = {
    "claim": (QUEUE, {"executions_ready", "executions_pkey", JOB_KEY}),
    "look": (QUEUE, {"executions_ready"}),
    "look_below": (QUEUE, {"executions_ready"}),
    "remove_unused_lanes": (QUEUE, {"executions_ready", "executions_deadline"}),
    "soonest_deadline": (QUEUE, {"executions_deadline"}),
    "start": (QUEUE, {"executions_pkey"}),
    "finish": (QUEUE, {"executions_pkey"}),
    "succeed": (QUEUE, {"executions_pkey"}),
    "retry": (QUEUE, {"executions_pkey"}),
    "postpone": (QUEUE, {"executions_pkey"}),
    "park": (QUEUE, {"executions_pkey"}),
    "extend": (QUEUE, {"executions_pkey"}),
    "release": (QUEUE, {"executions_pkey"}),
    "requeue": (QUEUE, {"executions_pkey"}),
    "recall": (QUEUE, {"executions_deadline", JOB_KEY}),
    "overdue": (QUEUE, {"executions_deadline", JOB_KEY}),
    "settled": (QUEUE, set()),
    "free_slots": (QUEUE, set()),
    "lease_slots": (QUEUE, set()),
    "waiting_keys": (QUEUE, {"executions_waiting"}),
    "wake_waiting": (QUEUE, {"executions_waiting"}),
    "start_alone": (QUEUE, {"executions_pkey"}),
    "hold_turns": (QUEUE, {"executions_turn"}),
    "grant_turns": (QUEUE, {"executions_turn", "executions_pkey"}),
    "pass_turns": (DB, {"executions_pkey", "executions_turn"}),
    "due_jobs": (STORE, {"jobs_to_plan"}),
    "write_plan": (STORE, {JOB_KEY}),
    "pending_by_state": (STORE, {"jobs_paused_of_tenant", "jobs_next_of_tenant"}),
    "overdue_jobs": (STORE, {"jobs_next_of_tenant"}),
    "upcoming_jobs": (STORE, {"jobs_next_of_tenant"}),
    "forget_ended_jobs": (STORE, {JOB_KEY, "executions_pkey"}),
    "forget_keys": (STORE, set()),
    "sweep_jobs": (STORE, {"executions_pkey"}),
    "sweep_executions": (STORE, set()),
    "missed_executions": (STORE, {"executions_pkey"}),
    "hold_late_jobs": (STORE, {JOB_KEY}),
    "decide_missed": (STORE, {"executions_pkey", JOB_KEY}),
    "alert_dead_letters": (STORE, set()),
    "alert_failures": (STORE, set()),
    "alert_hosts": (STORE, {"executions_ready", JOB_KEY}),
    "alert_lags": (STORE, set()),
    "alert_missed": (STORE, set()),
    "alert_unplanned": (STORE, {"jobs_to_plan"}),
    "alert_waiting": (STORE, {"executions_ready"}),
}
OF_HISTORY = {
    "alert_dead_letters": ("ARRAY[1], now(), NULL, 'alerts', 2000, 1, 100", {"history_dead_letters"}),
    "alert_failures": (
        "ARRAY[1], now(), 'alerts', 3, 2000, 100, 0",
        {"history_dead_letters", "history_of_job"},
    ),
    "alert_missed": ("ARRAY[1], now(), 2000, 100", {"history_missed"}),
}
"""What they are asked, and which indexes of a day's history they go by."""
BIG = ("executions", "jobs")


# What a look-up by key goes by: the whole key, or it walks what it was meant to find.
KEYS = {
    "executions_pkey": ("cell =", "job_id =", "fire_at ="),
    "executions_turn": ("cell =", "job_id ="),
    "jobs_pkey": ("cell =", "id ="),
    "jobs_of_tenant": ("tenant_id =", "(id ="),
}


# These look at what else a job has; that is little.
OF_WHOLE_JOBS = (
    "claim",
    "start_alone",
    "grant_turns",
    "pass_turns",
    "forget_ended_jobs",
    "sweep_jobs",
    "missed_executions",
)


@pytest.mark.parametrize("state", ["busy", "waiting", "empty"])
@pytest.mark.parametrize("name", EXPECTED)
def test_a_hot_statement_goes_by_its_index_and_never_over_a_whole_table(
    request: pytest.FixtureRequest, name: str, state: str
) -> None:
    package, indexes = EXPECTED[name]
    url = request.getfixturevalue(state)

    async def scenario() -> list[Node]:
        database = await open_database(url, name="test engine", size=1, pinned=True)
        try:
            return await plan_of(database, package, name)
        finally:
            await database.close()

    nodes = asyncio.run(scenario())
    over_big = [
        node for node in nodes if node.table is not None and node.table.startswith((*BIG, "history_"))
    ]
    assert not [node for node in over_big if node.kind == "Seq Scan"], nodes
    assert not [node for node in nodes if node.kind in ("Hash Join", "Merge Join")], nodes
    by_index = [node for node in over_big if node.table in BIG and node.index is not None]
    assert {JOB_KEY if node.index in JOB_KEY.split() else node.index for node in by_index} == indexes, nodes
    for node in by_index:
        columns = [c for c in KEYS.get(node.index or "", ()) if c != "fire_at =" or name not in OF_WHOLE_JOBS]
        assert all(column in node.condition for column in columns), node


@pytest.mark.parametrize("state", ["busy", "empty"])
@pytest.mark.parametrize("name", OF_HISTORY)
def test_a_look_of_an_alert_at_a_day_goes_by_the_index_of_what_is_rare(
    request: pytest.FixtureRequest, name: str, state: str
) -> None:
    given, indexes = OF_HISTORY[name]
    url = request.getfixturevalue(state)

    async def scenario() -> tuple[list[Node], dict[str, str]]:
        database = await open_database(url, name="test engine", size=1, pinned=True)
        try:
            rows = await database.fetch(
                "SELECT inhrelid::regclass::text AS index, inhparent::regclass::text AS parent"
                " FROM pg_inherits JOIN pg_class ON oid = inhparent AND relkind = 'I'"
            )
            return await plan_of(database, STORE, name, given), {row["index"]: row["parent"] for row in rows}
        finally:
            await database.close()

    nodes, parents = asyncio.run(scenario())
    tomorrow = f"history_{datetime.now(UTC) + timedelta(days=1):%Y%m%d}"
    of_day = [node for node in nodes if node.table == tomorrow]
    assert {parents.get(node.index or "") for node in of_day} == indexes, of_day


def claim(queue: str, take: int, low_mark: int, until: int) -> tuple[Any, ...]:
    return queue_statement("claim").given(
        cell=0, queues=[queue], priorities=[5], tenant_ids=[1], routes=["noop"], takes=[take], low_marks=[low_mark],
        untils=[until], token=77, node_id=1, worker_id=None, ttl=timedelta(seconds=10), offer=None, slots_epoch=None,
        late_for=None, late_tenants=[], late_reasons=[],
    )  # fmt: skip


def test_a_claim_locks_exactly_the_rows_it_returns(busy: str) -> None:
    async def scenario() -> None:
        database = await open_database(busy, name="test engine", size=2, pinned=True)
        now = (await database.one("SELECT now() AS now"))["now"]
        free = "SELECT count(*) AS n FROM (SELECT 1 FROM executions FOR UPDATE SKIP LOCKED) AS free"
        before = (await database.one(free))["n"]
        for take in (1, 100, 1000):
            async with database.connection() as connection:
                claiming = connection.transaction()
                await claiming.start()
                rows = await connection.fetch(*claim("default", take, 0, now))
                assert len(rows) == take
                assert before - (await database.one(free))["n"] == take
                await claiming.rollback()
        await database.close()

    asyncio.run(scenario())


def test_starting_a_claim_is_a_heap_only_update_that_touches_no_index(busy: str) -> None:
    counts = "SELECT n_tup_upd, n_tup_hot_upd FROM pg_stat_xact_user_tables WHERE relname = 'executions'"

    async def scenario() -> None:
        database = await open_database(busy, name="test engine", size=1, pinned=True)
        now = (await database.one("SELECT now() AS now"))["now"]
        async with database.connection() as connection:
            # Rows of this queue lie on pages of their own, so each finds the room that pages keep free for
            # updates.
            rows = await connection.fetch(*claim("slow", 150, now + 60 * SECOND, now + HOUR))
            start = queue_statement("start").given(
                cell=0, job_ids=[row["job_id"] for row in rows], fire_ats=[row["fire_at"] for row in rows],
                tokens=[77] * len(rows), node_id=None, slots_epoch=None, late_for=None,
            )  # fmt: skip
            before = await connection.fetchrow(counts)
            started = await connection.fetch(*start)
            after = await connection.fetchrow(counts)
        await database.close()
        assert len(started) == after["n_tup_upd"] - before["n_tup_upd"] == 150
        heap_only = after["n_tup_hot_upd"] - before["n_tup_hot_upd"]
        assert heap_only >= 145, "started_at got into an index"

    asyncio.run(scenario())


def test_no_index_mentions_what_a_start_or_a_heartbeat_of_running_work_changes(busy: str) -> None:
    async def scenario() -> list[str]:
        database = await open_database(busy, name="test", size=1)
        rows = await database.fetch(
            "SELECT indexdef FROM pg_indexes WHERE schemaname = 'tocsin' AND tablename = 'executions'"
        )
        await database.close()
        return [row["indexdef"] for row in rows]

    for definition in asyncio.run(scenario()):
        assert "started_at" not in definition
        assert "cancel_requested" not in definition
