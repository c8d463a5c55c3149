"""A NATS of three nodes loses the leader of a stream under load. Half a minute: TEST_BROKER_CLUSTERS=1."""

import asyncio
import contextlib
from collections.abc import Iterator, Mapping
from typing import Any

import nats
import pytest
from nats.errors import Error as NatsError
from nats.js.errors import APIError

from tests.engines.brokers import NatsKind
from tests.engines.load import Load
from tests.engines.servers import CLUSTERS, NatsNode
from tests.support.broker_faults import counted
from tests.support.figures import Note
from tests.support.processes import free_port
from tocsin.domain.connection import Connection
from tocsin.targets.message.caller import Known

KIND = NatsKind()
pytestmark = [
    pytest.mark.skipif(not CLUSTERS, reason="slow: set TEST_BROKER_CLUSTERS=1"),
    pytest.mark.parametrize("kind", [KIND], ids=["nats_cluster"]),
]
NODES = (1, 2, 3)
KILLS = 3
Nodes = Mapping[str, NatsNode]


@pytest.fixture
def nodes() -> Iterator[Nodes]:
    ports = [free_port() for _ in NODES]
    found = {f"node-{number}": NatsNode(number, ports) for number in NODES}
    yield found
    for node in found.values():
        node.stop()


def test_leaders_are_killed_under_load_and_every_message_is_there_once(
    kind: NatsKind, nodes: Nodes, record_property: Note
) -> None:
    async def scenario() -> tuple[Load, list[Any]]:
        first = nodes["node-1"]
        await _made(nodes, lambda: kind.make_stream(first, num_replicas=3))
        attempts = kind.attempts(first)
        everyone = Connection("nats", tuple(node.address for node in nodes.values()), in_flight=200)
        attempts.book.known = Known(everyone, 2)
        load = Load(attempts, kind.target)
        for _ in range(KILLS):
            victim = nodes[await _leader(nodes)]
            await load.send(40)
            await asyncio.to_thread(victim.kill)
            await load.go_on_until_taken()
            await asyncio.to_thread(victim.start)
            await _in_sync(nodes)
        await attempts.caller.close()
        return load, await kind.received(first)

    load, messages = asyncio.run(scenario())
    tally = counted(
        record_property, "nats, three nodes", "leader killed", KILLS, load.sent, messages, load.longest_wait
    )
    assert (tally.lost, tally.duplicates) == (0, 0)


async def _made(nodes: Nodes, make: Any) -> None:
    """A cluster takes a stream once it has a leader of its own."""
    while True:
        with contextlib.suppress(APIError, NatsError):
            return await make()
        await asyncio.sleep(0.1)


async def _cluster(nodes: Nodes) -> Any:
    """Who leads the stream and who follows, as a node tells that is up; None while nobody knows."""
    with contextlib.suppress(APIError, NatsError, OSError):
        servers = [f"nats://{node.address}" for node in nodes.values()]
        client = await nats.connect(servers, allow_reconnect=False)
        try:
            return (await client.jetstream().stream_info("DUE")).cluster
        finally:
            await client.close()
    return None


async def _leader(nodes: Nodes) -> str:
    while (cluster := await _cluster(nodes)) is None or cluster.leader is None:
        await asyncio.sleep(0.1)
    return str(cluster.leader)


async def _in_sync(nodes: Nodes) -> None:
    while (cluster := await _cluster(nodes)) is None or not all(one.current for one in cluster.replicas):
        await asyncio.sleep(0.2)
