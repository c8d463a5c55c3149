"""The wire itself: what is not HTTP, never ends, or is far too much is answered and let go; others are served
meanwhile."""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Coroutine
from typing import Any

import pytest

from tests.support.api import ADMIN_KEY, InProcessApi, in_process_api
from tests.support.processes import free_port
from tocsin.api import connection
from tocsin.api.server import serve

AUTHORIZED = f"Host: test\r\nAuthorization: Bearer {ADMIN_KEY}\r\n".encode()
GET = b"GET /healthz HTTP/1.1\r\nHost: test\r\n\r\n"
POST = b"POST /v1/jobs HTTP/1.1\r\n" + AUTHORIZED
CHUNK = b"fffff\r\n" + b"x" * 0xFFFFF + b"\r\n"
JOB = json.dumps({"schedule": {"in": "1h"}, "target": {"kind": "noop"}}).encode()


class Wire:
    """Raw connections to a served API."""

    def __init__(self, api: InProcessApi, port: int) -> None:
        self.api = api
        self.port = port

    async def open(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        return await asyncio.open_connection("127.0.0.1", self.port)

    async def send(self, *parts: bytes) -> tuple[int, dict[str, Any]]:
        """Send some bytes; the status and document of the first answer."""
        reader, writer = await self.open()
        try:
            for part in parts:
                writer.write(part)
                with contextlib.suppress(ConnectionError):
                    await writer.drain()
            return await read_answer(reader)
        finally:
            writer.transport.abort()


async def read_answer(reader: asyncio.StreamReader) -> tuple[int, dict[str, Any]]:
    async with asyncio.timeout(20):
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
        fields = dict(line.lower().split(": ", 1) for line in head.strip().split("\r\n")[1:])
        body = await reader.readexactly(int(fields["content-length"]))
    status = int(head.split()[1])
    if status >= 400:
        assert fields["content-type"] == "application/problem+json"
    return status, json.loads(body)


@contextlib.asynccontextmanager
async def served(api: InProcessApi) -> AsyncIterator[Wire]:
    stop, port = asyncio.Event(), free_port()
    serving = asyncio.create_task(serve(api.app, "127.0.0.1", port, stop))
    wire = Wire(api, port)
    async with asyncio.timeout(10):
        while True:
            with contextlib.suppress(OSError):
                if (await wire.send(GET))[0] == 200:
                    break
            await asyncio.sleep(0.01)
    try:
        yield wire
        assert (await wire.send(GET))[0] == 200, "others are no longer served"
    finally:
        stop.set()
        await serving


def _over_the_wire(url: str, work: Any) -> None:
    with in_process_api(url) as api:

        async def run() -> None:
            async with served(api) as wire:
                await _run(work(wire))

        api.run(run())


async def _run(work: Coroutine[Any, Any, None]) -> None:
    await work


NOT_HTTP = {
    "noise": b"\x00\x01\x02\xff\r\n\r\n",
    "another protocol": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    "TLS": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"\x00" * 300,
    "a path beyond ASCII": b"GET /\xff\xfe HTTP/1.1\r\nHost: x\r\n\r\n",
    "a NUL in a header": b"GET /v1/jobs HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer a\x00b\r\n\r\n",
    "a header without a colon": b"GET /healthz HTTP/1.1\r\nHost\r\n\r\n",
    "a folded header": b"GET /healthz HTTP/1.1\r\nHost: x\r\nX: a\r\n b\r\n\r\n",
    "a length that is no number": POST + b"Content-Length: abc\r\n\r\n",
    "a negative length": POST + b"Content-Length: -1\r\n\r\n",
    "a length beyond 64 bits": POST + b"Content-Length: 99999999999999999999999\r\n\r\n",
    "two lengths": POST + b"Content-Length: 2\r\nContent-Length: 3\r\n\r\n{}}",
    "length and chunks": POST + b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "a chunk size that is no number": POST + b"Transfer-Encoding: chunked\r\n\r\nxyz\r\n",
}


def test_whatever_is_not_http_is_a_bad_request_in_a_problem_document(url: str) -> None:
    async def scenario(wire: Wire) -> None:
        for words, raw in NOT_HTTP.items():
            status, _ = await wire.send(raw)
            assert status == 400, words

    _over_the_wire(url, scenario)


def test_a_head_that_grows_without_end_is_cut_off(url: str) -> None:
    async def scenario(wire: Wire) -> None:
        assert (await wire.send(b"GET /healthz HTTP/1.1\r\nX: ", b"a" * 500_000))[0] == 431
        assert (await wire.send(b"GET /healthz HTTP/1.1\r\n", b"X: a\r\n" * 50_000))[0] == 431
        assert (await wire.send(b"GET /", b"a" * 500_000))[0] == 431
        assert (await wire.send(b"GET /healthz HTTP/1.1\r\nHost: x\r\n" + b"X: a\r\n" * 99 + b"\r\n"))[
            0
        ] == 200
        many = await wire.send(b"GET /healthz HTTP/1.1\r\nHost: x\r\n" + b"X: a\r\n" * 100 + b"\r\n")
        assert many[0] == 431

    _over_the_wire(url, scenario)


def test_a_body_that_is_too_large_is_refused_before_it_has_arrived(url: str) -> None:
    async def scenario(wire: Wire) -> None:
        before = await wire.api.database.fetch("SELECT FROM jobs")
        declared = b"Content-Length: 100000000\r\n\r\n"
        assert (await wire.send(POST + declared))[0] == 413
        assert (await wire.send(POST + declared, *[b"x" * 1_000_000] * 100))[0] == 413
        assert (await wire.send(POST + b"Transfer-Encoding: chunked\r\n\r\n", CHUNK, CHUNK))[0] == 413
        assert await wire.api.database.fetch("SELECT FROM jobs") == before

    _over_the_wire(url, scenario)


def test_a_client_that_goes_on_sending_after_the_refusal_is_cut_off(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection, "_MOST_IGNORED", 4 * 1024 * 1024)

    async def scenario(wire: Wire) -> None:
        _, writer = await wire.open()
        writer.write(POST + b"Transfer-Encoding: chunked\r\n\r\n")
        with pytest.raises((ConnectionError, RuntimeError), match=r"reset|closed|[Bb]roken"):
            await asyncio.wait_for(_send_for_ever(writer, CHUNK), 20)
        writer.transport.abort()

    _over_the_wire(url, scenario)


async def _send_for_ever(writer: asyncio.StreamWriter, data: bytes) -> None:
    while True:
        writer.write(data)
        await writer.drain()


@pytest.mark.parametrize(
    "start",
    [b"", b"GET /", b"GET /healthz HTTP/1.1\r\nHost: x\r\nX-Slow: ", POST + b"Content-Length: 10\r\n\r\n{"],
    ids=["nothing", "half a line", "half a head", "half a body"],
)
def test_a_request_that_does_not_arrive_is_given_up(
    url: str, monkeypatch: pytest.MonkeyPatch, start: bytes
) -> None:
    monkeypatch.setattr(connection, "_HEAD_TIMEOUT", 0.3)
    monkeypatch.setattr(connection, "_BODY_TIMEOUT", 0.3)

    async def scenario(wire: Wire) -> None:
        reader, writer = await wire.open()
        dripping = asyncio.create_task(_drip(writer, start))
        status, document = await read_answer(reader)
        assert (status, document["status"]) == (408, 408)
        assert await reader.read() == b"", "the connection is closed"
        dripping.cancel()
        writer.transport.abort()

    _over_the_wire(url, scenario)


async def _drip(writer: asyncio.StreamWriter, start: bytes) -> None:
    """A byte now and then: enough to look alive, never enough to end."""
    writer.write(start)
    while start:
        await asyncio.sleep(0.05)
        writer.write(b"a")


def test_a_large_body_at_a_decent_pace_may_take_longer_than_the_deadline(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection, "_BODY_TIMEOUT", 0.2)

    async def scenario(wire: Wire) -> None:
        padded = JOB + b" " * 400_000
        reader, writer = await wire.open()
        writer.write(POST + b"Content-Length: %d\r\n\r\n" % len(padded))
        for start in range(0, len(padded), 50_000):
            writer.write(padded[start : start + 50_000])
            await asyncio.sleep(0.05)
        assert (await read_answer(reader))[0] == 201
        writer.transport.abort()

    _over_the_wire(url, scenario)


def test_many_slow_clients_do_not_keep_others_from_being_served(url: str) -> None:
    async def scenario(wire: Wire) -> None:
        slow = [await wire.open() for _ in range(200)]
        for _, writer in slow:
            writer.write(b"POST /v1/jobs HTTP/1.1\r\nHost: x\r\n")
        status, job = await wire.send(POST + b"Content-Length: %d\r\n\r\n" % len(JOB) + JOB)
        assert (status, job["state"]) == (201, "active")
        for _, writer in slow:
            writer.transport.abort()

    _over_the_wire(url, scenario)


def test_requests_on_one_connection_are_answered_in_order(url: str) -> None:
    async def scenario(wire: Wire) -> None:
        reader, writer = await wire.open()
        create = POST + b"Content-Length: %d\r\n\r\n" % len(JOB) + JOB
        writer.write(create + GET + b"GET /nowhere HTTP/1.1\r\nHost: x\r\n\r\n" + create)
        assert [(await read_answer(reader))[0] for _ in range(4)] == [201, 200, 404, 201]
        writer.transport.abort()

    _over_the_wire(url, scenario)


@pytest.mark.parametrize("rest", [b"garbage\r\n\r\n", b"GET / HTTP/9\r\n\r\n", GET + b"\x00\x01\r\n\r\n"])
def test_what_is_not_http_takes_no_answer_from_the_requests_before_it(url: str, rest: bytes) -> None:
    async def check(wire: Wire) -> None:
        good = POST + f"Content-Length: {len(JOB)}\r\n\r\n".encode() + JOB
        reader, writer = await wire.open()
        writer.write(good + good + rest)
        statuses = [(await read_answer(reader))[0] for _ in range(3 + rest.startswith(GET))]
        assert statuses == [201, 201, *[200] * rest.startswith(GET), 400]
        assert await reader.read() == b""
        writer.close()

    _over_the_wire(url, check)


def test_a_client_that_hangs_up_in_the_middle_of_its_body_leaves_nothing(url: str) -> None:
    async def scenario(wire: Wire) -> None:
        for cut in range(0, len(JOB), 7):
            _, writer = await wire.open()
            writer.write(POST + b"Content-Length: %d\r\n\r\n" % len(JOB) + JOB[:cut])
            await writer.drain()
            writer.transport.abort()
        assert (await wire.send(GET))[0] == 200
        assert await wire.api.database.fetch("SELECT FROM jobs") == []

    _over_the_wire(url, scenario)


def test_a_client_that_hangs_up_before_the_answer_leaves_whole_jobs(url: str) -> None:
    async def scenario(wire: Wire) -> None:
        for _ in range(40):
            _, writer = await wire.open()
            writer.write(POST + b"Content-Length: %d\r\n\r\n" % len(JOB) + JOB)
            await writer.drain()
            writer.transport.abort()
        # A creation of our own comes after all of theirs.
        assert (await wire.send(POST + b"Content-Length: %d\r\n\r\n" % len(JOB) + JOB))[0] == 201
        halves = "SELECT FROM jobs j FULL JOIN executions e ON e.job_id = j.id WHERE j.id IS NULL OR e.job_id IS NULL"
        assert await wire.api.database.fetch(halves) == []

    _over_the_wire(url, scenario)
