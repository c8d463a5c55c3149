"""The API over kept connections, many requests at a time: for what `Client`, with its connection per request,
is too slow.

When the API says that it is too much (429, or 503 with `Retry-After`), all connections wait for as long as it
says, and the wait is counted. A request is sent a second time only if that cannot do anything twice.
"""

import asyncio
import ssl
import time
from collections.abc import Awaitable, Callable, Iterable
from typing import Any, Final, TypeVar
from urllib.parse import urlsplit

from tocsin.cli.client import ApiError, Client, address, nobody_there, read_document, words_of_problem
from tocsin.targets.http.exchange import Answer, DeliveryFailed, HttpLimits
from tocsin.targets.http.response import ResponseReader

_LIMITS: Final = HttpLimits(read_bytes=64 << 20, kept_bytes=64 << 20)
_READ: Final = 256 * 1024
_TIMEOUT: Final = 30.0
_BATCH_TIMEOUT: Final = 300.0
_KEPT_FOR: Final = 2.0  # seconds; servers close idle connections after five or more
_LONGEST_WAIT: Final = 60.0
_PATIENCE: Final = 30.0  # seconds of 503
_REPEATABLE: Final = ("GET", "DELETE")
T = TypeVar("T")


class Api:
    """One API, for one event loop."""

    def __init__(self, client: Client) -> None:
        parts = urlsplit(client.url)
        secure = parts.scheme == "https"
        self.url = client.url
        self._host, self._port = parts.hostname or "", parts.port or (443 if secure else 80)
        self._prefix = parts.path
        self._tls = ssl.create_default_context() if secure else None
        shown = f"[{self._host}]" if ":" in self._host else self._host
        lines = {"host": f"{shown}:{self._port}", **client.headers}
        self._head = "".join(f"{name}: {value}\r\n" for name, value in lines.items())
        self._idle: list[_Connection] = []
        self._quiet_until = 0.0
        self.waits: list[str] = []
        """Why the API made us wait, in its words: one entry each time."""

    async def get(self, *path: str, **query: Any) -> Any:
        """Read something."""
        return (await self._ask("GET", address(*path, **query)))[0]

    async def post(self, *path: str, body: bytes) -> tuple[Any, float]:
        """Do something. Returns how many seconds the answer took, too, without any wait before."""
        return await self._ask("POST", address(*path), body)

    async def delete(self, *path: str) -> None:
        """Remove something; that it is gone already is fine."""
        try:
            await self._ask("DELETE", address(*path))
        except ApiError as error:
            if error.status != 404:
                raise

    async def batch(self, lines: Iterable[bytes], *, atomic: bool) -> tuple[Any, float]:
        """Create a job per line."""
        path = address("jobs:batch", atomic="true" if atomic else "false")
        return await self._ask("POST", path, b"\n".join(lines), "application/x-ndjson", _BATCH_TIMEOUT)

    def close(self) -> None:
        """Let the connections go."""
        while self._idle:
            self._idle.pop().close()

    async def _ask(
        self,
        method: str,
        path: str,
        body: bytes = b"",
        kind: str = "application/json",
        timeout: float = _TIMEOUT,
    ) -> tuple[Any, float]:
        head = f"{method} {self._prefix}{path} HTTP/1.1\r\n{self._head}content-type: {kind}\r\ncontent-length: {len(body)}\r\n\r\n"
        request = head.encode() + body
        asked_at = time.monotonic()
        while True:
            if (quiet := self._quiet_until - time.monotonic()) > 0:
                await asyncio.sleep(quiet)
            began = time.perf_counter()
            answer = await self._exchange(request, timeout, repeatable=method in _REPEATABLE)
            took = time.perf_counter() - began
            wait = _asked_to_wait(answer)
            tired = answer.status == 503 and time.monotonic() - asked_at > _PATIENCE
            if wait is None or wait > _LONGEST_WAIT or tired:
                return self._document(answer), took
            self.waits.append(words_of_problem(answer.status, "", answer.body).partition("\n")[0])
            self._quiet_until = max(self._quiet_until, time.monotonic() + wait)

    async def _exchange(self, request: bytes, timeout: float, *, repeatable: bool) -> Answer:
        try:
            async with asyncio.timeout(timeout):
                while True:
                    connection, used = await self._connection()
                    try:
                        answer = await connection.exchange(request)
                        break
                    except (OSError, DeliveryFailed):
                        if not (used and repeatable):
                            raise
                        # It was kept open for too long by a server's or proxy's rule; the next one is
                        # another, or new.
        except TimeoutError:
            raise nobody_there(self.url, f"no answer within {timeout:.0f} s") from None
        except OSError as error:
            raise nobody_there(self.url, error.strerror or error) from None
        except DeliveryFailed as failure:
            raise nobody_there(self.url, failure.detail) from None
        if connection.reusable:
            self._idle.append(connection)
        else:
            connection.close()
        return answer

    async def _connection(self) -> tuple["_Connection", bool]:
        """A connection, and whether it was used before."""
        while self._idle:
            kept = self._idle.pop()
            if time.monotonic() - kept.used_at < _KEPT_FOR:
                return kept, True
            kept.close()
        streams = await asyncio.open_connection(self._host, self._port, ssl=self._tls, limit=_READ)
        return _Connection(*streams), False

    def _document(self, answer: Answer) -> Any:
        kind = (answer.header("content-type") or "").partition(";")[0]
        # A refused batch is an answer like any other; problems come as problem documents.
        if answer.status < 300 or (answer.status == 422 and kind == "application/json"):
            return read_document(self.url, answer.body)
        raise ApiError(words_of_problem(answer.status, "from the API", answer.body), answer.status)


class _Connection:
    """One exchange after the other. A caller that gives up in the middle of one must not use it again."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self.used_at = 0.0
        self.reusable = False

    async def exchange(self, request: bytes) -> Answer:
        """Send a request and read its answer."""
        answer = ResponseReader(_LIMITS, bodiless=False)
        try:
            self._writer.write(request)
            complete = False
            while not complete:
                data = await self._reader.read(_READ)
                complete = answer.feed(data) if data else answer.feed_eof()
                if not (data or complete):
                    raise ConnectionResetError(0, "it closed the connection before its answer was whole")
        except BaseException:
            self.close()
            raise
        self.used_at, self.reusable = time.monotonic(), answer.reusable
        return answer.take_answer()

    def close(self) -> None:
        """Let it go."""
        self._writer.close()


async def each(items: Iterable[T], work: Callable[[T], Awaitable[object]], at_once: int) -> None:
    """Do the work for each item, `at_once` at a time. The first failure ends it."""
    left = iter(items)

    async def take() -> None:
        for item in left:
            await work(item)

    takers = [asyncio.create_task(take()) for _ in range(at_once)]
    try:
        await asyncio.gather(*takers)
    finally:
        for taker in takers:
            taker.cancel()


def _asked_to_wait(answer: Answer) -> float | None:
    """For how many seconds, if the API is willing to go on later."""
    if answer.status not in (429, 503):
        return None
    try:
        return max(0.0, float(answer.header("retry-after") or ""))
    except ValueError:
        return None
