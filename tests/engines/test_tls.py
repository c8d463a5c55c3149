"""TLS to brokers whose servers here speak none: a forwarder in front of them does, and asks for our
certificate. NATS and Kafka speak it themselves, in their own files.
"""

import asyncio
import contextlib
import ssl
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.acceptance.certificates import Authority
from tests.engines.brokers import Kind, RabbitKind, RedisKind, SqsKind
from tests.engines.servers import Server
from tocsin.domain.connection import BrokerTls
from tocsin.domain.outcome import Outcome, Verdict
from tocsin.domain.secrets import SecretRef
from tocsin.targets.message.trying import Brokers

pytestmark = pytest.mark.parametrize(
    "kind", [RedisKind(), SqsKind(), RabbitKind()], ids=lambda kind: kind.label, scope="module"
)
OURS, STRANGERS = Authority("ours"), Authority("strangers")


@pytest.fixture(scope="module")
def server(kind: Kind) -> Iterator[Server]:
    running = kind.server()
    asyncio.run(kind.make_stream(running))
    yield running
    running.stop()


@pytest.fixture
def context(tmp_path: Path) -> ssl.SSLContext:
    """Shows a certificate for `localhost` and `target.example`, and wants one of the same authority."""
    file = tmp_path / "server.pem"
    file.write_text("".join(OURS.issue("localhost")))
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cadata=OURS.pem)
    context.verify_mode = ssl.CERT_REQUIRED
    context.load_cert_chain(file)
    return context


@contextlib.asynccontextmanager
async def in_front(server: Server, context: ssl.SSLContext) -> AsyncIterator[int]:
    """The port on which a server can be reached by TLS."""

    async def carry(source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            while data := await source.read(65536):
                sink.write(data)
            sink.close()

    async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        answers, inner = await asyncio.open_connection("127.0.0.1", server.port)
        await asyncio.gather(carry(reader, inner), carry(answers, writer))

    listening = await asyncio.start_server(accept, "127.0.0.1", 0, ssl=context)
    async with listening:
        yield listening.sockets[0].getsockname()[1]


def tried(
    kind: Kind,
    server: Server,
    context: ssl.SSLContext,
    ca: Authority = OURS,
    own: Authority | None = OURS,
    host: str = "localhost",
    server_name: str | None = None,
) -> tuple[str | None, Outcome]:
    """What the test button says, and what becomes of a message."""

    async def scenario() -> tuple[str | None, Any]:
        secrets = {"ca": ca.pem, "own": "".join((own or OURS).issue("tocsin"))}
        tls = BrokerTls(
            ca=SecretRef("ca"),
            client_certificate=None if own is None else SecretRef("own"),
            server_name=server_name,
        )
        async with in_front(server, context) as port:
            attempts = kind.attempts(server, secrets=secrets, tls=tls)
            connection = msgspec.structs.replace(
                attempts.book.known.connection, addresses=(f"{host}:{port}",)
            )
            attempts.book.known = msgspec.structs.replace(attempts.book.known, connection=connection)
            button = await Brokers({kind.name: attempts.opening}).try_out(1, connection)
            outcome = await attempts.call(kind.target("x"))
            await attempts.caller.close()
            return button.error, outcome

    return asyncio.run(scenario())


def test_both_sides_show_their_certificates(kind: Kind, server: Server, context: ssl.SSLContext) -> None:
    error, outcome = tried(kind, server, context)
    assert (error, outcome.verdict) == (None, Verdict.SUCCEEDED)


@pytest.mark.parametrize("own", [None, STRANGERS], ids=["none", "a stranger's"])
def test_without_the_right_certificate_of_ours_there_is_no_connection(
    kind: Kind, server: Server, context: ssl.SSLContext, own: Authority | None
) -> None:
    error, outcome = tried(kind, server, context, own=own)
    assert error
    assert outcome.verdict is Verdict.FAILED


def test_a_server_whose_authority_we_do_not_trust_gets_nothing(
    kind: Kind, server: Server, context: ssl.SSLContext
) -> None:
    error, outcome = tried(kind, server, context, ca=STRANGERS)
    assert "certificate" in (error or "")
    assert outcome.verdict is Verdict.FAILED


def test_the_certificates_name_is_the_addresses_or_the_one_that_is_expected(
    kind: Kind, server: Server, context: ssl.SSLContext
) -> None:
    error, outcome = tried(kind, server, context, host="other.example")
    assert "mismatch" in (error or "")
    assert outcome.verdict is Verdict.FAILED
    if kind.name != "sqs":  # which is known by the name in its address
        error, outcome = tried(kind, server, context, host="other.example", server_name="target.example")
        assert (error, outcome.verdict) == (None, Verdict.SUCCEEDED)
