"""Where the HTTP client may go: no spelling, name, redirect or change of mind leads it inside."""

import asyncio
import errno
import os
import socket
from ipaddress import IPv4Address, IPv6Address
from typing import Any

import pytest

from tests.acceptance.hostile_server import OK, answering, hostile_server, inner_listener
from tests.acceptance.http_attempts import Attempts
from tests.acceptance.http_calls import (
    GOODBYE,
    HOME,
    LOOPBACK,
    STAND_IN,
    STAND_IN_ONLY,
    Client,
    answering_names,
    failure_of,
    kind_of,
    leads_to,
    on_both_loops,
)
from tests.support.name_server import NameServer
from tocsin.domain.addresses import Address, AddressPolicy, parse_target_url
from tocsin.domain.errors import Refused
from tocsin.domain.outcome import Verdict
from tocsin.domain.target import HttpTarget
from tocsin.targets.http.breaker import TRIP_AFTER
from tocsin.targets.http.client import HttpClient, _verify_peer
from tocsin.targets.http.exchange import DeliveryFailed, FailureKind, OutgoingRequest
from tocsin.targets.http.name_servers import NameServers
from tocsin.targets.http.resolver import LookupFailed, Resolver, Unresolved

# Where a request may go


@on_both_loops
async def test_redirects_are_not_followed() -> None:
    """A redirect to an inner address is an answer with status 302, and the inner address is not called."""
    async with inner_listener() as inner:
        wire = (
            b"HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1:%d/\r\nContent-Length: 0\r\n\r\n" % inner.port
        )
        async with hostile_server(answering(wire)) as server, Client() as client:
            answer = await client.get(server)
            assert (answer.status, answer.header("location")) == (302, f"http://127.0.0.1:{inner.port}/")
        assert inner.visitors == 0


@on_both_loops
async def test_proxies_in_the_environment_are_ignored(monkeypatch: pytest.MonkeyPatch) -> None:
    """Requests go straight to the target even where the environment names a proxy."""
    async with inner_listener() as inner, hostile_server(answering(OK)) as server, Client() as client:
        for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
            monkeypatch.setitem(os.environ, name, f"http://127.0.0.1:{inner.port}")
        assert (await client.get(server)).status == 200
        assert inner.visitors == 0


LOOPBACK_SPELLINGS = [
    "127.0.0.1",
    "127.0.0.1.",
    "2130706433",
    "0x7f000001",
    "017700000001",
    "0177.0.0.1",
    "0x7f.1",
    "127.1",
    "127.0.1",
    "0",
    "0.0.0.0",
    "127.000.000.001",
    "１２７.０.０.１",
    "①②⑦.⓪.⓪.①",
    "127。0。0。1",
    "[::1]",
    "[::]",
    "[0:0:0:0:0:0:0:1]",
    "[::ffff:127.0.0.1]",
    "[::ffff:7f00:1]",
    "[::127.0.0.1]",
    "[64:ff9b::7f00:1]",
    "[64:ff9b:1::7f00:1]",
    "[2002:7f00:1::]",
    "[::ffff:0:127.0.0.1]",
    "[::1%25lo]",
    "[fe80::1%lo]",
    "localhost",
    "LOCALHOST.",
    "example.com",
    "127.0.0.1.nip.io",
    "x@127.0.0.1",
    "example.com@127.0.0.1",
    "127.0.0.1#@example.com",
]
LOOKUPS = (
    leads_to(LOOPBACK),
    leads_to(IPv6Address("::1")),
    leads_to(IPv6Address("::ffff:127.0.0.1")),
    leads_to(IPv4Address("0.0.0.0")),
)


