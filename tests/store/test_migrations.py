"""Migrations: one lock, forward only, and a fresh schema equals a migrated one."""

import asyncio
import subprocess
from itertools import chain

import pytest
from structlog.testing import capture_logs

from tests.support.postgres import Cluster
from tocsin.db import migrations as migrations_module
from tocsin.db.embedded import _program
from tocsin.db.migrations import migrate, migrations
from tocsin.db.pool import open_connection
from tocsin.domain.errors import Refused

# The wall between tenants is put up after every migration, and comes with this one.
FIRST_WHOLE = 3


def test_many_nodes_may_migrate_at_once_and_each_file_is_applied_once(cluster: Cluster) -> None:
    url = cluster.empty_database()

    async def scenario() -> None:
        applied = await asyncio.gather(*(migrate(url) for _ in range(8)))
        assert sorted(chain.from_iterable(applied)) == [m.name for m in migrations()]
        assert await migrate(url) == []

    asyncio.run(scenario())


def test_a_new_installation_has_the_shards_that_were_asked_for_and_keeps_them(cluster: Cluster) -> None:
    url = cluster.empty_database()

    async def scenario() -> None:
        with capture_logs() as lines:
            await migrate(url, 7)
            await migrate(url, 9)
        assert [line["event"] for line in lines] == ["schema.created"], "one line, and not one for each file"
        connection = await open_connection(url, name="test")
        assert await connection.fetchval("SELECT shard_count FROM installation") == 7
        assert await connection.fetchval("SELECT array_agg(shard ORDER BY shard) FROM shards") == list(
            range(7)
        )
        await connection.close()

    asyncio.run(scenario())


def test_a_file_that_changed_after_it_was_applied_is_refused(url: str) -> None:
    async def scenario() -> None:
        connection = await open_connection(url, name="test")
        await connection.execute("UPDATE migrations SET checksum = 'other' WHERE number = 1")
        await connection.close()
        with pytest.raises(Refused, match="other contents"):
            await migrate(url)

    asyncio.run(scenario())


def test_a_schema_migrated_step_by_step_under_data_equals_a_fresh_one(
    cluster: Cluster, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = cluster.empty_database()
    files = migrations()

    async def scenario() -> None:
        for count in range(FIRST_WHOLE, len(files) + 1):
            monkeypatch.setattr(migrations_module, "migrations", lambda count=count: files[:count])
            assert (await migrate(old))[-1] == files[count - 1].name
            connection = await open_connection(old, name="test")
            await connection.execute(
                "INSERT INTO jobs (cell, id, tenant_id, shard, kind, queue, priority, schedule, target, policies)"
                " VALUES (0, gen_random_uuid(), 1, 0, 'recurring', 'default', 5, '{}', '{}', '{}')"
            )
            await connection.close()

    asyncio.run(scenario())
    monkeypatch.undo()
    fresh = cluster.empty_database()
    asyncio.run(migrate(fresh))
    assert _schema(old) == _schema(fresh)


def test_an_execution_that_had_the_turn_before_has_it_still(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    old, files = cluster.empty_database(), migrations()
    before = [migration.name for migration in files].index("0008_floors")

    async def scenario() -> None:
        monkeypatch.setattr(migrations_module, "migrations", lambda: files[:before])
        await migrate(old)
        connection = await open_connection(old, name="test")
        await connection.execute(
            """INSERT INTO executions (cell, job_id, fire_at, tenant_id, queue, priority, due_at, run_at, overlap, claim_token,
                                       node_id, deadline_at, started_at)
               SELECT 0, gen_random_uuid(), now(), 1, 'default', 5, now(), now(), 'skip', token, token, at, at
               FROM (VALUES (1, now()), (NULL, NULL)) AS of_two (token, at);
               INSERT INTO solos SELECT cell, job_id, fire_at FROM executions WHERE started_at IS NOT NULL"""
        )
        monkeypatch.undo()
        await migrate(old)
        rows = await connection.fetch(
            "SELECT started_at IS NOT NULL AS runs, has_turn, turn_awaited FROM executions"
        )
        assert sorted(tuple(row) for row in rows) == [(False, False, False), (True, True, True)]
        await connection.close()

    asyncio.run(scenario())


def _schema(url: str) -> list[str]:
    dumped = subprocess.run(
        [_program("pg_dump"), "--schema-only", url], capture_output=True, text=True, check=True
    ).stdout
    # pg_dump guards its output with a random word.
    return [line for line in dumped.splitlines() if "restrict" not in line]
