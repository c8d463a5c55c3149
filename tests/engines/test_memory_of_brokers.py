"""What a connection that stays busy remembers of its brokers has a bound: topics come from jobs, nodes from
the servers that answer."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from tests.engines.attempts import LOCAL, Attempts
from tests.engines.brokers import KafkaKind
from tests.engines.fake_kafka import FakeKafka
from tests.engines.fake_redis import FakeRedis
from tests.engines.test_kafka_answers import numbers
from tests.support.containers import containers
from tocsin.domain.connection import Connection
from tocsin.domain.message_target import KafkaTarget, RedisTarget
from tocsin.domain.outcome import Verdict
from tocsin.targets.kafka import broker as kafka_broker
from tocsin.targets.kafka import cluster as kafka_cluster
from tocsin.targets.redis import broker as redis_broker

MOST = 5
COUNT = 4 * MOST


def after_attempts(kafka: FakeKafka, topic: Callable[[int], str]) -> tuple[list[Any], dict[str, int]]:
    """How attempts ended that were made one after another, each at a topic of its own; and what is remembered
    then."""

    async def scenario() -> tuple[list[Any], dict[str, int]]:
        async with kafka:
            connection = Connection("kafka", (f"127.0.0.1:{kafka.port}",))
            attempts = Attempts(KafkaKind().make, connection, policy=LOCAL)
            outcomes = []
            for number in range(COUNT):
                if kafka.leader is not None:
                    kafka.leader = f"127.0.0.{number + 1}", kafka.port
                    if number:
                        await asyncio.start_server(kafka.serve, *kafka.leader)
                target = KafkaTarget(connection="bus", topic=topic(number), body="x")
                outcomes.append(await attempts.call(target, number + 1))
            found = containers(attempts.caller)
            await attempts.caller.close()
            return outcomes, found

    return asyncio.run(scenario())


@pytest.mark.parametrize("name", ["due", "missing"], ids="topic {}".format)
def test_the_oldest_topics_are_forgotten(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kafka_cluster, "_PARTITIONS_KNOWN", MOST)
    monkeypatch.setattr(kafka_cluster, "_PAUSES", (None,))
    outcomes, found = after_attempts(FakeKafka(), lambda number: f"{name}-{number}")
    verdict = Verdict.SUCCEEDED if name == "due" else Verdict.REJECTED
    assert {outcome.verdict for outcome in outcomes} == {verdict}
    assert found["Cluster._topics"] == MOST


def test_a_producer_of_many_partitions_goes_on_under_a_new_number(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kafka_broker, "_PARTITIONS", MOST)
    kafka = FakeKafka()
    outcomes, found = after_attempts(kafka, lambda number: f"due-{number % (MOST + 1)}")
    assert {outcome.verdict for outcome in outcomes} == {Verdict.SUCCEEDED}
    assert found["KafkaBroker._partitions"] <= MOST
    topics = [number % (MOST + 1) for number in range(COUNT)]
    assert len(set(zip(topics, numbers(kafka), strict=True))) == COUNT, "no number is used twice in a topic"
    assert kafka.producers == COUNT // MOST


def test_nodes_that_a_cluster_no_longer_names_are_left() -> None:
    kafka = FakeKafka(leader=("127.0.0.1", 0))
    outcomes, found = after_attempts(kafka, lambda number: f"due-{number}")
    assert {outcome.verdict for outcome in outcomes} == {Verdict.SUCCEEDED}
    assert found["Cluster._connections"] <= 2
    assert found["Cluster._opening"] <= 2


def test_a_redis_that_keeps_naming_nodes_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(redis_broker, "_NODES", MOST)

    async def scenario() -> dict[str, int]:
        # Nobody is at these places, and the slots are none.
        moves = [f"-MOVED {20_000 + number} 127.0.0.1:{number + 1}" for number in range(COUNT)]
        async with FakeRedis(moves) as server:
            attempts = Attempts(redis_broker.RedisBroker, Connection("redis", (f"127.0.0.1:{server.port}",)))
            for number in range(COUNT):
                await attempts.call(RedisTarget(connection="bus", stream="due", body="x"), number + 1)
                attempts.clock.advance(60_000_000)
            found = containers(attempts.caller)
            await attempts.caller.close()
            return found

    found = asyncio.run(scenario())
    assert found["RedisBroker._homes"] == 0
    assert found["RedisBroker._locks"] <= MOST + 1