@pytest.mark.parametrize("scheme", ["http", "https"])
@pytest.mark.parametrize("host", LOOPBACK_SPELLINGS)
@on_both_loops
async def test_the_inner_listener_sees_nothing(host: str, scheme: str) -> None:
    """No spelling, and no name that resolves to loopback in either family, gets a connection to the listener
    there."""
    async with inner_listener() as inner:
        open_port = AddressPolicy(allowed_ports=frozenset({inner.port}))
        for lookup in LOOKUPS:
            async with Client(open_port, lookup) as client:
                try:
                    failure = await failure_of(client.fetch(f"{scheme}://{host}:{inner.port}/"))
                except Refused:
                    continue
                assert failure.kind is FailureKind.REFUSED_ADDRESS
                assert not failure.kind.retryable
        assert inner.visitors == 0


@on_both_loops
async def test_a_rebinding_name_is_checked_at_every_connection() -> None:
    """A name that leads outside at first and inside later is refused the second time; the listener sees
    nothing."""
    addresses = iter([STAND_IN, LOOPBACK, LOOPBACK])
    with socket.create_server(("127.0.0.1", 0)) as inner:
        inner.setblocking(False)
        # Of both addresses this is the busy one: a port that is free here is free on the other.
        port = inner.getsockname()[1]
        async with hostile_server(answering(GOODBYE), host=str(STAND_IN), port=port) as server:
            async with Client(STAND_IN_ONLY, lookup=answering_names(lambda _: [next(addresses)])) as client:
                assert (await client.get(server)).status == 200
                assert await kind_of(client.get(server)) is FailureKind.REFUSED_ADDRESS
                assert await kind_of(client.get(server)) is FailureKind.REFUSED_ADDRESS
            with pytest.raises(BlockingIOError):
                inner.accept()


@on_both_loops
async def test_one_inner_address_refuses_the_name() -> None:
    """A name with an allowed and an inner address is refused whole: neither is called, in either order."""
    async with hostile_server(answering(OK), host=str(STAND_IN)) as server:
        for addresses in ((STAND_IN, LOOPBACK), (LOOPBACK, STAND_IN)):
            async with Client(STAND_IN_ONLY, leads_to(*addresses)) as client:
                assert await kind_of(client.get(server)) is FailureKind.REFUSED_ADDRESS
        assert server.connections == 0


@on_both_loops
async def test_a_refusal_reads_the_same_for_open_and_closed_ports() -> None:
    """From the error nobody learns what listens inside, nor where the name led."""
    async with inner_listener() as inner:
        with socket.create_server(("127.0.0.1", 0)) as other:
            closed_port = other.getsockname()[1]
        policy = AddressPolicy(allowed_ports=frozenset({inner.port, closed_port}))
        async with Client(policy) as client:
            texts = {
                str(await failure_of(client.fetch(f"http://{host}:{port}/")))
                for host in ("127.0.0.1", "rebound.example")
                for port in (inner.port, closed_port)
            }
        assert len(texts) == 1
        assert "127.0.0.1" not in texts.pop()


def test_the_peer_is_verified_before_anything_is_sent() -> None:
    """A socket that ended up elsewhere than at the checked address is refused."""
    listener = socket.create_server(("127.0.0.1", 0))
    with listener, socket.create_connection(listener.getsockname()) as sock:
        _verify_peer(sock, LOOPBACK)
        _verify_peer(sock, IPv6Address("::ffff:127.0.0.1"))
        with pytest.raises(DeliveryFailed) as failed:
            _verify_peer(sock, STAND_IN)
        assert failed.value.kind is FailureKind.REFUSED_ADDRESS


@on_both_loops
async def test_ipv6_targets_are_called() -> None:
    """An IPv6 literal is connected to, with brackets in the Host header."""
    async with hostile_server(answering(OK), host="::1") as server, Client() as client:
        assert (await client.fetch(f"http://[::1]:{server.port}/")).status == 200
        assert server.requests[0].headers["host"] == f"[::1]:{server.port}"


