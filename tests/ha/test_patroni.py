"""A cluster under Patroni, from the configuration in `examples/patroni`: killed, frozen, switched over,
without etcd, without its synchronous standby. Takes minutes: `make test-ha` runs it, `make test` does not."""

import asyncio
import os
import shutil
import signal
from pathlib import Path

import pytest

from tests.acceptance.fleet import Fleet, run
from tests.ha.drill import Drill
from tests.ha.patroni import PATRONI, Cluster
from tests.support.figures import Note

pytestmark = [
    pytest.mark.skipif(not os.environ.get("TOCSIN_HA_PATRONI"), reason="minutes long: make test-ha"),
    pytest.mark.timeout(900),
]


@pytest.fixture(autouse=True)
def installed() -> None:
    if shutil.which("etcd") is None:
        pytest.skip("etcd is not installed: apt-get install etcd-server")
    assert PATRONI.exists(), "Patroni is not installed: make .venv/.ha"


def test_nothing_is_lost_whatever_happens_to_a_cluster_under_patroni(
    tmp_path: Path, record_property: Note
) -> None:
    async def scenario(cluster: Cluster) -> None:
        async with Fleet(cluster.url, tmp_path, nodes=2) as fleet:
            drill = Drill(fleet, record_property)
            async with drill.under_load(100):
                await killed(drill, cluster)
                await frozen(drill, cluster)
                await switched_over(drill, cluster)
                await without_etcd(drill, cluster)
                await without_its_standby(drill, cluster)
            await drill.judge()

    with Cluster() as cluster:
        run(scenario(cluster))


async def killed(drill: Drill, cluster: Cluster) -> None:
    primary = cluster.primary
    async with drill.fault("machine killed") as fault:
        await asyncio.to_thread(primary.kill)
        await fault.is_noticed()
        await fault.back(cluster)
    primary.start()
    await asyncio.to_thread(cluster.is_whole)


async def frozen(drill: Drill, cluster: Cluster) -> None:
    primary = cluster.primary
    async with drill.fault("machine frozen") as fault:
        await asyncio.to_thread(primary.signal, signal.SIGSTOP)
        await fault.is_noticed()
        await fault.back(cluster)
    await asyncio.to_thread(
        primary.kill
    )  # as a watchdog would: a thawed primary must not meet its clients before it knows
    primary.start()
    await asyncio.to_thread(cluster.is_whole)


async def switched_over(drill: Drill, cluster: Cluster) -> None:
    async with drill.fault("switchover") as fault:
        await asyncio.to_thread(cluster.switch_over)
        await fault.back(cluster)
    await asyncio.to_thread(cluster.is_whole)


async def without_etcd(drill: Drill, cluster: Cluster) -> None:
    """The members ask each other instead (failsafe_mode)."""
    async with drill.fault("etcd gone") as fault:
        cluster.etcd.kill()
        await asyncio.sleep(30)  # longer than the ttl of the leader's lock
        await asyncio.to_thread(cluster.etcd.start)
        await fault.back(cluster)
    await asyncio.to_thread(cluster.is_whole)


async def without_its_standby(drill: Drill, cluster: Cluster) -> None:
    standby = cluster.synchronous
    async with drill.fault("synchronous standby killed") as fault:
        await asyncio.to_thread(standby.kill)
        await fault.back(cluster)
    standby.start()
    await asyncio.to_thread(cluster.is_whole)
