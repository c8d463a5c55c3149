"""A server on loopback that does what it is told, however rude, and remembers what it saw.

A script is a coroutine that plays one connection. The server counts connections, notes every request a script
read, and knows how many connections are open, so that a test can ask who was called, how often, and what
became of the connection. `InnerListener` is what no request may ever reach.
"""

import asyncio
import contextlib
import socket
import ssl
import struct
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from typing import Self

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"


@dataclass(frozen=True)
class SeenRequest:
    """A request as it came over the wire."""

    line: str
    headers: dict[str, str]
    body: bytes


class Peer:
    """The server's end of one connection."""

    def __init__(
        self, server: "HostileServer", reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        self.server = server
        self.reader = reader
        self.writer = writer

    async def read_request(self) -> SeenRequest | None:
        """The next request, noted by the server; None when the client closed instead."""
        try:
            head = await self.reader.readuntil(b"\r\n\r\n")
        except (asyncio.IncompleteReadError, ConnectionError):
            return None
        line, *fields = head.decode("latin-1").removesuffix("\r\n\r\n").split("\r\n")
        headers = {name.lower(): value.strip() for name, _, value in (text.partition(":") for text in fields)}
        body = await self.reader.readexactly(int(headers.get("content-length", "0")))
        request = SeenRequest(line, headers, body)
        self.server.requests.append(request)
        return request

    async def send(self, data: bytes) -> None:
        self.writer.write(data)
        await self.writer.drain()

    async def send_forever(self, data: bytes) -> None:
        """Until the client has had enough."""
        while True:
            await self.send(data)

    async def wait_for_close(self) -> None:
        """Until the client ends the connection, whatever it sends before."""
        while await self.reader.read(65536):
            pass

    def half_close(self) -> None:
        """Say that nothing more will be sent, and go on listening."""
        self.writer.write_eof()

    def reset(self) -> None:
        """End the connection with a reset."""
        sock = self.writer.get_extra_info("socket")
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.writer.transport.abort()


Script = Callable[[Peer], Awaitable[None]]


@dataclass
class HostileServer:
    """Plays one script per connection; the last script serves all further connections."""

    scripts: tuple[Script, ...]
    host: str = "127.0.0.1"
    port: int = 0
    tls: ssl.SSLContext | None = None
    requests: list[SeenRequest] = field(default_factory=list)
    connections: int = 0
    open_connections: int = 0
    all_closed: asyncio.Event = field(default_factory=asyncio.Event)

    async def __aenter__(self) -> Self:
        self._tasks: set[asyncio.Task[None]] = set()
        self._server = await asyncio.start_server(self._accept, self.host, self.port, ssl=self.tls)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *exc: object) -> None:
        self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        script = self.scripts[min(self.connections, len(self.scripts) - 1)]
        self.connections += 1
        self.open_connections += 1
        self.all_closed.clear()
        try:
            with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
                await script(Peer(self, reader, writer))
        finally:
            writer.transport.abort()
            self.open_connections -= 1
            if not self.open_connections:
                self.all_closed.set()


def hostile_server(
    *scripts: Script, host: str = "127.0.0.1", port: int = 0, tls: ssl.SSLContext | None = None
) -> HostileServer:
    return HostileServer(scripts, host, port, tls)


def answering(*answers: bytes) -> Script:
    """Reads a request, sends an answer, and so on; the last answer serves all further requests."""

    async def script(peer: Peer) -> None:
        number = 0
        while await peer.read_request():
            await peer.send(answers[min(number, len(answers) - 1)])
            number += 1

    return script


def answering_then_close(answer: bytes) -> Script:
    """Answers one request and closes, with no word of it in the answer."""

    async def script(peer: Peer) -> None:
        await peer.read_request()
        await peer.send(answer)

    return script


def byte_by_byte(answer: bytes) -> Script:
    """Every byte a write of its own, each given the time to arrive alone."""

    async def script(peer: Peer) -> None:
        await peer.read_request()
        for byte in answer:
            await peer.send(bytes((byte,)))
            await asyncio.sleep(0)
        await peer.wait_for_close()

    return script


def trickling(start: bytes, seconds_between: float) -> Script:
    """Keeps the connection alive with a byte now and then, and never gets to the end."""

    async def script(peer: Peer) -> None:
        await peer.read_request()
        await peer.send(start)
        while True:
            await asyncio.sleep(seconds_between)
            await peer.send(b"x")

    return script


def endless(start: bytes, piece: bytes) -> Script:
    """Sends `start`, then `piece` for as long as anybody reads."""

    async def script(peer: Peer) -> None:
        await peer.read_request()
        await peer.send(start)
        await peer.send_forever(piece)

    return script


def half_closing(start: bytes) -> Script:
    """Sends `start`, closes its sending side only, and listens on."""

    async def script(peer: Peer) -> None:
        await peer.read_request()
        await peer.send(start)
        peer.half_close()
        await peer.wait_for_close()

    return script


def resetting(start: bytes) -> Script:
    """Sends `start`, then breaks the connection with a reset."""

    async def script(peer: Peer) -> None:
        await peer.read_request()
        await peer.send(start)
        peer.reset()

    return script


async def silent(peer: Peer) -> None:
    """Reads whatever comes and never answers."""
    await peer.wait_for_close()


class InnerListener:
    """Stands for the service inside the network that nobody outside may reach. Counts who tried."""

    def __init__(self, port: int) -> None:
        self.port = port
        self.visitors = 0


@contextlib.asynccontextmanager
async def inner_listener(host: str = "127.0.0.1") -> AsyncIterator[InnerListener]:
    listener = InnerListener(0)

    async def visited(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        listener.visitors += 1
        writer.close()

    server = await asyncio.start_server(visited, host, 0)
    listener.port = server.sockets[0].getsockname()[1]
    try:
        yield listener
    finally:
        server.close()