@on_both_loops
async def test_the_next_address_is_tried() -> None:
    """A name whose first address does not listen is reached at its second."""
    async with (
        hostile_server(answering(OK)) as server,
        Client(lookup=leads_to(IPv4Address("127.0.0.9"), IPv6Address("::1"), LOOPBACK)) as client,
    ):
        assert (await client.get(server)).status == 200


@on_both_loops
async def test_nobody_listening_is_a_connect_failure() -> None:
    """A closed port on an allowed address says so and may be tried again."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    async with Client() as client:
        failure = await failure_of(client.fetch(f"http://127.0.0.1:{port}/"))
        assert failure.kind is FailureKind.CONNECT
        assert failure.kind.retryable


@pytest.mark.parametrize("addresses", [(LOOPBACK,), (IPv6Address("::1"), LOOPBACK)])
@on_both_loops
async def test_the_error_of_a_call_does_not_tell_where_its_name_leads(addresses: tuple[Address, ...]) -> None:
    """Users learn that nobody listens there; the addresses of a name may be none of their business."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    async with Client(lookup=leads_to(*addresses)) as client:
        failure = await failure_of(client.fetch(f"http://closed.example:{port}/"))
        assert failure.detail == "could not connect: Connection refused"


class _NoSockets:
    """A process that is out of file descriptors."""

    def __getattr__(self, name: str) -> Any:
        if name == "socket":
            raise OSError(errno.EMFILE, "Too many open files")
        return getattr(socket, name)


