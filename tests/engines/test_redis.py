"""What a Redis says by its configuration: who is let in, what is taken, what is tried again."""

import asyncio
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from redis.asyncio import Redis as RedisClient
from redis.crc import key_slot

from tests.engines.attempts import Attempts
from tests.engines.brokers import PASSWORD, RedisKind
from tests.engines.fake_redis import FakeRedis
from tests.engines.servers import Redis, RedisNode
from tocsin.domain.connection import Connection
from tocsin.domain.message_target import RedisTarget
from tocsin.domain.outcome import Outcome, Verdict
from tocsin.targets.message.trying import Brokers
from tocsin.targets.redis.broker import RedisBroker

KIND = RedisKind()
pytestmark = pytest.mark.parametrize("kind", [KIND], ids=["redis"])


@contextmanager
def _running(*arguments: str) -> Iterator[Redis]:
    server = Redis(*arguments)
    try:
        yield server
    finally:
        server.stop()


def _sent(server: Redis, *targets: Any, stream: bool = True, **how: Any) -> list[Outcome]:
    """How attempts at messages ended that were made one after another."""

    async def scenario() -> list[Any]:
        if stream:
            await KIND.make_stream(server)
        attempts = KIND.attempts(server, **how)
        outcomes = [await attempts.call(target, number) for number, target in enumerate(targets, 1)]
        await attempts.caller.close()
        return outcomes

    return asyncio.run(scenario())


def _said(answer: str) -> tuple[Any, Any]:
    """What became of a message to which a Redis gave this answer, and of the next, which it took."""

    async def scenario() -> tuple[Any, Any]:
        async with FakeRedis([answer, "+1-1"]) as server:
            attempts = Attempts(RedisBroker, Connection("redis", (f"127.0.0.1:{server.port}",)))
            outcomes = [await attempts.call(KIND.target("x"), number) for number in (1, 2)]
            await attempts.caller.close()
            return outcomes[0], outcomes[1]

    return asyncio.run(scenario())


def _asked(server: Redis, *words: Any) -> Any:
    async def scenario() -> Any:
        client: Any = RedisClient(port=server.port)
        try:
            return await client.execute_command(*words)
        finally:
            await client.aclose()

    return asyncio.run(scenario())


@pytest.mark.parametrize(
    "answer",
    [
        "TRYAGAIN Multiple keys request during rehashing of slot",
        "CLUSTERDOWN The cluster is down",
        "LOADING Redis is loading the dataset in memory",
        "BUSY Redis is busy running a script.",
        "OOM command not allowed when used memory > 'maxmemory'.",
        "MISCONF Errors writing to the AOF file: No space left on device",
        "NOREPLICAS Not enough good replicas to write.",
        "MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'.",
        "READONLY You can't write against a read only replica.",
    ],
    ids=lambda answer: answer.split()[0],
)
def test_what_passes_is_tried_again(kind: RedisKind, answer: str) -> None:
    first, second = _said(f"-{answer}")
    assert first.verdict is Verdict.FAILED
    assert first.error.startswith("the broker is busy: ")
    assert second.verdict is Verdict.SUCCEEDED


def test_a_stream_that_is_moving_gets_its_messages_where_it_will_be_and_only_these(kind: RedisKind) -> None:
    async def scenario() -> tuple[list[Any], list[str], list[str]]:
        async with (
            FakeRedis(["+2-1"]) as there,
            FakeRedis([f"-ASK 100 127.0.0.1:{there.port}", "+1-1"]) as here,
        ):
            attempts = Attempts(RedisBroker, Connection("redis", (f"127.0.0.1:{here.port}",)))
            outcomes = [await attempts.call(kind.target("x"), number) for number in (1, 2)]
            await attempts.caller.close()
            return outcomes, here.heard, there.heard

    outcomes, here, there = asyncio.run(scenario())
    assert [outcome.detail for outcome in outcomes] == [{"id": "2-1"}, {"id": "1-1"}]
    assert here == ["HELLO", "XADD", "XADD"]
    assert there == ["HELLO", "ASKING", "XADD"]


