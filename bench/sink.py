"""A fast HTTP sink in a process of its own: answers after a while, and knows who was inside at once.

    GET /  → what it saw, as JSON
    GET /arrivals  → when requests arrived since this was last asked: microseconds since the epoch, as JSON
    POST /<key>/<milliseconds>  → 200 after so long; `key` is what requests are counted by

It speaks as little HTTP as the engines' client needs: requests with Content-Length, one after the other on a
connection.
"""

import asyncio
import multiprocessing
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, ClassVar

import msgspec
import uvloop

_OK = b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n"


class Seen(msgspec.Struct):
    """Requests in all, and the most that were inside at once, by key."""

    requests: int = 0
    most: dict[str, int] = {}


class _Sink(asyncio.Protocol):
    seen = Seen()
    arrivals: ClassVar[list[int]] = []
    inside: ClassVar[Counter[str]] = Counter()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport: Any = transport
        self._rest = b""
        self._here: list[str] = []

    def connection_lost(self, _: Exception | None) -> None:
        for key in self._here:
            self.inside[key] -= 1
        self._here.clear()

    def data_received(self, data: bytes) -> None:
        self._rest += data
        while (end := self._rest.find(b"\r\n\r\n")) >= 0:
            head = self._rest[:end]
            length = _length(head)
            if len(self._rest) < end + 4 + length:
                return
            self._rest = self._rest[end + 4 + length :]
            self._answer(head)

    def _answer(self, head: bytes) -> None:
        method, path, _ = head.split(b" ", 2)
        if method == b"GET":
            body = msgspec.json.encode(self.arrivals if path == b"/arrivals" else self.seen)
            if path == b"/arrivals":
                self.arrivals.clear()
            self._transport.write(b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n%b" % (len(body), body))
            return
        _, key, wait = path.decode().split("/")
        self._enter(key)
        if wait == "0":
            self._leave(key)
        else:
            asyncio.get_running_loop().call_later(int(wait) / 1000, self._leave, key)

    def _enter(self, key: str) -> None:
        self.arrivals.append(time.time_ns() // 1000)
        self._here.append(key)
        self.inside[key] += 1
        self.seen.requests += 1
        self.seen.most[key] = max(self.seen.most.get(key, 0), self.inside[key])

    def _leave(self, key: str) -> None:
        if key in self._here:  # else the caller is gone, and it was counted out already
            self._here.remove(key)
            self.inside[key] -= 1
            self._transport.write(_OK)


def _length(head: bytes) -> int:
    _, found, rest = head.lower().partition(b"content-length:")
    return int(rest.partition(b"\r\n")[0]) if found else 0


@contextmanager
def sink() -> Iterator[int]:
    """A sink on a port of its own."""
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=_serve, args=(theirs,), daemon=True)
    process.start()
    try:
        yield int(ours.recv())
    finally:
        process.terminate()
        process.join()


async def seen(port: int) -> Seen:
    """What a sink saw so far."""
    return msgspec.json.decode(await _get(port, "/"), type=Seen)


async def arrivals(port: int) -> list[int]:
    """When requests arrived since this was last asked."""
    return msgspec.json.decode(await _get(port, "/arrivals"), type=list[int])


async def _get(port: int, path: str) -> bytes:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(f"GET {path} HTTP/1.1\r\nhost: sink\r\n\r\n".encode())
    head = await reader.readuntil(b"\r\n\r\n")
    body = await reader.readexactly(_length(head))
    writer.close()
    return body


def _serve(pipe: Any) -> None:
    async def main() -> None:
        server = await asyncio.get_running_loop().create_server(_Sink, "127.0.0.1", 0, backlog=4096)
        pipe.send(server.sockets[0].getsockname()[1])
        await server.serve_forever()

    uvloop.run(main())