@pytest.mark.parametrize("host", ["127.0.0.1", "known.example", "silent.example"])
@on_both_loops
async def test_a_process_without_descriptors_blames_neither_host_nor_name(
    host: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A name server that cannot be asked for lack of a socket is no failure of the name, either."""

    async def lookup(name: str) -> list[Address]:
        if name.startswith("silent"):
            raise LookupFailed("Could not contact DNS servers", certain=False)
        return [LOOPBACK]

    monkeypatch.setattr("tocsin.targets.http.client.socket", _NoSockets())
    async with Client(lookup=lookup) as client:
        with pytest.raises(OSError, match="Too many open files") as short:
            await client.fetch(f"http://{host}:8080/")
        assert short.value.errno == errno.EMFILE


@on_both_loops
async def test_a_lack_of_descriptors_gives_no_host_a_rest(monkeypatch: pytest.MonkeyPatch) -> None:
    async with hostile_server(answering(OK)) as server, Client() as client:
        attempts, target = (
            Attempts(client, {}),
            HttpTarget(f"http://target.example:{server.port}/", method="GET"),
        )
        with monkeypatch.context() as patch:
            patch.setattr("tocsin.targets.http.client.socket", _NoSockets())
            for _ in range(2 * TRIP_AFTER):
                with pytest.raises(OSError, match="Too many open files"):
                    await attempts.call(target)
        assert (await attempts.outcome(target)).verdict is Verdict.SUCCEEDED


@on_both_loops
async def test_a_target_that_swallows_connections_is_given_up() -> None:
    """When the handshake is never completed, the connect time ends the wait."""
    # A full backlog: the kernel then ignores further handshakes, like a firewall that drops them.
    with socket.create_server(("127.0.0.1", 0), backlog=0) as listener:
        address = listener.getsockname()
        fillers = [socket.socket() for _ in range(3)]
        for filler in fillers:
            filler.setblocking(False)
            filler.connect_ex(address)
        async with Client() as client:
            url = parse_target_url(f"http://127.0.0.1:{address[1]}/")
            for connect_timeout, total_timeout in ((0.1, 20.0), (20.0, 0.1)):
                request = OutgoingRequest(
                    "GET", url, connect_timeout=connect_timeout, total_timeout=total_timeout
                )
                assert await kind_of(client.send(request)) is FailureKind.TIMEOUT
        for filler in fillers:
            filler.close()


# Names


@on_both_loops
async def test_a_name_that_does_not_exist_is_a_dns_failure() -> None:
    """NXDOMAIN is reported as such and may be tried again; it is not remembered."""
    asked: list[str] = []

    async def lookup(host: str) -> list[Address]:
        asked.append(host)
        if len(asked) == 1:
            raise LookupFailed("Domain name not found", certain=True)
        return [LOOPBACK]

    async with hostile_server(answering(OK)) as server, Client(lookup=lookup) as client:
        failure = await failure_of(client.get(server))
        assert failure.kind is FailureKind.DNS
        assert failure.kind.retryable
        assert (await client.get(server)).status == 200


@on_both_loops
async def test_a_name_without_addresses_is_a_dns_failure() -> None:
    """An empty answer is a failure, not a crash."""
    async with Client(lookup=leads_to()) as client:
        assert await kind_of(client.fetch("http://empty.example/")) is FailureKind.DNS


async def _silent(_: str) -> list[Address]:
    await asyncio.Event().wait()
    return []


@on_both_loops
async def test_a_slow_name_server_is_given_up() -> None:
    """A lookup that hangs ends with the lookup's own deadline, or with the total time if that is shorter."""
    client = HttpClient(Resolver(_silent, deadline=0.05), HOME)
    url = parse_target_url("http://slow.example/")
    try:
        assert await kind_of(client.send(OutgoingRequest("GET", url))) is FailureKind.DNS
        assert (
            await kind_of(client.send(OutgoingRequest("GET", url, total_timeout=0.01))) is FailureKind.TIMEOUT
        )
    finally:
        await client.close()


@on_both_loops
async def test_a_herd_asks_once() -> None:
    """Requests that need the same name at the same time share one lookup, and the next ones remember it."""
    asked: list[str] = []

    async def lookup(host: str) -> list[Address]:
        asked.append(host)
        await asyncio.sleep(0)
        return [LOOPBACK]

    async with hostile_server(answering(GOODBYE)) as server:
        client = HttpClient(Resolver(lookup), HOME)
        url = parse_target_url(f"http://herd.example:{server.port}/")
        await asyncio.gather(*(client.send(OutgoingRequest("GET", url)) for _ in range(30)))
        await client.send(OutgoingRequest("GET", url))
        await client.close()
        assert server.connections == 31
        assert asked == ["herd.example"]


@on_both_loops
async def test_address_families_alternate() -> None:
    """The preferred family stays first, the other comes second, repeats are dropped."""
    six = [IPv6Address(f"2606::{number}") for number in (1, 2, 3)]
    four = [IPv4Address(f"1.1.1.{number}") for number in (1, 2)]
    resolver = Resolver(leads_to(*six, *four, *six))
    assert await resolver.resolve("both.example") == (six[0], four[0], six[1], four[1], six[2])


@on_both_loops
async def test_the_system_knows_its_own_names() -> None:
    """Names of /etc/hosts are known, as everywhere else on the machine."""
    async with hostile_server(answering(OK)) as server:
        names = NameServers()
        client = HttpClient(Resolver(names.lookup), HOME)
        url = parse_target_url(f"http://localhost:{server.port}/")
        assert (await client.send(OutgoingRequest("GET", url))).status == 200
        await client.close()
        await names.close()


@on_both_loops
async def test_name_servers_answer_deny_or_are_silent() -> None:
    """And silent ones hold up nobody who asks for another name."""
    with NameServer() as server:
        names = NameServers([server.address])
        resolver = Resolver(names.lookup)
        silent = [asyncio.create_task(resolver.resolve(f"slow{number}.test")) for number in range(400)]
        await asyncio.sleep(0)
        for number in range(40):
            assert await resolver.resolve(f"good{number}.test") == (LOOPBACK,)
        with pytest.raises(Unresolved) as denied:
            await resolver.resolve("other.test")
        assert denied.value.certain
        assert not any(task.done() for task in silent)
        await resolver.close()
        await asyncio.gather(*silent, return_exceptions=True)
        await names.close()
