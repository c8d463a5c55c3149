"""Connections of the HTTP client: when they are kept, when they are replaced, and how many there may be."""

import asyncio
import socket
import threading
from collections.abc import Callable

import pytest

from tests.acceptance.hostile_server import (
    OK,
    Peer,
    Script,
    answering,
    answering_then_close,
    half_closing,
    hostile_server,
    resetting,
)
from tests.acceptance.http_calls import GOODBYE, Client, kind_of, on_both_loops
from tocsin.targets.http.connection import HttpConnection
from tocsin.targets.http.exchange import FailureKind, HttpLimits
from tocsin.targets.http.pool import Line

# Kept connections that turn out dead


@pytest.mark.parametrize("leave", [answering_then_close, half_closing, resetting])
@on_both_loops
async def test_a_connection_closed_while_idle_is_replaced(leave: Callable[[bytes], Script]) -> None:
    """When the target closes after an answer without a word, the next request is sent once, on a new
    connection."""
    async with hostile_server(leave(OK)) as server, Client() as client:
        for _ in range(5):
            assert (await client.get(server)).status == 200
        assert len(server.requests) == 5


@on_both_loops
async def test_bytes_on_an_idle_connection_end_it() -> None:
    """What a target says unasked is never taken for the answer to a later request."""
    spoken = asyncio.Event()

    async def speak_unasked(peer: Peer) -> None:
        await peer.read_request()
        await peer.send(OK)
        await asyncio.sleep(0.01)
        await peer.send(b"HTTP/1.1 408 Request Timeout\r\nContent-Length: 0\r\n\r\n")
        spoken.set()
        await peer.wait_for_close()

    async with hostile_server(speak_unasked, answering(OK)) as server, Client() as client:
        assert (await client.get(server)).status == 200
        await spoken.wait()
        assert (await client.get(server)).status == 200
        assert server.connections == 2


async def _swallow_the_second(peer: Peer) -> None:
    await peer.read_request()
    await peer.send(OK)
    await peer.read_request()


async def _reset_at_the_second(peer: Peer) -> None:
    await peer.read_request()
    await peer.send(OK)
    await peer.read_request()
    peer.reset()


@pytest.mark.parametrize("script", [_swallow_the_second, _reset_at_the_second])
@on_both_loops
async def test_a_request_that_was_received_is_never_sent_again(script: Script) -> None:
    """A target that reads a request on a kept connection and closes has perhaps acted: it is not asked
    twice."""
    async with hostile_server(script, answering(OK)) as server, Client() as client:
        url = f"http://target.example:{server.port}/"
        await client.fetch(url, "POST", b"first")
        assert await kind_of(client.fetch(url, "POST", b"second")) is FailureKind.CLOSED
        assert [request.body for request in server.requests] == [b"first", b"second"]


async def _answer_and_leave_when_told(peer: Peer, told: asyncio.Event) -> None:
    await peer.read_request()
    await peer.send(OK)
    await told.wait()


@on_both_loops
async def test_a_request_that_nobody_received_is_sent_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """When the target's goodbye crosses the request, which it then never read, the request goes out once
    more."""
    # The look before reuse would notice; blinded, it stands for a goodbye that arrives one moment later.
    monkeypatch.setattr(HttpConnection, "is_quiet", lambda _: True)
    left = threading.Event()
    port, serve = _closing_listener(left)
    thread = threading.Thread(target=serve)
    thread.start()
    try:
        async with Client() as client:
            url = f"http://target.example:{port}/"
            await client.fetch(url, "POST", b"first")
            left.wait()  # holds the loop, so that the goodbye waits unseen in the socket
            assert (await client.fetch(url, "POST", b"second")).status == 200
    finally:
        thread.join()


def _closing_listener(left: threading.Event) -> tuple[int, Callable[[], None]]:
    """A server on a thread: answers one request per connection and closes; two connections, then it is
    done."""
    listener = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        with listener:
            for _ in range(2):
                peer, _ = listener.accept()
                with peer:
                    while b"\r\n\r\n" not in peer.recv(65536):
                        pass
                    peer.sendall(OK)
                left.set()

    return listener.getsockname()[1], serve


# Lines and limits


@on_both_loops
async def test_no_more_than_the_limit_call_one_origin() -> None:
    """Callers beyond the limit wait their turn in order, and the target never sees more than the limit at
    once."""
    at_once: list[int] = []
    async with hostile_server(_counting(at_once)) as server:
        async with Client(limits=HttpLimits(connections_per_origin=3)) as client:
            answers = await asyncio.gather(*(client.get(server, f"/{number}") for number in range(20)))
        assert {answer.status for answer in answers} == {200}
        assert max(at_once) == 3
        order = [int(request.line.split()[1].strip("/")) for request in server.requests]
        assert sorted(order) == list(range(20))
        assert all(abs(number - position) < 3 for position, number in enumerate(order))


def _counting(at_once: list[int]) -> Script:
    """Answers with the number of requests open at that moment noted."""
    under_way = 0

    async def script(peer: Peer) -> None:
        nonlocal under_way
        while await peer.read_request():
            under_way += 1
            at_once.append(under_way)
            await asyncio.sleep(0.002)
            under_way -= 1
            await peer.send(OK)

    return script


@on_both_loops
async def test_no_more_than_the_limit_call_at_all() -> None:
    """The overall limit holds over many origins, and everybody gets a turn."""
    at_once: list[int] = []
    script = _counting(at_once)
    async with (
        hostile_server(script) as one,
        hostile_server(script) as two,
        hostile_server(script) as three,
    ):
        async with Client(limits=HttpLimits(connections=4)) as client:
            answers = await asyncio.gather(
                *(client.get((one, two, three)[number % 3]) for number in range(30))
            )
        assert len(answers) == 30
        assert max(at_once) == 4


