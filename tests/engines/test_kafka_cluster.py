"""A Kafka of three nodes loses leaders under load. A minute, a gigabyte of memory: TEST_BROKER_CLUSTERS=1."""

import asyncio
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from aiokafka.admin import AIOKafkaAdminClient

from tests.engines.brokers import KafkaKind
from tests.engines.load import Load
from tests.engines.servers import CLUSTERS, Kafka
from tests.support.broker_faults import counted
from tests.support.figures import Note
from tests.support.processes import free_port
from tocsin.domain.connection import Connection
from tocsin.targets.message.caller import Known

KIND = KafkaKind()
pytestmark = [
    pytest.mark.skipif(not CLUSTERS, reason="slow: set TEST_BROKER_CLUSTERS=1"),
    pytest.mark.parametrize("kind", [KIND], ids=["kafka_cluster"]),
]
NODES = (1, 2, 3)
KILLS = 3


@pytest.fixture
def nodes() -> Iterator[dict[int, Kafka]]:
    ports = [free_port() for _ in NODES]
    with ThreadPoolExecutor() as starting:  # none is up before most of them are
        found = dict(zip(NODES, starting.map(lambda number: Kafka("", ports, number), NODES), strict=True))
    yield found
    for node in found.values():
        node.stop()


def test_leaders_are_killed_under_load_and_every_message_is_there_once(
    kind: KafkaKind, nodes: dict[int, Kafka], record_property: Note
) -> None:
    async def scenario() -> tuple[Load, list[Any]]:
        await kind.make_stream(nodes[1], partitions=6, replicas=3, min_insync_replicas=2)
        attempts = kind.attempts(nodes[1])
        everyone = Connection("kafka", tuple(node.address for node in nodes.values()), in_flight=200)
        attempts.book.known = Known(everyone, 2)
        load = Load(attempts, lambda number: kind.target(number, key=f"k{number % 50}"))
        for _ in range(KILLS):
            victim = nodes[await _leader(nodes)]
            await load.send(40)
            await asyncio.to_thread(victim.kill)
            await load.go_on_until_taken()
            await asyncio.to_thread(victim.start)
            await _in_sync(nodes)
        await attempts.caller.close()
        return load, await kind.received(nodes[1])

    load, messages = asyncio.run(scenario())
    tally = counted(
        record_property, "kafka, three nodes", "leader killed", KILLS, load.sent, messages, load.longest_wait
    )
    assert (tally.lost, tally.duplicates) == (0, 0)


async def _partitions(nodes: dict[int, Kafka]) -> list[Any]:
    admin = AIOKafkaAdminClient(bootstrap_servers=[node.address for node in nodes.values()])
    await admin.start()
    try:
        (topic,) = await admin.describe_topics(["due"])
        return list(topic["partitions"])
    finally:
        await admin.close()


async def _leader(nodes: dict[int, Kafka]) -> int:
    return int((await _partitions(nodes))[0]["leader"])


async def _in_sync(nodes: dict[int, Kafka]) -> None:
    while any(len(one["isr"]) < len(NODES) for one in await _partitions(nodes)):
        await asyncio.sleep(0.2)
