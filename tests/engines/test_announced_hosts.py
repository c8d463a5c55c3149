"""Brokers that announce other hosts: what a broker says is judged like what a user wrote."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from redis.crc import key_slot

from tests.engines.attempts import LOCAL, Attempts
from tests.engines.brokers import KINDS, KafkaKind
from tests.engines.fake_kafka import FakeKafka
from tests.engines.fake_redis import FakeRedis
from tests.engines.servers import Redis
from tocsin.domain.connection import Connection
from tocsin.domain.message_target import KafkaTarget, NatsTarget, RedisTarget
from tocsin.domain.outcome import Outcome, Verdict
from tocsin.domain.policy import NETWORK
from tocsin.targets.nats.broker import NatsBroker
from tocsin.targets.redis.broker import RedisBroker

Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


async def _listening(serve: Serve) -> tuple[asyncio.Server, int]:
    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    return server, server.sockets[0].getsockname()[1]


@pytest.mark.parametrize(
    ("node", "words"),
    [
        ("169.254.169.254:80", "does not lead to a public address"),
        ("inner.example:6379", "does not lead to a public address"),
        ("0x7f.1:6379", "cannot be read"),
        ("8.8.8.8:6379", "port 6379"),
    ],
)
@pytest.mark.parametrize("word", ["MOVED", "ASK"])
def test_a_node_that_a_redis_cluster_names_is_refused_like_any_other_address(
    word: str, node: str, words: str
) -> None:
    async def scenario() -> Any:
        async with FakeRedis([f"-{word} 100 {node}"]) as server:
            connection = Connection("redis", (f"127.0.0.1:{server.port}",))
            attempts = Attempts(RedisBroker, connection, policy=LOCAL)
            # The slot that the fake names is the stream's own.
            stream = next(f"s{n}" for n in range(100_000) if _slot(f"s{n}") == 100)
            outcome = await attempts.call(RedisTarget(connection="bus", stream=stream, body="x"))
            await attempts.caller.close()
            return outcome

    outcome = asyncio.run(scenario())
    assert isinstance(outcome, Outcome)
    assert outcome.verdict is Verdict.REJECTED
    assert words in (outcome.error or "")


def test_a_node_of_a_redis_cluster_that_may_be_called_gets_the_message() -> None:
    redis = Redis()
    kind = next(one for one in KINDS if one.name == "redis")

    async def scenario() -> Any:
        await kind.make_stream(redis)
        async with FakeRedis([f"-MOVED {_slot('due')} {redis.address}"]) as server:
            attempts = Attempts(RedisBroker, Connection("redis", (f"127.0.0.1:{server.port}",)))
            outcome = await attempts.call(RedisTarget(connection="bus", stream="due", body="x"))
            await attempts.caller.close()
            return outcome, await kind.received(redis)

    try:
        outcome, messages = asyncio.run(scenario())
    finally:
        redis.stop()
    assert outcome.verdict is Verdict.SUCCEEDED
    assert len(messages) == 1


@pytest.mark.parametrize(
    ("host", "words"),
    [
        ("169.254.169.254", "does not lead to a public address"),
        ("inner.example", "does not lead to a public address"),
        ("0x7f.1", "cannot be read"),
        (None, "cannot be read"),
        ("8.8.8.8", "port 9092"),
    ],
)
def test_a_node_that_kafka_names_is_refused_like_any_other_address(host: str | None, words: str) -> None:
    async def scenario() -> Any:
        async with FakeKafka(leader=(host, 9092)) as kafka:
            connection = Connection("kafka", (f"127.0.0.1:{kafka.port}",))
            attempts = Attempts(KafkaKind().make, connection, policy=LOCAL)
            outcome = await attempts.call(KafkaTarget(connection="bus", topic="due", body="x"))
            await attempts.caller.close()
            return outcome

    outcome = asyncio.run(scenario())
    assert isinstance(outcome, Outcome)
    assert outcome.verdict is Verdict.REJECTED
    assert words in (outcome.error or "")


def test_what_does_not_answer_as_kafka_does_is_told_so_and_costs_no_memory() -> None:
    async def endless(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(4)
        writer.write(b"\x7f\xff\xff\xff" + b"x" * 1000)
        await reader.read()
        writer.close()

    async def scenario() -> Any:
        server, port = await _listening(endless)
        async with server:
            attempts = Attempts(KafkaKind().make, Connection("kafka", (f"127.0.0.1:{port}",)), policy=LOCAL)
            outcome = await attempts.call(KafkaTarget(connection="bus", topic="due", body="x"))
            await attempts.caller.close()
            return outcome

    outcome = asyncio.run(scenario())
    assert (outcome.verdict, outcome.failure) == (Verdict.FAILED, NETWORK)
    assert outcome.error == "it does not answer as Kafka does"


def test_a_server_that_nats_announces_is_never_called() -> None:
    called = []

    async def elsewhere(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        called.append(1)
        writer.close()

    async def scenario() -> Any:
        other, other_port = await _listening(elsewhere)

        async def nats(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            info = {
                "server_id": "x", "version": "2.11.0", "max_payload": 1048576, "headers": True, "proto": 1,
                "connect_urls": [f"127.0.0.1:{other_port}", "169.254.169.254:80"],
            }  # fmt: skip
            writer.write(f"INFO {json.dumps(info)}\r\n".encode())
            while line := await reader.readline():
                if line.startswith(b"PING"):
                    writer.write(b"PONG\r\n")
                elif line.startswith(b"HPUB"):
                    writer.close()
                    return

        server, port = await _listening(nats)
        async with other, server:
            attempts = Attempts(NatsBroker, Connection("nats", (f"127.0.0.1:{port}",)))
            outcomes = [
                await attempts.call(NatsTarget(connection="bus", subject="due", body="x"), number)
                for number in (1, 2)
            ]
            await attempts.caller.close()
            return outcomes

    for outcome in asyncio.run(scenario()):
        assert (outcome.verdict, outcome.failure) == (Verdict.FAILED, NETWORK)
    assert called == []


def _slot(stream: str) -> int:
    return int(key_slot(stream.encode()))