@on_both_loops
async def test_waiting_in_line_counts_as_time() -> None:
    """Who waits behind a stuck target gives up in time, leaves the line, and leaves it in order for the
    others."""
    release = asyncio.Event()

    async def answer_when_told(peer: Peer) -> None:
        while await peer.read_request():
            await release.wait()
            await peer.send(OK)

    limits = HttpLimits(connections_per_origin=1)
    async with hostile_server(answer_when_told) as server, Client(limits=limits) as client:
        first = asyncio.create_task(client.get(server, "/first"))
        hasty = asyncio.create_task(client.get(server, "/hasty", seconds=0.05))
        patient = asyncio.create_task(client.get(server, "/patient"))
        assert await kind_of(hasty) is FailureKind.TIMEOUT
        release.set()
        assert (await first).status == (await patient).status == 200
        assert [request.line.split()[1] for request in server.requests] == ["/first", "/patient"]


@on_both_loops
async def test_a_place_given_to_someone_who_left_is_passed_on() -> None:
    """A caller cancelled in the very moment its turn comes does not take the place with it."""
    line = Line(1)
    assert line.enter_now()
    leaving = asyncio.create_task(line.enter())
    next_one = asyncio.create_task(line.enter())
    await asyncio.sleep(0)
    line.leave()
    leaving.cancel()
    with pytest.raises(asyncio.CancelledError):
        await leaving
    await next_one
    assert not line.enter_now()
    line.leave()
    assert line.enter_now()


@on_both_loops
async def test_origins_are_forgotten() -> None:
    """Calling ever new hosts leaves nothing behind."""
    async with hostile_server(answering(GOODBYE)) as server, Client() as client:
        for number in range(20):
            await client.fetch(f"http://host{number}.example:{server.port}/")
        assert not client._pool._origins


@on_both_loops
async def test_idle_connections_are_closed_after_a_while() -> None:
    """A connection nobody needs goes away by itself."""
    async with (
        hostile_server(answering(OK)) as server,
        Client(limits=HttpLimits(idle_seconds=0.01)) as client,
    ):
        await client.get(server)
        await server.all_closed.wait()
        assert (await client.get(server)).status == 200
        assert server.connections == 2


@on_both_loops
async def test_busy_connections_are_given_up_in_time() -> None:
    """A connection past its age carries no further request, however busy it is."""
    limits = HttpLimits(connection_seconds=-1.0)
    async with hostile_server(answering(OK)) as server, Client(limits=limits) as client:
        for _ in range(3):
            assert (await client.get(server)).status == 200
        assert server.connections == 3


@on_both_loops
async def test_idle_connections_are_bounded() -> None:
    """After a burst only as many connections stay open as may be idle."""
    released = asyncio.Event()

    async def answer_together(peer: Peer) -> None:
        while await peer.read_request():
            if len(peer.server.requests) == 10:
                released.set()
            await released.wait()
            await peer.send(OK)

    async with (
        hostile_server(answer_together) as server,
        Client(limits=HttpLimits(idle_connections=3)) as client,
    ):
        await asyncio.gather(*(client.get(server) for _ in range(10)))
        assert server.connections == 10
        while server.open_connections > 3:
            await asyncio.sleep(0)
        assert (await client.get(server)).status == 200
        assert server.connections == 10


@on_both_loops
async def test_cancelling_closes_the_connection() -> None:
    """A request given up half-way takes its connection with it; the next one starts afresh and the place is
    free."""
    asked = asyncio.Event()

    async def never_answer(peer: Peer) -> None:
        await peer.read_request()
        asked.set()
        await peer.wait_for_close()

    limits = HttpLimits(connections_per_origin=1)
    async with hostile_server(never_answer, answering(OK)) as server, Client(limits=limits) as client:
        sending = asyncio.create_task(client.get(server))
        await asked.wait()
        sending.cancel()
        with pytest.raises(asyncio.CancelledError):
            await sending
        await server.all_closed.wait()
        assert (await client.get(server)).status == 200


@on_both_loops
async def test_closing_the_client_ends_what_is_under_way() -> None:
    """`close` ends idle and busy connections; what was under way, or comes after, fails as closed."""
    asked = asyncio.Event()

    async def answer_once(peer: Peer) -> None:
        await peer.read_request()
        await peer.send(OK)
        await peer.read_request()
        asked.set()
        await peer.wait_for_close()

    async with hostile_server(answer_once) as server:
        client = Client()
        await client.get(server)
        sending = asyncio.create_task(client.get(server))
        await asked.wait()
        await client.close()
        assert await kind_of(sending) is FailureKind.CLOSED
        assert await kind_of(client.get(server)) is FailureKind.CLOSED
        await server.all_closed.wait()


@on_both_loops
async def test_a_line_serves_tenants_in_turn() -> None:
    """Many tokens of one tenant from one host do not keep another tenant's waiting behind all of them."""
    line, served = Line(1), list[int]()
    await line.enter()

    async def caller(tenant_id: int) -> None:
        await line.enter(tenant_id)
        served.append(tenant_id)
        line.leave()

    callers = [asyncio.create_task(caller(tenant_id)) for tenant_id in (1, 1, 1, 1, 2, 2)]
    await asyncio.sleep(0)
    callers[1].cancel()
    await asyncio.sleep(0)
    line.leave()
    await asyncio.gather(*callers, return_exceptions=True)
    assert served == [1, 2, 1, 2, 1]
    assert line.enter_now()