@pytest.mark.parametrize(
    "answer",
    [
        "NOPERM this user has no permissions to run the 'xadd' command",
        "NOAUTH Authentication required.",
        "WRONGTYPE Operation against a key holding the wrong kind of value",
    ],
    ids=lambda answer: answer.split()[0],
)
def test_what_does_not_pass_is_rejected(kind: RedisKind, answer: str) -> None:
    first, second = _said(f"-{answer}")
    assert first.verdict is Verdict.REJECTED
    assert second.verdict is Verdict.SUCCEEDED


def test_a_server_without_memory_is_tried_again(kind: RedisKind) -> None:
    with _running() as server:
        assert _sent(server, kind.target("x"))[0].verdict is Verdict.SUCCEEDED
        _asked(server, "CONFIG", "SET", "maxmemory", "1")
        full, again = _sent(server, kind.target("x"), kind.target("x"), stream=False)
        _asked(server, "CONFIG", "SET", "maxmemory", "0")
        (taken,) = _sent(server, kind.target("x"), stream=False)
    for outcome in (full, again):
        assert (outcome.verdict, "the broker is busy" in (outcome.error or "")) == (Verdict.FAILED, True)
    assert taken.verdict is Verdict.SUCCEEDED


def test_a_user_needs_no_right_but_to_add_and_without_it_the_message_is_rejected(kind: RedisKind) -> None:
    how = {"secrets": {PASSWORD.secret: "right"}, "username": "tocsin", "password": PASSWORD}
    with _running() as server:
        _asked(server, "ACL", "SETUSER", "tocsin", "on", ">right", "~due", "+xadd")
        (taken,) = _sent(server, kind.target("x"), **how)
        (unsure,) = _sent(server, kind.target("x"), stream=False, replicas=1, **how)
        _asked(server, "ACL", "SETUSER", "tocsin", "-xadd")
        (refused,) = _sent(server, kind.target("x"), stream=False, **how)
    assert taken.verdict is Verdict.SUCCEEDED
    assert (unsure.verdict, unsure.error) == (
        Verdict.REJECTED,
        "the broker refused the message: it is added, but waiting for replicas is not allowed",
    )
    assert (refused.verdict, refused.error) == (
        Verdict.REJECTED,
        "the broker refused the message: not allowed to add to this stream",
    )


def test_a_server_that_asks_for_a_password_is_not_reached_without_one(kind: RedisKind) -> None:
    with _running("--requirepass", "right") as server:
        outcome, tried = _sent(server, kind.target("x"), stream=False)[0], _tried(server.address)
    assert outcome.verdict is Verdict.REJECTED
    assert outcome.error == tried == "the broker did not let us in: it asks for a password"


def test_what_does_not_answer_as_redis_does_is_not_reached(kind: RedisKind) -> None:
    async def scenario(words: bytes) -> str | None:
        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.readline()
            writer.write(words)
            writer.close()

        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        async with server:
            port = server.sockets[0].getsockname()[1]
            attempts = Attempts(RedisBroker, Connection("redis", (f"127.0.0.1:{port}",)))
            return (
                await Brokers({"redis": attempts.opening}).try_out(1, attempts.book.known.connection)
            ).error

    for words in (b"HTTP/1.1 400 Bad Request\r\n\r\n", b"+OK\r\n", b""):
        assert "could not connect" in (asyncio.run(scenario(words)) or "")


