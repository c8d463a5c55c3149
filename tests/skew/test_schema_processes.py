"""An older build on the schema of a newer one: it works beside it, or it says in a sentence that it
cannot."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.processes import Processes, wait_for
from tocsin.db.migrations import migrations
from tocsin.db.pool import open_connection

NEWEST = migrations()[-1].number
ROLES = ("api", "engine", "scheduler", "worker")


@pytest.fixture
def processes(tmp_path: Path) -> Iterator[Processes]:
    with Processes(tmp_path) as processes:
        yield processes


def migrated_by_newer(url: str, runs_beside: int | None) -> None:
    async def write() -> None:
        connection = await open_connection(url, name="test")
        await connection.execute(
            "INSERT INTO migrations (number, name, checksum, runs_beside) VALUES ($1, '0999_of_tomorrow', '', $2)",
            NEWEST + 1,
            runs_beside,
        )
        await connection.close()

    asyncio.run(write())


@pytest.mark.parametrize("role", ROLES)
def test_no_role_joins_a_schema_that_does_not_run_beside_it(
    url: str, processes: Processes, role: str
) -> None:
    migrated_by_newer(url, NEWEST + 1)
    node = processes.tocsin(role, role, "--database-url", url)
    node.start()
    assert node.wait(30) != 0
    assert "0999_of_tomorrow" in node.output()
    assert "newer version" in node.output()
    assert "Traceback" not in node.output()


def test_a_node_that_is_overtaken_while_it_works_stops_and_says_why(url: str, processes: Processes) -> None:
    node = processes.tocsin("engine", "engine", "--database-url", url)
    node.start()
    wait_for(lambda: "node.joined" in node.output(), 30, "the node joins")
    migrated_by_newer(url, None)
    assert node.wait(30) != 0
    assert "node.overtaken" in node.output()
    assert "node.left" in node.output()
    assert "0999_of_tomorrow" in node.output()
