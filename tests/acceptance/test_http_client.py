"""What the HTTP client sends, and how it reads what comes back from a server that keeps no rule."""

import asyncio
import gzip
import socket
from collections.abc import Callable
from typing import Any

import pytest
import uvicorn

from tests.acceptance.hostile_server import (
    OK,
    Peer,
    Script,
    answering,
    answering_then_close,
    byte_by_byte,
    endless,
    half_closing,
    hostile_server,
    resetting,
    silent,
    trickling,
)
from tests.acceptance.http_calls import SMALL, Client, failure_of, kind_of, on_both_loops
from tocsin.domain.addresses import parse_target_url
from tocsin.targets.http.exchange import FailureKind, HttpLimits, OutgoingRequest

# Reading answers


@pytest.mark.parametrize(
    ("wire", "status", "body"),
    [
        (OK, 200, b"ok"),
        (
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2;ext=1\r\nde\r\n0\r\nT: x\r\n\r\n",
            200,
            b"abcde",
        ),
        (b"HTTP/1.1 100 Continue\r\n\r\n" + OK, 200, b"ok"),
        (b"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\nHTTP/1.1 102 Processing\r\n\r\n" + OK, 200, b"ok"),
        (b"HTTP/1.1 204 No Content\r\n\r\n", 204, b""),
        (b"HTTP/1.1 204 No Content\r\nContent-Length: 5\r\n\r\n", 204, b""),
        (b"HTTP/1.1 304 Not Modified\r\nContent-Length: 5\r\n\r\n", 304, b""),
        (b"HTTP/1.1 410 Gone\r\nContent-Length: 0\r\n\r\n", 410, b""),
        (b"HTTP/1.1 500\r\nContent-Length: 0\r\n\r\n", 500, b""),
        (b"\r\nHTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", 200, b""),
    ],
)
@on_both_loops
async def test_answers_arrive_whole_byte_by_byte(wire: bytes, status: int, body: bytes) -> None:
    """However an answer is cut into pieces, status and body are read as its framing says."""
    async with hostile_server(byte_by_byte(wire)) as server, Client() as client:
        answer = await client.get(server)
        assert (answer.status, answer.body, answer.body_bytes_read, answer.truncated) == (
            status,
            body,
            len(body),
            False,
        )


@pytest.mark.parametrize(
    "wire",
    [
        b"HTTP/1.0 200 OK\r\n\r\nuntil the end",
        b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nuntil the end",
        b"HTTP/1.1 200 OK\r\n\r\nuntil the end",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: identity\r\n\r\nuntil the end",
    ],
)
@on_both_loops
async def test_bodies_without_framing_end_with_the_stream(wire: bytes) -> None:
    """A body that nothing measures is whole when the target closes, and the connection is not used again."""
    async with hostile_server(half_closing(wire)) as server, Client() as client:
        assert (await client.get(server)).body == b"until the end"
        assert (await client.get(server)).body == b"until the end"
        assert server.connections == 2


@on_both_loops
async def test_headers_of_answers_are_given_in_order() -> None:
    """Header names come lower-case, values as sent, repeated ones each; trailers are no headers."""
    wire = (
        b"HTTP/1.1 200 OK\r\nX-One: 1\r\nSet-Cookie: a\r\nSet-Cookie: b\r\nX-Latin: caf\xe9\r\n"
        b"Transfer-Encoding: chunked\r\n\r\n0\r\nX-Trailer: t\r\n\r\n"
    )
    async with hostile_server(answering(wire)) as server, Client() as client:
        answer = await client.get(server)
        assert answer.headers == (
            ("x-one", "1"),
            ("set-cookie", "a"),
            ("set-cookie", "b"),
            ("x-latin", "café"),
            ("transfer-encoding", "chunked"),
        )
        assert answer.header("set-cookie") == "a"
        assert answer.header("x-trailer") is None


@on_both_loops
async def test_connections_are_kept_between_requests() -> None:
    """Answers of every bodiless kind, HEAD among them, leave the connection fit for the next request."""
    bodiless = b"HTTP/1.1 204 No Content\r\n\r\n"
    to_head = b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n"
    unchanged = b"HTTP/1.1 304 Not Modified\r\nContent-Length: 7\r\n\r\n"
    async with (
        hostile_server(answering(OK, bodiless, to_head, unchanged, OK)) as server,
        Client() as client,
    ):
        url = f"http://target.example:{server.port}/"
        statuses = [
            (await client.fetch(url)).status,
            (await client.fetch(url)).status,
            (await client.fetch(url, "HEAD")).status,
            (await client.fetch(url)).status,
            (await client.fetch(url, "POST", b"x")).status,
        ]
        assert statuses == [200, 204, 200, 304, 200]
        assert server.connections == 1


