"""Migrations: one lock, forward only, and a fresh schema equals a migrated one."""

import asyncio

import pytest

from tests.support.postgres import Cluster
from tocsin.db.migrations import migrate, migrations
from tocsin.db.pool import open_connection
from tocsin.domain.errors import Refused


def test_many_nodes_may_migrate_at_once_and_each_file_is_applied_once(cluster: Cluster) -> None:
    url = cluster.empty_database()

    async def scenario() -> None:
        applied = await asyncio.gather(*(migrate(url) for _ in range(8)))
        assert sorted(sum(applied, [])) == [m.name for m in migrations()]
        assert await migrate(url) == []

    asyncio.run(scenario())


def test_a_file_that_changed_after_it_was_applied_is_refused(url: str) -> None:
    async def scenario() -> None:
        connection = await open_connection(url, name="test")
        await connection.execute("UPDATE migrations SET checksum = 'other' WHERE number = 1")
        await connection.close()
        with pytest.raises(Refused, match="other contents"):
            await migrate(url)

    asyncio.run(scenario())
