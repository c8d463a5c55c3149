"""The wire between us and PostgreSQL, which can be cut or fall silent in the middle of an exchange."""

import asyncio
import contextlib
from typing import Self
from urllib.parse import parse_qs, urlsplit


class Wire:
    """Relays connections to a database on a Unix socket. Use as an async context manager; `url` leads through
    it."""

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        self._socket = f"{parse_qs(parts.query)['host'][0]}/.s.PGSQL.5432"
        self._parts = parts
        self._tasks: set[asyncio.Task[None]] = set()
        self.hears = asyncio.Event()
        """Whether what we say reaches the server."""
        self.speaks = asyncio.Event()
        """Whether what the server says reaches us."""
        self.mend()

    def mend(self) -> None:
        self.hears.set()
        self.speaks.set()

    def fall_silent(self) -> None:
        """From now on the server's answers are lost; it still hears us."""
        self.speaks.clear()

    def cut(self) -> None:
        """From now on nothing passes either way."""
        self.hears.clear()
        self.speaks.clear()

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        port = self._server.sockets[0].getsockname()[1]
        self.url = f"postgresql://{self._parts.username}@127.0.0.1:{port}{self._parts.path}"
        return self

    async def __aexit__(self, *exc: object) -> None:
        self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.create_task(self._relay(reader, writer))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _relay(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        answers, server = await asyncio.open_unix_connection(self._socket)
        there = asyncio.create_task(_pump(reader, server, self.hears))
        back = asyncio.create_task(_pump(answers, writer, self.speaks))
        try:
            await asyncio.wait({there, back}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            there.cancel()
            back.cancel()
            server.close()
            writer.close()


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, open_: asyncio.Event) -> None:
    with contextlib.suppress(OSError):
        while data := await reader.read(65536):
            await open_.wait()
            writer.write(data)