@pytest.mark.parametrize(
    "wire",
    [
        b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nok",
        b"HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nok",
        OK + b"HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nforged",
        OK + b"surplus",
        b"HTTP/1.1 204 No Content\r\n\r\nsurplus",
    ],
)
@on_both_loops
async def test_a_connection_is_dropped_unless_the_answer_ends_cleanly(wire: bytes) -> None:
    """After a goodbye, or bytes beyond the answer, the next request gets a connection and an answer of its
    own."""
    async with hostile_server(answering(wire), answering(OK)) as server, Client() as client:
        assert (await client.get(server)).status in {200, 204}
        answer = await client.get(server)
        assert (answer.status, answer.body) == (200, b"ok")
        assert server.connections == 2


@on_both_loops
async def test_a_head_answer_with_a_body_is_not_believed() -> None:
    """A body after the answer to HEAD is no part of that answer, nor of the next one."""
    async with (
        hostile_server(
            answering(OK), answering(b"HTTP/1.1 201 Created\r\nContent-Length: 0\r\n\r\n")
        ) as server,
        Client() as client,
    ):
        answer = await client.fetch(f"http://target.example:{server.port}/", "HEAD")
        assert (answer.status, answer.body) == (200, b"")
        assert (await client.get(server)).status == 201


@on_both_loops
async def test_what_is_sent_is_what_was_asked() -> None:
    """Method, path, query, body and headers go out as given, Host and length are ours, and nothing else is
    added."""
    async with hostile_server(answering(OK)) as server, Client() as client:
        url = parse_target_url(f"http://Target.Example:{server.port}/a/b?c=d%20e")
        headers = (("Content-Type", "text/plain"), ("X-Tab", "a\tb"), ("X-Latin", "café"))
        await client.send(OutgoingRequest("POST", url, headers, b"hello"))
        await client.send(OutgoingRequest("GET", url))
        posted, got = server.requests
        assert posted.line == "POST /a/b?c=d%20e HTTP/1.1"
        assert posted.body == b"hello"
        assert posted.headers == {
            "host": f"target.example:{server.port}",
            "content-type": "text/plain",
            "x-tab": "a\tb",
            "x-latin": "café",
            "content-length": "5",
        }
        assert got.headers == {"host": f"target.example:{server.port}"}


@on_both_loops
async def test_a_real_server_is_understood() -> None:
    """uvicorn's plain, streamed, empty and HEAD answers are read, over one kept connection."""

    async def app(scope: Any, receive: Any, send: Any) -> None:
        body = (await receive())["body"]
        pieces = [] if scope["path"] == "/empty" else [body, b" and more"]
        sized = [(b"content-length", b"%d" % sum(map(len, pieces)))] if scope["path"] == "/sized" else []
        await send({"type": "http.response.start", "status": 200 if pieces else 204, "headers": sized})
        for piece in pieces:
            await send({"type": "http.response.body", "body": piece, "more_body": True})
        await send({"type": "http.response.body"})

    with socket.create_server(("127.0.0.1", 0)) as listener:
        url = f"http://target.example:{listener.getsockname()[1]}"
        server = uvicorn.Server(uvicorn.Config(app, lifespan="off", log_config=None))
        serving = asyncio.create_task(server.serve(sockets=[listener]))
        async with Client(limits=HttpLimits(connections=1)) as client:
            assert (await client.fetch(f"{url}/streamed", "POST", b"hello")).body == b"hello and more"
            assert (await client.fetch(f"{url}/sized", "PUT", b"hello")).body == b"hello and more"
            assert (await client.fetch(f"{url}/empty")).status == 204
            assert (await client.fetch(f"{url}/sized", "HEAD")).header("content-length") == "9"
            assert len(server.server_state.connections) == 1
        server.should_exit = True
        await serving


@on_both_loops
async def test_compressed_bodies_stay_compressed() -> None:
    """A gzip bomb is a few harmless bytes, because nothing is unpacked."""
    bomb = gzip.compress(bytes(10_000_000))
    wire = b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: %d\r\n\r\n%s" % (len(bomb), bomb)
    async with hostile_server(answering(wire)) as server, Client() as client:
        answer = await client.get(server)
        assert answer.body == bomb
        assert answer.body_bytes_read == len(bomb)


# Targets that stall, flood, lie and leave


