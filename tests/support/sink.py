"""An HTTP server that everything is fired into, and that remembers every request.

It runs on a thread of its own with uvloop, so that it answers however busy the test is. The path says how:

    /ok         200 at once
    /slow/1.5   200 after 1.5 seconds
    /fail/2     500 for the first two attempts of an execution, then 200

A hit is noted when the request is complete, its status when the answer has been handed to the kernel. A
request whose sender went away before that keeps the status 0.
"""

import asyncio
import contextlib
import threading
import time
from collections.abc import Iterable
from types import TracebackType
from typing import Self, cast

import uvloop
from httptools import HttpRequestParser

from tests.support.history import Create, Hit, Key, answer_to
from tocsin.domain.ids import job_text, parse_execution_text


class Sink:
    """Use as a context manager; `url` is where to fire."""

    def __init__(self) -> None:
        self.hits: list[Hit] = []
        self.port = 0
        self._ready = threading.Event()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stop: asyncio.Event | None = None
        self._thread = threading.Thread(target=self._serve, name="sink")

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def __enter__(self) -> Self:
        self._thread.start()
        assert self._ready.wait(10), "the sink does not start"
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._loop is not None
        assert self._stop is not None
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(10)

    def of_job(self, job_id: str) -> list[Hit]:
        """The hits of one job, in the order in which they came."""
        return [hit for hit in self.hits if hit.key.job_id == job_id]

    def has_all(self, jobs: Iterable[Create]) -> bool:
        """Whether every one of these jobs has called."""
        return {job.job_id for job in jobs} <= {hit.key.job_id for hit in self.hits}

    def _serve(self) -> None:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(self._run())

    async def _run(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._stop = asyncio.Event()
        server = await self._loop.create_server(lambda: _Connection(self), "127.0.0.1", 0, backlog=1024)
        self.port = server.sockets[0].getsockname()[1]
        self._ready.set()
        await self._stop.wait()
        server.close()


class _Connection(asyncio.Protocol):
    """One connection; the client sends one request at a time."""

    def __init__(self, sink: Sink) -> None:
        self._sink = sink
        self._parser = HttpRequestParser(self)
        self._transport: asyncio.Transport | None = None
        self._headers: dict[bytes, bytes] = {}
        self._path = b""
        self._hit: Hit | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None

    def data_received(self, data: bytes) -> None:
        self._parser.feed_data(data)

    def on_message_begin(self) -> None:
        self._headers = {}
        self._path = b""

    def on_url(self, url: bytes) -> None:
        self._path += url

    def on_header(self, name: bytes, value: bytes) -> None:
        self._headers[name.lower()] = value

    def on_message_complete(self) -> None:
        key = parse_execution_text(self._headers[b"tocsin-execution"].decode())
        hit = Hit(
            key=Key(job_text(key.job_id), key.fire_at),
            attempt=int(self._headers[b"tocsin-attempt"]),
            mono=time.monotonic(),
            received_at=time.time_ns() // 1000,
        )
        self._hit = hit
        self._sink.hits.append(hit)
        match self._path.decode().strip("/").split("/"):
            case ["slow", seconds]:
                asyncio.get_running_loop().call_later(float(seconds), self.answer, 200)
            case ["fail", attempts]:
                self.answer(500 if hit.attempt <= int(attempts) else 200)
            case _:
                self.answer(200)

    def answer(self, status: int) -> None:
        """Answer the request under way, unless its sender has gone."""
        if self._transport is None or self._transport.is_closing() or self._hit is None:
            return
        with contextlib.suppress(RuntimeError):
            body = answer_to(self._hit.attempt).encode()
            self._transport.write(
                b"HTTP/1.1 %d Sink\r\ncontent-length: %d\r\n\r\n%b" % (status, len(body), body)
            )
            self._hit.status = status
