"""What the tests of the HTTP client share: a client that closes itself, and a way to run on both event loops.

Tests run on uvloop, as in production, and on the standard loop. Servers listen on loopback, on ports that the
kernel picks; every name leads to 127.0.0.1 unless a test says otherwise. Where a test needs an address that
stands for the open internet, it opens one loopback address in the policy and leaves the others closed.
"""

import asyncio
import functools
import inspect
import ssl
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from ipaddress import IPv4Address, IPv4Network
from typing import Any, Self

import pytest
import uvloop

from tests.acceptance.hostile_server import HostileServer
from tocsin.domain.addresses import Address, AddressPolicy, parse_target_url
from tocsin.targets.http.client import HttpClient
from tocsin.targets.http.exchange import (
    Answer,
    DeliveryFailed,
    FailureKind,
    HttpLimits,
    OutgoingRequest,
)
from tocsin.targets.http.resolver import Freshness, Lookup, Resolver

LOOPBACK = IPv4Address("127.0.0.1")
STAND_IN = IPv4Address("127.0.0.2")
"""The loopback address that stands for a public one."""

HOME = AddressPolicy(allow_loopback=True)
STAND_IN_ONLY = AddressPolicy(allowed_networks=(IPv4Network(STAND_IN),))
SMALL = HttpLimits(head_bytes=4096, read_bytes=65536, kept_bytes=1024)
GOODBYE = b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"

RUNNERS: dict[str, Callable[[Coroutine[Any, Any, None]], None]] = {
    "uvloop": uvloop.run,
    "asyncio": asyncio.run,
}


def on_both_loops(test: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
    """Make a coroutine a test that runs once on each event loop."""

    @functools.wraps(test)
    def run(*, loop: str, **arguments: Any) -> None:
        RUNNERS[loop](test(**arguments))

    signature = inspect.signature(test)
    loop = inspect.Parameter("loop", inspect.Parameter.KEYWORD_ONLY, annotation=str)
    run.__signature__ = signature.replace(parameters=[*signature.parameters.values(), loop])  # type: ignore[attr-defined]
    on_each: Callable[..., Callable[..., None]] = pytest.mark.parametrize("loop", RUNNERS)
    return on_each(run)


def leads_to(*addresses: Address) -> Lookup:
    """Every name has these addresses."""
    return answering_names(lambda _: addresses)


def answering_names(answer: Callable[[str], Sequence[Address]]) -> Lookup:
    """A name server that answers at once."""

    async def lookup(host: str) -> Sequence[Address]:
        return answer(host)

    return lookup


ALWAYS_ASK = Freshness(fresh=0.0, renewed=0.0, unanswered=0.0)
"""No answer is remembered."""


@functools.cache
def _default_context() -> ssl.SSLContext:
    """Made once: reading the system's certificates takes longer than most tests."""
    return ssl.create_default_context()


class Client(HttpClient):
    """The client under test, closed at the end of a `with`."""

    def __init__(
        self,
        policy: AddressPolicy = HOME,
        lookup: Lookup | None = None,
        limits: HttpLimits | None = None,
        ssl_context: ssl.SSLContext | None = None,
    ) -> None:
        resolver = Resolver(lookup or leads_to(LOOPBACK), freshness=ALWAYS_ASK)
        super().__init__(resolver, policy, limits=limits, ssl_context=ssl_context or _default_context())

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.close()

    async def get(self, server: HostileServer, path: str = "/", *, seconds: float = 20.0) -> Answer:
        """GET a path of the server under the name target.example."""
        scheme = "https" if server.tls else "http"
        return await self.fetch(f"{scheme}://target.example:{server.port}{path}", seconds=seconds)

    async def fetch(
        self, url: str, method: str = "GET", body: bytes = b"", *, seconds: float = 20.0
    ) -> Answer:
        """Send a request without headers of its own."""
        return await self.send(
            OutgoingRequest(method, parse_target_url(url), (), body, total_timeout=seconds)
        )


async def failure_of(sending: Awaitable[Answer]) -> DeliveryFailed:
    """How a request fails that must fail."""
    with pytest.raises(DeliveryFailed) as failed:
        await sending
    return failed.value


async def kind_of(sending: Awaitable[Answer]) -> FailureKind:
    """In which way a request fails that must fail."""
    return (await failure_of(sending)).kind


def paths_of(server: HostileServer) -> Sequence[str]:
    """The paths that were asked for, in order of arrival."""
    return [request.line.split()[1] for request in server.requests]
