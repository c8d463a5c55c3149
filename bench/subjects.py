"""What section (l) calls: every kind of broker, a gRPC server, scripts; each with how an engine reaches it
and how our client alone does.

Every broker writes as its tests have it do: Redis syncs each entry, a queue of RabbitMQ and the messages in
it are durable, JetStream syncs every two minutes, Kafka leaves that to its replicas and has none. ElasticMQ,
which stands in for SQS, keeps messages in memory. The gRPC server does nothing but answer. A script is a
shell that ends at once: what is measured is its sandbox.
"""

import asyncio
import multiprocessing
import shutil
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager
from typing import Any, Final, NamedTuple, cast

import grpc
import grpc.aio
import pytest
import uvloop
from tests.acceptance.grpc_server import METHOD, SERVICE, descriptors
from tests.engines import sqs_server
from tests.engines.attempts import LOCAL, _lookup
from tests.engines.brokers import PASSWORD, KafkaKind, Kind, NatsKind, RabbitKind, RedisKind, SqsKind
from tests.engines.servers import ElasticMq, Server

from bench.installation import Installation
from tocsin.clock import DatabaseClock
from tocsin.domain.connection import Connection
from tocsin.domain.grpc_target import GrpcTarget
from tocsin.domain.message_target import MessageTarget, SqsTarget
from tocsin.domain.script_target import ScriptRules, ScriptTarget
from tocsin.domain.sealing import SecretBox, new_master_key, read_master_keys
from tocsin.domain.target import Target
from tocsin.store.connections import ConnectionStore
from tocsin.store.secrets import SecretStore
from tocsin.targets.caller import TargetCaller
from tocsin.targets.grpc.caller import GrpcCaller
from tocsin.targets.grpc.channels import Channels
from tocsin.targets.http.resolver import Resolver
from tocsin.targets.message.caller import MessageCaller
from tocsin.targets.script.caller import ScriptCaller

MESSAGES_AT_ONCE: Final = 5000
CALLS_AT_ONCE: Final = 64
"""As many as a worker has under way to one host."""
SCRIPTS_AT_ONCE: Final = 8
"""As many as a worker runs."""
_RECEIPT: Final = b"\x08\x07"
_MASTER_KEY: Final = new_master_key()


class Ready(NamedTuple):
    """Something that runs, and how it is called."""

    target: Target
    new_caller: Callable[[], TargetCaller]
    """Our client, with nothing around it."""
    at_once: int
    connection: Connection | None = None
    settings: dict[str, object] = {}  # noqa: RUF012 - of engines; never changed
    empty: Callable[[], None] = lambda: None
    """Forget what was sent so far."""

    async def close(self, caller: TargetCaller) -> None:
        """Leave what it is connected to."""
        if isinstance(caller, MessageCaller):
            await caller.close()

    async def introduce(self, place: Installation) -> None:
        """Tell an installation the connection that targets name. Another kind may have had its name."""
        if self.connection is None:
            return
        await place.database.execute("DELETE FROM connections")
        await ConnectionStore(place.database).create(1, "bus", self.connection)
        if self.connection.password is not None:
            box = SecretBox(read_master_keys(_MASTER_KEY, "secret_key"))
            await SecretStore(place.database, box).put(1, PASSWORD.secret, sqs_server.SECRET)


class NotInstalled(Exception):
    """Its server is not on this machine; the words say which."""


class Subject(NamedTuple):
    """One kind of target."""

    name: str
    what: str
    """In the plural."""
    ready: Callable[[], AbstractAsyncContextManager[Ready]]
    share: int = 1
    """One in this many of the executions that others are measured with: it is slower."""
    forks: bool = False
    """Whether others spend the processor time, so that ours would say nothing."""


class _ElasticMqKind(SqsKind):
    """A standard queue of ElasticMQ."""

    server = ElasticMq

    def target(self, body: Any = None, where: str = "due") -> MessageTarget:
        url = f"http://127.0.0.1/000000000000/{where}"
        return SqsTarget(connection="bus", queue_url=url, body=body)

    def attempts(self, server: Server, *arguments: Any, **more: Any) -> Any:
        return super().attempts(server, *arguments, **{"region": "elasticmq"} | more)

    async def make_stream(self, server: Server, **more: Any) -> None:
        """It has its queues from the start."""


def _broker(kind: Kind) -> Subject:
    @asynccontextmanager
    async def ready() -> AsyncIterator[Ready]:
        try:
            server = await asyncio.to_thread(kind.server)
        except pytest.skip.Exception as reason:
            raise NotInstalled(str(reason)) from None
        try:
            await kind.make_stream(server)
            connection = kind.attempts(server, in_flight=MESSAGES_AT_ONCE).book.known.connection
            yield Ready(
                kind.target({"order": 7}),
                lambda: kind.attempts(server, in_flight=MESSAGES_AT_ONCE).caller,
                MESSAGES_AT_ONCE,
                connection,
                {"secret_key": _MASTER_KEY},
                lambda: _purge(server),
            )
        finally:
            await asyncio.to_thread(server.stop)

    return Subject(kind.name, f"messages to {kind.name}", ready)


def _purge(server: Server) -> None:
    """ElasticMQ has little memory; the others have a disk."""
    if isinstance(server, ElasticMq):
        server.ask("PurgeQueue", QueueUrl=f"http://{server.address}/000000000000/due")


@asynccontextmanager
async def _grpc_ready() -> AsyncIterator[Ready]:
    with _grpc_server() as port:
        target = GrpcTarget(
            address=f"127.0.0.1:{port}",
            method=METHOD,
            plaintext=True,
            descriptors=descriptors(),
            body={"number": "7"},
        )
        yield Ready(
            target, lambda: GrpcCaller(Channels(Resolver(_lookup), LOCAL), DatabaseClock()), CALLS_AT_ONCE
        )


@contextmanager
def _grpc_server() -> Iterator[int]:
    """A gRPC server in a process of its own, that gives every order the same receipt."""
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=_serve_grpc, args=(theirs,), daemon=True)
    process.start()
    try:
        yield int(ours.recv())
    finally:
        process.terminate()
        process.join()


def _serve_grpc(pipe: Any) -> None:
    async def place(_: bytes, __: Any) -> bytes:
        return _RECEIPT

    async def main() -> None:
        server = grpc.aio.server()
        handlers = {"Place": grpc.unary_unary_rpc_method_handler(cast("Any", place))}
        server.add_generic_rpc_handlers([grpc.method_handlers_generic_handler(SERVICE, handlers)])
        port = server.add_insecure_port("127.0.0.1:0")
        await server.start()
        pipe.send(port)
        await server.wait_for_termination()

    uvloop.run(main())


@asynccontextmanager
async def _script_ready() -> AsyncIterator[Ready]:
    if shutil.which("bwrap") is None:
        raise NotInstalled("bubblewrap is not installed")
    yield Ready(
        ScriptTarget(interpreter="sh", source="exit 0"),
        lambda: ScriptCaller(ScriptRules(("sh",), network=False), DatabaseClock()),
        SCRIPTS_AT_ONCE,
        settings={"scripts": "on"},
    )


SUBJECTS: Final = (
    *(_broker(kind) for kind in (KafkaKind(), NatsKind(), RabbitKind(), RedisKind(), _ElasticMqKind())),
    Subject("grpc", "gRPC calls", _grpc_ready),
    Subject("script", "scripts", _script_ready, share=40, forks=True),
)
