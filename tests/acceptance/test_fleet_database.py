"""The database goes away under load and comes back: the fleet says so, waits, and goes on where it was."""

import asyncio
import shutil
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.acceptance.fleet import Fleet, run, until
from tests.support.postgres import Cluster, temporary_directory


@pytest.fixture
def own_cluster() -> Iterator[Cluster]:
    """A server that a test may crash."""
    directory = temporary_directory()
    cluster = Cluster(directory)
    cluster.start()
    yield cluster
    cluster.stop()
    shutil.rmtree(directory, ignore_errors=True)


def test_an_immediate_restart_of_postgresql_loses_nothing_and_firing_resumes_by_itself(
    own_cluster: Cluster, tmp_path: Path
) -> None:
    database_url = own_cluster.new_database()

    async def scenario() -> None:
        async with Fleet(database_url, tmp_path, nodes=3, seed=50) as fleet:
            async with fleet.under_load(per_second=60):
                await until(lambda: fleet.calls_under_way() > 3, 30, "no calls are under way")
                await fleet.crash_database(own_cluster.server)
                await says_unavailable(fleet)
                await own_cluster.server.start()
                await fires_again(fleet)
            verdict = await fleet.judge()
            assert verdict.counts["creates unknown"] > 0, "nobody asked for anything during the outage"

    run(scenario())


def test_connections_cut_in_the_middle_of_everything_lose_nothing(url: str, tmp_path: Path) -> None:
    async def scenario() -> None:
        async with Fleet(url, tmp_path, nodes=3, seed=51) as fleet:
            async with fleet.under_load(per_second=80):
                for _ in range(8):
                    await fleet.cut_connections(share=0.7)
                    await asyncio.sleep(fleet.rng.uniform(0.1, 1.0))
            await fleet.judge()

    run(scenario())


async def says_unavailable(fleet: Fleet) -> None:
    """The API answers 503 with Retry-After, to clients and to probes, and stays up."""
    created = await fleet.client.post(
        "/v1/jobs", {"name": "away", "schedule": {"now": True}, "target": {"kind": "noop"}}
    )
    assert created.status == 503, created
    assert int(created.headers["retry-after"]) >= 1
    assert created.headers["content-type"] == "application/problem+json"
    ready = await fleet.client.get("/readyz")
    assert (ready.status, ready.body["status"]) == (503, "unavailable")
    assert (await fleet.client.get("/healthz")).status == 200


async def fires_again(fleet: Fleet) -> None:
    """Something that was started after the restart reaches the sink."""
    up = time.time_ns() // 1000
    began = time.monotonic()
    await until(
        lambda: any(hit.key.fire_at > up and hit.status == 200 for hit in fleet.sink.hits[-500:]),
        20,
        "nothing fires after the database is back",
    )
    print(f"firing again {time.monotonic() - began:.2f} s after the database was up")
