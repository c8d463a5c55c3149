"""A client of the API that keeps the facts: an answer, or that nobody knows.

Connections are kept open and shared; many requests may be under way at once. A request whose connection
broke, or that nobody answered in time, raises `NoAnswer`: whether it took effect is unknown.
"""

import asyncio
import json
from typing import Any

import msgspec

KEY = "acceptance-tests-administrator"
_TIMEOUT = 20.0


class NoAnswer(Exception):
    """The request may or may not have taken effect."""


class Answer(msgspec.Struct, frozen=True):
    """What the API said."""

    status: int
    headers: dict[str, str]
    body: Any


class Client:
    """Talks to the API on one port of loopback."""

    def __init__(self, port: int, key: str = KEY, *, connections: int = 64) -> None:
        self._port = port
        self._key = key
        self._idle: list[tuple[asyncio.StreamReader, asyncio.StreamWriter]] = []
        self._places = asyncio.Semaphore(connections)

    async def get(self, path: str) -> Answer:
        return await self.ask("GET", path)

    async def post(self, path: str, body: Any = None) -> Answer:
        return await self.ask("POST", path, body)

    async def ask(self, method: str, path: str, body: Any = None) -> Answer:
        """One request, one answer."""
        async with self._places:
            try:
                async with asyncio.timeout(_TIMEOUT):
                    return await self._exchange(_encode(method, path, self._key, body))
            except (OSError, TimeoutError, asyncio.IncompleteReadError) as error:
                raise NoAnswer(f"{method} {path}: {error!r}") from error

    async def works(self, path: str) -> bool:
        """Whether a path answers with 200 at the moment."""
        try:
            return (await self.get(path)).status == 200
        except NoAnswer:
            return False

    def close(self) -> None:
        for _, writer in self._idle:
            writer.close()
        self._idle.clear()

    async def _exchange(self, request: bytes) -> Answer:
        reader, writer = await self._connection()
        try:
            writer.write(request)
            answer = await _read(reader)
        except BaseException:
            writer.close()
            raise
        if answer.headers.get("connection") == "close":
            writer.close()
        else:
            self._idle.append((reader, writer))
        return answer

    async def _connection(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        while self._idle:
            reader, writer = self._idle.pop()
            if not (reader.at_eof() or reader.exception() or writer.is_closing()):
                return reader, writer
            writer.close()
        return await asyncio.open_connection("127.0.0.1", self._port)


def _encode(method: str, path: str, key: str, body: Any) -> bytes:
    content = b"" if body is None else json.dumps(body).encode()
    head = f"{method} {path} HTTP/1.1\r\nhost: tocsin\r\nauthorization: Bearer {key}\r\ncontent-length: {len(content)}\r\n\r\n"
    return head.encode() + content


async def _read(reader: asyncio.StreamReader) -> Answer:
    head = await reader.readuntil(b"\r\n\r\n")
    line, *fields = head.decode("latin-1").rstrip("\r\n").split("\r\n")
    headers = {name.lower(): value.strip() for name, _, value in (text.partition(":") for text in fields)}
    content = await reader.readexactly(int(headers.get("content-length", "0")))
    is_json = "json" in headers.get("content-type", "")
    return Answer(int(line.split()[1]), headers, json.loads(content) if is_json else content.decode())