def test_a_frozen_server_is_not_reached(kind: RedisKind, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tocsin.targets.message.opening.OPEN_SECONDS", 0.2)
    with _running() as server:
        assert _tried(server.address) is None
        server.freeze()
        assert _tried(server.address) == "no connection within 0.2 s"
        server.thaw()


def test_of_a_primary_and_its_replica_the_primary_gets_the_messages(kind: RedisKind) -> None:
    with _running() as primary, _running("--replicaof", "127.0.0.1", str(primary.port)) as replica:
        while not _has_replica(primary):
            time.sleep(0.02)
        assert _tried(replica.address) == "could not connect: it is a replica"
        asyncio.run(kind.make_stream(primary))
        both = Connection("redis", (replica.address, primary.address))

        async def scenario() -> Any:
            attempts = Attempts(RedisBroker, both)
            took = await attempts.until_taken(kind.target("x"), 1)
            await asyncio.to_thread(_swap, primary, replica)
            again = await attempts.until_taken(kind.target("y"), 2)
            await attempts.caller.close()
            return took, again, [message.body for message in await kind.received(replica)]

        took, again, bodies = asyncio.run(scenario())
    assert took == 1
    assert again <= 2  # the one that learns that the server is a replica now
    assert bodies == [b"x", b"y"]


def _swap(primary: Redis, replica: Redis) -> None:
    """The replica becomes the primary once it has everything."""
    _asked(primary, "WAIT", 1, 0)
    _asked(replica, "REPLICAOF", "NO", "ONE")
    _asked(primary, "REPLICAOF", "127.0.0.1", replica.port)


def test_a_stream_of_a_cluster_is_found_before_while_and_after_it_moves(kind: RedisKind) -> None:
    old, new = RedisNode(), RedisNode()
    slot, ids = key_slot(b"due"), [_asked(node, "CLUSTER", "MYID").decode() for node in (old, new)]
    try:
        _asked(old, "CLUSTER", "ADDSLOTS", *range(16384))
        _asked(old, "CLUSTER", "MEET", "127.0.0.1", new.port)
        while any(b"cluster_state:ok" not in _asked(node, "CLUSTER", "INFO") for node in (old, new)):
            time.sleep(0.05)
        asyncio.run(kind.make_stream(old))
        outcomes = _sent(new, kind.target("before"), stream=False)
        _asked(new, "CLUSTER", "SETSLOT", slot, "IMPORTING", ids[0])
        _asked(old, "CLUSTER", "SETSLOT", slot, "MIGRATING", ids[1])
        _asked(old, "MIGRATE", "127.0.0.1", new.port, "due", 0, 5000)
        outcomes += _sent(old, kind.target("while"), stream=False)
        for node in (new, old):
            _asked(node, "CLUSTER", "SETSLOT", slot, "NODE", ids[1])
        outcomes += _sent(old, kind.target("after"), stream=False)
        bodies = [message.body for message in asyncio.run(kind.received(new))]
    finally:
        old.stop()
        new.stop()
    assert {outcome.verdict for outcome in outcomes} == {Verdict.SUCCEEDED}
    assert bodies == [b"before", b"while", b"after"]


def test_replicas_that_are_asked_for_must_have_the_message(kind: RedisKind) -> None:
    with _running() as server:
        (alone,) = _sent(server, kind.target("x"), replicas=1)
        with _running("--replicaof", "127.0.0.1", str(server.port)):
            while not _has_replica(server):
                time.sleep(0.02)
            (two,) = _sent(server, kind.target("x"), stream=False, replicas=1)
    assert (alone.verdict, alone.error) == (
        Verdict.FAILED,
        "the broker is busy: 0 of 1 replicas have the message",
    )
    assert two.verdict is Verdict.SUCCEEDED


def _has_replica(server: Redis) -> bool:
    return bool(_asked(server, "INFO", "replication").get("slave0", {}).get("state") == "online")


def _tried(address: str) -> str | None:
    """What the test button says of a connection without credentials."""

    async def scenario() -> str | None:
        connection = Connection("redis", (address,))
        return (
            await Brokers({"redis": Attempts(RedisBroker, connection).opening}).try_out(1, connection)
        ).error

    return asyncio.run(scenario())


def test_a_stream_is_created_only_where_the_connection_says_so(kind: RedisKind) -> None:
    with _running() as server:
        (refused,) = _sent(server, kind.target("x"), stream=False)
        (created,) = _sent(server, kind.target("x"), stream=False, creates_streams=True)
        messages = asyncio.run(kind.received(server))
    assert (refused.verdict, created.verdict) == (Verdict.REJECTED, Verdict.SUCCEEDED)
    assert len(messages) == 1


def test_a_stream_keeps_about_as_many_entries_as_the_target_says(kind: RedisKind) -> None:
    short = RedisTarget(connection="bus", stream="due", max_length=100, body="x")
    with _running() as server:
        outcomes = _sent(server, *[short] * 1000)
        kept = len(asyncio.run(kind.received(server)))
    assert {outcome.verdict for outcome in outcomes} == {Verdict.SUCCEEDED}
    assert 100 <= kept < 300  # nodes of a hundred entries go as a whole
