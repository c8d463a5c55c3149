"""TLS targets: what is trusted, what is refused, and that the bounds hold behind it."""

import ssl
import warnings
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.acceptance.hostile_server import (
    OK,
    Peer,
    Script,
    answering,
    answering_then_close,
    endless,
    hostile_server,
    resetting,
    silent,
)
from tests.acceptance.http_calls import SMALL, Client, failure_of, kind_of, on_both_loops
from tests.acceptance.self_signed import server_context, trusting_context, write_certificate
from tocsin.domain.addresses import parse_target_url
from tocsin.targets.http.exchange import FailureKind, HttpLimits, OutgoingRequest


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_certificate(tmp_path_factory.mktemp("tls"), "target.example", "127.0.0.1")


def trusting_client(certificate: Path, limits: HttpLimits | None = None) -> Client:
    return Client(ssl_context=trusting_context(certificate), limits=limits)


@on_both_loops
async def test_tls_targets_are_called_by_name(certificate: Path) -> None:
    """A trusted certificate is accepted, the name is sent in the handshake, and the connection is kept."""
    names: list[str | None] = []
    context = server_context(certificate)
    context.sni_callback = lambda _socket, name, _context: names.append(name)
    async with hostile_server(answering(OK), tls=context) as server, trusting_client(certificate) as client:
        for _ in range(3):
            assert (await client.get(server)).body == b"ok"
        assert server.connections == 1
        assert names == ["target.example"]
        assert server.requests[0].headers["host"] == f"target.example:{server.port}"


@on_both_loops
async def test_tls_targets_are_called_by_address(certificate: Path) -> None:
    """A certificate for an address is accepted at that address."""
    async with (
        hostile_server(answering(OK), tls=server_context(certificate)) as server,
        trusting_client(certificate) as client,
    ):
        assert (await client.fetch(f"https://127.0.0.1:{server.port}/")).status == 200


@on_both_loops
async def test_untrusted_certificates_are_refused(certificate: Path) -> None:
    """A self-signed certificate that nobody vouches for ends the delivery before anything is sent, and says
    why."""
    async with (
        hostile_server(answering(OK), tls=server_context(certificate)) as server,
        Client() as client,
    ):
        failure = await failure_of(client.get(server))
        assert failure.kind is FailureKind.TLS
        assert "self-signed" in failure.detail or "self signed" in failure.detail
        assert server.requests == []


@on_both_loops
async def test_certificates_for_another_name_are_refused(certificate: Path) -> None:
    """A trusted certificate does not vouch for a name that it does not carry."""
    async with (
        hostile_server(answering(OK), tls=server_context(certificate)) as server,
        trusting_client(certificate) as client,
    ):
        failure = await failure_of(client.fetch(f"https://other.example:{server.port}/"))
        assert failure.kind is FailureKind.TLS
        assert "other.example" in failure.detail
        assert server.requests == []


@on_both_loops
async def test_expired_certificates_are_refused(tmp_path: Path) -> None:
    """A certificate past its time is refused, and the text says so."""
    expired = write_certificate(tmp_path, "target.example", valid_days=-2)
    async with (
        hostile_server(answering(OK), tls=server_context(expired)) as server,
        trusting_client(expired) as client,
    ):
        failure = await failure_of(client.get(server))
        assert failure.kind is FailureKind.TLS
        assert "expired" in failure.detail


@on_both_loops
async def test_old_tls_is_refused(certificate: Path) -> None:
    """A target that speaks nothing newer than TLS 1.1 is not called."""
    context = server_context(certificate)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        context.minimum_version = ssl.TLSVersion.TLSv1
        context.maximum_version = ssl.TLSVersion.TLSv1_1
        context.set_ciphers("ALL:@SECLEVEL=0")
    async with hostile_server(answering(OK), tls=context) as server, trusting_client(certificate) as client:
        assert await kind_of(client.get(server)) is FailureKind.TLS


async def _speak_plainly(peer: Peer) -> None:
    await peer.reader.read(1)
    await peer.send(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n")
    await peer.wait_for_close()


async def _leave_the_handshake(peer: Peer) -> None:
    await peer.reader.read(1)


@pytest.mark.parametrize("script", [_speak_plainly, _leave_the_handshake])
@on_both_loops
async def test_a_target_without_tls_is_a_tls_failure(script: Script) -> None:
    """Plain HTTP or a hang-up where TLS was expected fails as TLS, and is told apart from no connection."""
    async with hostile_server(script) as server, Client() as client:
        assert await kind_of(client.fetch(f"https://127.0.0.1:{server.port}/")) is FailureKind.TLS


@on_both_loops
async def test_a_handshake_that_hangs_is_given_up() -> None:
    """A target that accepts and never shakes hands costs the connect time and no more."""
    async with hostile_server(silent) as server, Client() as client:
        url = parse_target_url(f"https://127.0.0.1:{server.port}/")
        assert (
            await kind_of(client.send(OutgoingRequest("GET", url, connect_timeout=0.1)))
            is FailureKind.TIMEOUT
        )
        await server.all_closed.wait()


@pytest.mark.parametrize("leave", [answering_then_close, resetting])
@on_both_loops
async def test_a_tls_connection_closed_while_idle_is_replaced(
    certificate: Path, leave: Callable[[bytes], Script]
) -> None:
    """Reuse is as careful under TLS: every request is sent once, on a connection that is still there."""
    async with (
        hostile_server(leave(OK), tls=server_context(certificate)) as server,
        trusting_client(certificate) as client,
    ):
        for _ in range(3):
            assert (await client.get(server)).status == 200
            await server.all_closed.wait()
        assert len(server.requests) == 3


@on_both_loops
async def test_endless_bodies_are_cut_under_tls(certificate: Path) -> None:
    """The bounds hold behind TLS too, and the connection is really closed."""
    script = endless(b"HTTP/1.1 200 OK\r\nContent-Length: 10000000000\r\n\r\n", b"x" * 10_000)
    async with (
        hostile_server(script, tls=server_context(certificate)) as server,
        trusting_client(certificate, SMALL) as client,
    ):
        answer = await client.get(server)
        assert (answer.status, answer.truncated, len(answer.body)) == (200, True, SMALL.kept_bytes)
        await server.all_closed.wait()
