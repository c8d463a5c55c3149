"""A Kafka of three nodes loses leaders under load. A minute, a gigabyte of memory: TEST_BROKER_CLUSTERS=1."""

import asyncio
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from aiokafka.admin import AIOKafkaAdminClient

from tests.engines.brokers import KafkaKind
from tests.engines.servers import CLUSTERS, Kafka
from tests.support.processes import free_port
from tocsin.targets.message.caller import Known

pytestmark = pytest.mark.skipif(not CLUSTERS, reason="slow: set TEST_BROKER_CLUSTERS=1")
KIND = KafkaKind()
NODES = (1, 2, 3)


@pytest.fixture
def nodes() -> Iterator[dict[int, Kafka]]:
    ports = [free_port() for _ in NODES]
    with ThreadPoolExecutor() as starting:  # none is up before most of them are
        found = dict(zip(NODES, starting.map(lambda number: Kafka("", ports, number), NODES), strict=True))
    yield found
    for node in found.values():
        node.stop()


def test_leaders_are_killed_under_load_and_every_message_is_there_once(nodes: dict[int, Kafka]) -> None:
    async def scenario() -> tuple[int, list[Any]]:
        await KIND.make_stream(nodes[1], partitions=6, replicas=3, min_insync_replicas=2)
        attempts = KIND.attempts(nodes[1], in_flight=200)
        connection = attempts.book.known.connection
        everyone = type(connection)("kafka", tuple(node.address for node in nodes.values()), in_flight=200)
        attempts.book.known = Known(everyone, 2)
        calls: list[asyncio.Task[int]] = []
        for _ in range(3):
            victim = nodes[await _leader(nodes)]
            for _ in range(40):
                first = len(calls) + 1
                calls += [
                    asyncio.create_task(attempts.until_taken(KIND.target(n, key=f"k{n % 50}"), n))
                    for n in range(first, first + 25)
                ]
                await asyncio.sleep(0.01)
            await asyncio.to_thread(victim.kill)
            await asyncio.gather(*calls)
            await asyncio.to_thread(victim.start)
            await _in_sync(nodes)
        await attempts.caller.close()
        return len(calls), await KIND.received(nodes[1])

    sent, messages = asyncio.run(scenario())
    found = Counter(message.fields["idempotency-key"] for message in messages)
    assert len(found) == sent, "lost"
    assert set(found.values()) == {1}


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
