"""The connections of `tocsin bench`: kept, waiting when asked to, and never doing a thing twice."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

import pytest

from tests.support.processes import free_port
from tocsin.cli import bench_api
from tocsin.cli.bench_api import Api, each
from tocsin.cli.client import ApiError, Client

OK = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 2\r\n\r\n{}"
CHUNKED = b'HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n4\r\n{"a"\r\n3\r\n: 1\r\n1\r\n}\r\n0\r\n\r\n'
TO_THE_END = b'HTTP/1.1 200 OK\r\nconnection: close\r\n\r\n{"a": 1}'
HANG_UP = b""
T = TypeVar("T")


def problem(status: int, detail: str, retry_after: str | None = None) -> bytes:
    body = b'{"detail": "%b"}' % detail.encode()
    wait = b"" if retry_after is None else b"retry-after: %b\r\n" % retry_after.encode()
    head = b"HTTP/1.1 %d No\r\ncontent-type: application/problem+json\r\n" % status
    return head + wait + b"content-length: %d\r\n\r\n" % len(body) + body


class Server:
    """Gives the answers it was told, one after the other, over whatever connections come."""

    def __init__(self, answers: list[bytes]) -> None:
        self.answers = answers
        self.requests: list[tuple[int, str]] = []
        self.connections = 0

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        mine = self.connections
        try:
            while self.answers:
                head = await reader.readuntil(b"\r\n\r\n")
                length = int(head.lower().partition(b"content-length:")[2].partition(b"\r\n")[0])
                await reader.readexactly(length)
                self.requests.append((mine, head.split(b" ")[0].decode()))
                answer = self.answers.pop(0)
                writer.write(answer)
                if answer in (TO_THE_END, HANG_UP):
                    break
        except asyncio.IncompleteReadError:
            pass  # the client has what it wanted
        finally:
            writer.close()


def talk(server: Server, work: Callable[[Api], Awaitable[T]]) -> T:
    """Let a client talk to the server."""

    async def run() -> T:
        listening = await asyncio.start_server(server.serve, "127.0.0.1", 0)
        port = listening.sockets[0].getsockname()[1]
        api = Api(Client(f"http://127.0.0.1:{port}", "a-key"))
        try:
            return await work(api)
        finally:
            api.close()
            listening.close()

    return asyncio.run(run())


def test_requests_share_a_connection() -> None:
    server = Server([OK, OK, OK])

    async def work(api: Api) -> None:
        await each(range(3), lambda _: api.get("jobs"), at_once=1)

    talk(server, work)
    assert server.requests == [(1, "GET")] * 3


def test_so_many_at_a_time_have_a_connection_each() -> None:
    server = Server([OK] * 30)

    async def work(api: Api) -> None:
        await each(range(30), lambda _: api.get("jobs"), at_once=3)

    talk(server, work)
    assert (len(server.requests), server.connections) == (30, 3)


@pytest.mark.parametrize("framing", [CHUNKED, TO_THE_END])
def test_an_answer_is_read_however_it_is_framed(framing: bytes) -> None:
    server = Server([framing, framing])

    async def work(api: Api) -> list[Any]:
        return [await api.get("jobs"), await api.get("jobs")]

    assert talk(server, work) == [{"a": 1}, {"a": 1}]


def test_a_reading_goes_on_over_another_connection_when_the_kept_one_was_closed() -> None:
    server = Server([OK, HANG_UP, OK])

    async def work(api: Api) -> list[Any]:
        return [await api.get("jobs"), await api.get("jobs")]

    assert talk(server, work) == [{}, {}]
    assert server.requests == [(1, "GET"), (1, "GET"), (2, "GET")]


def test_a_creation_is_never_sent_twice() -> None:
    server = Server([OK, HANG_UP, OK])

    async def work(api: Api) -> None:
        await api.get("jobs")
        await api.post("jobs", body=b"{}")

    with pytest.raises(ApiError, match="nothing answers") as raised:
        talk(server, work)
    assert raised.value.undecided
    assert server.requests == [(1, "GET"), (1, "POST")]


@contextmanager
def slept(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[float]]:
    """Time that would have been slept."""
    spans: list[float] = []
    now = [1000.0]

    async def sleep(seconds: float) -> None:
        spans.append(seconds)
        now[0] += seconds

    with monkeypatch.context() as patched:
        patched.setattr(bench_api.asyncio, "sleep", sleep)
        patched.setattr(bench_api.time, "monotonic", lambda: now[0])
        yield spans


@pytest.mark.parametrize("status", [429, 503])
def test_it_waits_as_long_as_it_is_told_and_remembers_why(
    monkeypatch: pytest.MonkeyPatch, status: int
) -> None:
    server = Server([problem(status, "too much (limit x)", "7"), OK])

    async def work(api: Api) -> list[str]:
        assert (await api.post("jobs", body=b"{}"))[0] == {}
        return api.waits

    with slept(monkeypatch) as spans:
        assert talk(server, work) == [f"too much (limit x) ({status})"]
    assert spans == [7.0]


@pytest.mark.parametrize(
    "answers",
    [
        pytest.param([problem(429, "too much", "3600")], id="an hour"),
        pytest.param([problem(503, "away")], id="nobody knows how long"),
        pytest.param([problem(503, "away", "20"), problem(503, "away", "20"), problem(503, "away", "20")], id="again"),
    ],
)  # fmt: skip
def test_it_does_not_wait_for_ever(monkeypatch: pytest.MonkeyPatch, answers: list[bytes]) -> None:
    with slept(monkeypatch), pytest.raises(ApiError, match=r"too much|away"):
        talk(Server([*answers, OK]), lambda api: api.get("jobs"))


def test_the_first_failure_ends_the_rest() -> None:
    begun = []

    async def work(item: int) -> None:
        begun.append(item)
        await asyncio.sleep(0)
        if item == 3:
            raise ApiError("no")

    async def run() -> None:
        await each(range(100), work, at_once=2)

    with pytest.raises(ApiError):
        asyncio.run(run())
    assert len(begun) < 10


def test_nobody_there_is_told() -> None:
    async def run() -> None:
        await Api(Client(f"http://127.0.0.1:{free_port()}", "a-key")).get("jobs")

    with pytest.raises(ApiError, match="nothing answers at"):
        asyncio.run(run())
