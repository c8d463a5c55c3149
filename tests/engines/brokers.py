"""What the conformance suite knows of each broker: how to make a stream, read it, and send it a message."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Mapping
from typing import Any, NamedTuple, cast

import aiormq
import nats
from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewTopic
from pamqp.commands import Basic
from redis.asyncio import Redis as RedisClient

from tests.engines import sqs_server
from tests.engines.attempts import START, Attempts
from tests.engines.servers import FakeSqs, Kafka, Nats, Rabbit, Redis, Server
from tocsin.clock import DatabaseClock, VirtualClock
from tocsin.domain.addresses import AddressPolicy
from tocsin.domain.connection import Connection
from tocsin.domain.message_target import (
    KafkaTarget,
    MessageTarget,
    NatsTarget,
    RabbitTarget,
    RedisTarget,
    SqsTarget,
)
from tocsin.domain.secrets import SecretRef
from tocsin.targets.http.client import HttpClient
from tocsin.targets.kafka.broker import KafkaBroker
from tocsin.targets.message.broker import Access
from tocsin.targets.message.opening import MakeBroker
from tocsin.targets.nats.broker import NatsBroker
from tocsin.targets.rabbitmq.broker import RabbitBroker
from tocsin.targets.redis.broker import RedisBroker
from tocsin.targets.sqs.broker import SqsBroker


class Received(NamedTuple):
    """A message as a consumer gets it."""

    fields: Mapping[str, str]
    body: bytes


class Kind:
    """One kind of broker."""

    name: str
    make: MakeBroker
    server: type[Server]
    drops_duplicates: bool
    home = "stream"
    """What takes messages is called so in errors."""

    @property
    def label(self) -> str:
        return self.name

    def attempts(
        self, server: Server, policy: AddressPolicy | None = None, secrets: Any = None, **more: Any
    ) -> Attempts:
        connection = Connection(self.name, (server.address,), **more)
        return Attempts(self.make, connection, secrets, *([] if policy is None else [policy]))

    def target(self, body: Any = None, where: str = "due") -> MessageTarget:
        raise NotImplementedError

    async def make_stream(self, server: Server, **more: Any) -> None:
        raise NotImplementedError

    async def received(self, server: Server) -> list[Received]:
        raise NotImplementedError


class NatsKind(Kind):
    name, make, server, drops_duplicates = "nats", NatsBroker, Nats, True
    forbidding = ("--user", "tocsin", "--pass", "right")

    def target(self, body: Any = None, where: str = "due") -> MessageTarget:
        return NatsTarget(connection="bus", subject=f"{where}.orders", headers={"colour": "red"}, body=body)

    async def make_stream(self, server: Server, **more: Any) -> None:
        async with _nats(server) as client:
            await client.jetstream().add_stream(name="DUE", subjects=["due.>"], **more)

    async def received(self, server: Server) -> list[Received]:
        async with _nats(server) as client:
            stream = client.jetstream()
            state = (await stream.stream_info("DUE")).state
            found = []
            for number in range(state.first_seq or 1, state.last_seq + 1):
                message = await stream.get_msg("DUE", number)
                found.append(Received(message.headers or {}, message.data or b""))
            return found


class RedisKind(Kind):
    name, make, server, drops_duplicates = "redis", RedisBroker, Redis, False
    forbidding = ("--requirepass", "right")

    def target(self, body: Any = None, where: str = "due") -> MessageTarget:
        return RedisTarget(connection="bus", stream=where, fields={"colour": "red"}, body=body)

    async def make_stream(self, server: Server, **more: Any) -> None:
        async with _redis(server) as client:
            await client.xgroup_create("due", "readers", mkstream=True)

    async def received(self, server: Server) -> list[Received]:
        async with _redis(server) as client:
            entries = await client.xrange("due")
            texts = [{k.decode(): v for k, v in fields.items()} for _, fields in entries]
            return [
                Received({k: v.decode() for k, v in one.items() if k != "body"}, one["body"]) for one in texts
            ]


class RabbitKind(Kind):
    name, make, server, drops_duplicates = "rabbitmq", RabbitBroker, Rabbit, False

    def target(self, body: Any = None, where: str = "due") -> MessageTarget:
        return RabbitTarget(connection="bus", routing_key=where, headers={"colour": "red"}, body=body)

    async def make_stream(self, server: Server, **more: Any) -> None:
        async with _rabbit(server) as channel:
            await channel.queue_delete("due")
            await channel.queue_declare("due", durable=True, arguments=more)

    async def received(self, server: Server) -> list[Received]:
        found = []
        async with _rabbit(server) as channel:
            while isinstance((message := await channel.basic_get("due", no_ack=True)).delivery, Basic.GetOk):
                properties = message.header.properties
                own = {"message-id": properties.message_id, "delivery-mode": str(properties.delivery_mode)}
                found.append(Received({**properties.headers, **own}, message.body))
        return found


class KafkaKind(Kind):
    name, server, drops_duplicates, home = "kafka", Kafka, False, "topic"

    def make(self, access: Access) -> KafkaBroker:  # type: ignore[override]
        return KafkaBroker(access, DatabaseClock())  # a topic takes no message from the future

    def target(self, body: Any = None, where: str = "due", key: str | None = "customer-7") -> MessageTarget:
        return KafkaTarget(connection="bus", topic=where, key=key, headers={"colour": "red"}, body=body)

    async def make_stream(
        self, server: Server, name: str = "due", partitions: int = 3, replicas: int = 1, **more: Any
    ) -> None:
        admin = AIOKafkaAdminClient(bootstrap_servers=server.address)
        await admin.start()
        try:
            settings = {key.replace("_", "."): str(value) for key, value in more.items()}
            await admin.create_topics([NewTopic(name, partitions, replicas, topic_configs=settings)])
        finally:
            await admin.close()

    async def received(self, server: Server, name: str = "due") -> list[Received]:
        return [
            Received({key: value.decode() for key, value in record.headers}, record.value)
            for record in await self.records(server, name)
        ]

    async def records(self, server: Server, name: str = "due") -> list[Any]:
        """With their keys, partitions and offsets."""
        consumer = AIOKafkaConsumer(bootstrap_servers=server.address)
        await consumer.start()
        try:
            numbers = consumer.partitions_for_topic(name) or await consumer._client._wait_on_metadata(name)
            partitions = [TopicPartition(name, number) for number in numbers]
            consumer.assign(partitions)
            ends = await consumer.end_offsets(partitions)
            for one in partitions:
                consumer.seek(one, 0)
            found: list[Any] = []
            while len(found) < sum(ends.values()):
                for records in (await consumer.getmany(timeout_ms=1000)).values():
                    found += records
            return found
        finally:
            await consumer.stop()


@contextlib.asynccontextmanager
async def _nats(server: Server) -> AsyncIterator[Any]:
    client = await nats.connect(f"nats://{server.address}", allow_reconnect=False)
    try:
        yield client
    finally:
        await client.close()


@contextlib.asynccontextmanager
async def _redis(server: Server) -> AsyncIterator[Any]:
    client: Any = RedisClient(port=server.port)
    try:
        while True:
            with contextlib.suppress(Exception):
                await client.ping()
                break
            await asyncio.sleep(0.02)
        yield client
    finally:
        await client.aclose()


@contextlib.asynccontextmanager
async def _rabbit(server: Server) -> AsyncIterator[Any]:
    connection = await aiormq.connect(f"amqp://{server.address}/")
    try:
        yield await connection.channel()
    finally:
        await connection.close()


class SqsKind(Kind):
    """Over a stand-in: its name says so where kinds are named."""

    name, label, server, drops_duplicates, home = "sqs", "sqs_stand_in", FakeSqs, True, "queue"
    forbidding = ()

    def make(self, access: Access) -> SqsBroker:  # type: ignore[override]
        client = HttpClient(access.dialer._resolver, access.dialer._policy)
        broker = SqsBroker(access, client, VirtualClock(START))
        broker.close = client.close  # type: ignore[method-assign]
        return broker

    def attempts(
        self, server: Server, policy: AddressPolicy | None = None, secrets: Any = None, **more: Any
    ) -> Attempts:
        if "password" not in more:
            secrets = {PASSWORD.secret: sqs_server.SECRET, **(secrets or {})}
        keys = {"username": sqs_server.KEY_ID, "password": PASSWORD, "region": sqs_server.REGION}
        return super().attempts(server, policy, secrets, **(keys | more))

    def target(self, body: Any = None, where: str = "due") -> MessageTarget:
        # A host that there is not: the URL of a queue is never called.
        queue_url = f"https://nowhere.invalid/1/{where}.fifo"
        return SqsTarget(
            connection="bus", queue_url=queue_url, group="g", attributes={"colour": "red"}, body=body
        )

    async def make_stream(self, server: Server, **more: Any) -> None:
        await asyncio.to_thread(cast("FakeSqs", server).ask, "/_queue", "due.fifo")

    async def received(self, server: Server) -> list[Received]:
        messages = await asyncio.to_thread(cast("FakeSqs", server).ask, "/_messages")
        entries = [message["entry"] for message in messages]
        return [
            Received(
                {name: one["StringValue"] for name, one in entry["MessageAttributes"].items()},
                entry["MessageBody"].encode(),
            )
            for entry in entries
        ]


PASSWORD = SecretRef("broker-password")
KINDS = (NatsKind(), RedisKind())
"""Servers that start at once. RabbitMQ takes seconds to: its tests share one."""