@pytest.mark.parametrize(
    "script",
    [
        silent,
        trickling(b"HTTP/1.1 200 OK\r\nX: ", 0.02),
        trickling(b"HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n", 0.02),
        trickling(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1;", 0.02),
        trickling(b"HTTP/1.1 200 OK\r\n\r\n", 0.02),
    ],
)
@on_both_loops
async def test_the_total_time_ends_a_slow_answer(script: Script) -> None:
    """A target that keeps sending a byte now and then is given up when the total time is over, and its place
    freed."""
    limits = HttpLimits(connections=1, connections_per_origin=1)
    async with hostile_server(script, answering(OK)) as server, Client(limits=limits) as client:
        assert await kind_of(client.get(server, seconds=0.15)) is FailureKind.TIMEOUT
        assert (await client.get(server)).status == 200


@pytest.mark.parametrize(
    "script",
    [
        endless(b"HTTP/1.1 200 OK\r\n", b"X-More: and more\r\n"),
        endless(b"HTTP/1.1 200 OK\r\nX-Long: ", b"x" * 1000),
        endless(b"HTTP/1.1 200 ", b"x" * 1000),
        endless(b"", b"HTTP/1.1 100 Continue\r\n\r\n"),
        answering(b"HTTP/1.1 200 OK\r\nX-Big: " + b"x" * 8000 + b"\r\nContent-Length: 0\r\n\r\n"),
    ],
)
@on_both_loops
async def test_heads_are_bounded(script: Script) -> None:
    """Headers without end, a line without end, informational answers without end: refused at the bound."""
    async with hostile_server(script) as server, Client(limits=SMALL) as client:
        failure = await failure_of(client.get(server))
        assert failure.kind is FailureKind.TOO_LARGE
        assert not failure.kind.retryable
        await server.all_closed.wait()


@pytest.mark.parametrize(
    "script",
    [
        endless(b"HTTP/1.1 500 Oh\r\nContent-Length: 10000000000\r\n\r\n", b"x" * 10_000),
        endless(b"HTTP/1.1 500 Oh\r\nTransfer-Encoding: chunked\r\n\r\n", b"3e8\r\n" + b"x" * 1000 + b"\r\n"),
        endless(b"HTTP/1.0 500 Oh\r\n\r\n", b"x" * 10_000),
    ],
)
@on_both_loops
async def test_endless_bodies_are_cut(script: Script) -> None:
    """A body without end costs a bounded read; the status still counts, the first bytes are kept, the line is
    cut."""
    async with hostile_server(script) as server, Client(limits=SMALL) as client:
        answer = await client.get(server)
        assert (answer.status, answer.truncated) == (500, True)
        assert answer.body == b"x" * SMALL.kept_bytes
        assert answer.body_bytes_read > SMALL.read_bytes
        await server.all_closed.wait()


@pytest.mark.parametrize(
    "script",
    [
        endless(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1;", b"extension" * 1000),
        endless(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n", b"Trailer: x\r\n" * 100),
        endless(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nTrailer: ", b"x" * 1000),
    ],
)
@on_both_loops
async def test_endless_framing_is_cut(script: Script) -> None:
    """Chunk extensions and trailers without end are cut like a body, though not one byte of body came."""
    async with hostile_server(script) as server, Client(limits=SMALL) as client:
        answer = await client.get(server)
        assert (answer.status, answer.truncated, answer.body) == (200, True, b"")
        await server.all_closed.wait()


@on_both_loops
async def test_a_long_body_is_read_but_kept_in_part() -> None:
    """A body over the kept size but under the read bound is read to its end, so the connection stays."""
    wire = b"HTTP/1.1 200 OK\r\nContent-Length: 50000\r\n\r\n" + b"x" * 50_000
    async with hostile_server(answering(wire)) as server, Client(limits=SMALL) as client:
        for _ in range(2):
            answer = await client.get(server)
            assert (len(answer.body), answer.body_bytes_read, answer.truncated) == (
                SMALL.kept_bytes,
                50_000,
                True,
            )
        assert server.connections == 1


@pytest.mark.parametrize(
    "wire",
    [
        b"SSH-2.0-OpenSSH_9.6\r\n",
        b"<html>hello</html>",
        b"\x15\x03\x01\x00\x02\x02\x28",
        b"\x00\xff\x00\xff" * 100,
        b"220 smtp.example ESMTP\r\n",
        b"-ERR unknown command\r\n",
        b"HTTP/1.1 abc OK\r\n\r\n",
        b"HTTP/1.1 99 Low\r\n\r\n",
        b"HTTP/1.1 000 Zero\r\nContent-Length: 0\r\n\r\n",
        b"HTTP/1.1 999 High\r\nContent-Length: 0\r\n\r\n",
        b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\nbytes",
        b"HTTP/1.1 101 Switching Protocols\r\n\r\n",
        b"HTTP/1.1 200 OK\nContent-Length: 0\n\n",
        b"HTTP/1.1 200 OK\r\nNo colon here\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nX: a\x00b\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nX: a\r\n folded\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 1e9\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 99999999999999999999999999\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\nabc",
        b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nZZ\r\nab\r\n0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n-1\r\nab\r\n0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nabcdef\r\n0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nffffffffffffffffff\r\nab\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n\r\n\r\n",
    ],
)
@on_both_loops
async def test_garbage_is_not_an_answer(wire: bytes) -> None:
    """Other protocols, impossible heads, contradicting lengths and broken chunks fail as protocol errors at
    once."""
    async with hostile_server(answering(wire)) as server, Client() as client:
        assert await kind_of(client.get(server)) is FailureKind.PROTOCOL
        await server.all_closed.wait()


@pytest.mark.parametrize("leave", [answering_then_close, half_closing, resetting])
@pytest.mark.parametrize(
    "start",
    [
        b"",
        b"HTTP/1.1 2",
        b"HTTP/1.1 200 OK\r\nContent-Le",
        b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nabc",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nabc",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n",
        b"HTTP/1.1 100 Continue\r\n\r\n",
    ],
)
@on_both_loops
async def test_leaving_early_is_not_an_answer(leave: Callable[[bytes], Script], start: bytes) -> None:
    """A target that closes, half-closes or resets before its answer is whole has not answered, and was asked
    once."""
    async with hostile_server(leave(start)) as server, Client() as client:
        failure = await failure_of(client.get(server))
        assert failure.kind is FailureKind.CLOSED
        assert failure.kind.retryable
        assert len(server.requests) == 1


@on_both_loops
async def test_an_answer_before_the_request_was_read_counts() -> None:
    """A target may refuse a long body unread; its answer is taken and the half-sent connection is not used
    again."""

    async def refuse_unread(peer: Peer) -> None:
        await peer.reader.readuntil(b"\r\n\r\n")
        await peer.send(b"HTTP/1.1 413 Too Long\r\nContent-Length: 0\r\n\r\n")
        await asyncio.Event().wait()

    async with hostile_server(refuse_unread, answering(OK)) as server, Client() as client:
        url = f"http://target.example:{server.port}/"
        assert (await client.fetch(url, "POST", bytes(20_000_000))).status == 413
        assert (await client.fetch(url, "POST", b"short")).status == 200
        assert server.connections == 2


# What may be sent


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("X", "a\r\nInjected: b"),
        ("X", "a\nInjected: b"),
        ("X", "a\rb"),
        ("X", "a\x00b"),
        ("X", "a\x7fb"),
        ("X", "a\x0bb"),
        ("X", "snowman ☃"),
        ("X\r\nInjected", "b"),
        ("X: y\r\nInjected", "b"),
        ("Host: evil", "b"),
        ("X Y", "b"),
        ("X:", "b"),
        ("", "b"),
        ("Ünicode", "b"),
        ("Host", "evil.example"),
        ("hOsT", "evil.example"),
        ("Content-Length", "0"),
        ("Transfer-Encoding", "chunked"),
        ("Connection", "close"),
        ("Keep-Alive", "timeout=5"),
        ("Proxy-Connection", "close"),
        ("Upgrade", "websocket"),
        ("Expect", "100-continue"),
        ("TE", "trailers"),
        ("Trailer", "X"),
    ],
)
@on_both_loops
async def test_headers_cannot_be_smuggled(name: str, value: str) -> None:
    """A header that could end its line, or that is the client's own, is refused and no connection is made."""
    async with hostile_server(answering(OK)) as server, Client() as client:
        url = parse_target_url(f"http://target.example:{server.port}/")
        failure = await failure_of(
            client.send(OutgoingRequest("POST", url, (("A", "fine"), (name, value)), b"x"))
        )
        assert failure.kind is FailureKind.INVALID_REQUEST
        assert not failure.kind.retryable
        assert server.connections == 0


@pytest.mark.parametrize(
    "method", ["CONNECT", "TRACE", "get", "GET /x HTTP/1.1\r\nHost: evil\r\n\r\nGET", ""]
)
@on_both_loops
async def test_methods_are_a_short_list(method: str) -> None:
    """Only the methods of ordinary requests are sent."""
    async with Client() as client:
        failure = await failure_of(client.fetch("http://target.example/", method))
        assert failure.kind is FailureKind.INVALID_REQUEST
