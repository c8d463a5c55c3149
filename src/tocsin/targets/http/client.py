"""Sends one HTTP/1.1 request and returns its answer, whatever stands at the other end.

The life of a request: a place in line at its origin → an idle connection, or resolve, check, connect → one
write → one bounded answer → the connection kept or closed. Everything happens inside the request's total
time.

Invariants:

* A name is resolved once per connection. **Every** address it gave is put to the policy; one that is refused
  refuses the delivery, since a name that mixes inner and outer addresses is an attack or a mistake. A checked
  address is then connected to as it is, and the peer's address is verified before the first byte is sent.
  Host header and TLS server name stay the name that the user wrote.
* Redirects are answers, not orders. No proxy is read from the environment. Nothing is decompressed.
* A connection goes back to the pool only after a whole answer; failure and cancellation close it.
* A request is written twice only when the first writing provably reached no server (see `connection`).
* A refusal by policy happens before anything is sent and reads the same whatever listens there. No error
  names the address that a name led to; the debug log does.
"""

import asyncio
import os
import socket
import ssl
from collections.abc import Sequence
from ipaddress import IPv4Address, ip_address
from typing import Final

import structlog

from tocsin.domain.addresses import Address, AddressPolicy, TargetUrl, unmapped
from tocsin.targets.descriptors import none_left
from tocsin.targets.http.connection import HttpConnection
from tocsin.targets.http.exchange import (
    Answer,
    DeliveryFailed,
    FailureKind,
    HttpLimits,
    OutgoingRequest,
    RequestUnseen,
    encode_request,
)
from tocsin.targets.http.pool import HttpPool, Origin
from tocsin.targets.http.resolver import Resolver, Unresolved

_MAX_ADDRESSES_TRIED: Final = 4
_TLS_GOODBYE_SECONDS: Final = 1.0
_log = structlog.get_logger()


class HttpClient:
    """One per process and event loop, shared by all tenants. Owns the resolver it is given."""

    def __init__(
        self,
        resolver: Resolver,
        policy: AddressPolicy,
        *,
        limits: HttpLimits | None = None,
        ssl_context: ssl.SSLContext | None = None,
    ) -> None:
        self._resolver = resolver
        self._policy = policy
        self._limits = limits or HttpLimits()
        self._ssl = ssl_context or default_ssl_context()
        self._pool = HttpPool(self._limits)

    async def send(self, request: OutgoingRequest) -> Answer:
        """Deliver a request, or raise DeliveryFailed; StillResolving if its name needs more patience; OSError
        if this process has no file descriptor left."""
        data = encode_request(request)
        deadline = asyncio.get_running_loop().time() + request.total_timeout
        try:
            origin = self._pool.enter_now(request.url, request.tls)
            if origin is None:
                async with asyncio.timeout_at(deadline):
                    origin = await self._pool.enter(request.url, request.tls, request.tenant_id)
            try:
                return await self._deliver(origin, request, data, deadline)
            finally:
                self._pool.leave(origin)
        except TimeoutError:
            raise DeliveryFailed(
                FailureKind.TIMEOUT, f"no whole answer within {request.total_timeout:g} s"
            ) from None

    async def close(self) -> None:
        """End every connection; requests still under way fail as closed."""
        await self._resolver.close()
        await self._pool.close()

    async def _deliver(
        self, origin: Origin, request: OutgoingRequest, data: bytes, deadline: float
    ) -> Answer:
        connection = self._pool.take_idle(origin)
        if connection is not None:
            try:
                return await self._exchange(origin, connection, request, data, deadline)
            except RequestUnseen:
                pass  # it reached no server, so what follows is the first real try
        async with asyncio.timeout_at(deadline):
            connection = await self._connect(request)
        return await self._exchange(origin, connection, request, data, deadline)

    async def _exchange(
        self,
        origin: Origin,
        connection: HttpConnection,
        request: OutgoingRequest,
        data: bytes,
        deadline: float,
    ) -> Answer:
        try:
            answer = await connection.exchange(data, bodiless=request.method == "HEAD", deadline=deadline)
        except BaseException:
            connection.abort()
            raise
        self._pool.keep(origin, connection)
        return answer

    async def _connect(self, request: OutgoingRequest) -> HttpConnection:
        if self._pool.closed:
            raise DeliveryFailed(FailureKind.CLOSED, "this client is closed")
        url, seconds = request.url, request.connect_timeout
        addresses = await self._vetted_addresses(url, request.name_patience)
        deadline = asyncio.get_running_loop().time() + seconds
        failure = DeliveryFailed(FailureKind.DNS, "the name has no address")
        for tries_left, address in zip(range(len(addresses), 0, -1), addresses, strict=True):
            # An even share each, so that the last address still gets a try when the first ones swallow
            # packets.
            share = (deadline - asyncio.get_running_loop().time()) / tries_left
            try:
                async with asyncio.timeout(share):
                    return await self._open(url, address, request.tls or self._ssl)
            except TimeoutError:
                failure = DeliveryFailed(FailureKind.TIMEOUT, f"no connection within {seconds:g} s")
            except OSError as error:
                if none_left(error):
                    raise
                _log.debug("http.not_connected", host=url.host, address=str(address), error=str(error))
                failure = DeliveryFailed(
                    FailureKind.CONNECT, f"could not connect: {reason_of(error) or type(error).__name__}"
                )
        raise failure

    async def _vetted_addresses(self, url: TargetUrl, patience: float | None) -> Sequence[Address]:
        if url.address is not None:
            addresses: tuple[Address, ...] = (url.address,)
        else:
            addresses = await self._resolve(url.host, patience)
        for address in addresses:
            if reason := self._policy.refusal(url, address):
                raise DeliveryFailed(FailureKind.REFUSED_ADDRESS, reason)
        return addresses[:_MAX_ADDRESSES_TRIED]

    async def _resolve(self, host: str, patience: float | None) -> tuple[Address, ...]:
        try:
            return await self._resolver.resolve(host, patience)
        except Unresolved as unresolved:
            if not unresolved.certain:
                socket.socket().close()  # raises if name servers were not asked for lack of a descriptor
            raise

    async def _open(self, url: TargetUrl, address: Address, context: ssl.SSLContext) -> HttpConnection:
        sock = await _connect_socket(address, url.port)
        tls = url.scheme == "https"
        try:
            _, connection = await asyncio.get_running_loop().create_connection(
                lambda: HttpConnection(sock.fileno(), self._limits),
                sock=sock,
                ssl=context if tls else None,
                server_hostname=url.host if tls else None,
                ssl_shutdown_timeout=_TLS_GOODBYE_SECONDS if tls else None,
            )
        except (ssl.SSLError, ConnectionError) as error:
            raise DeliveryFailed(FailureKind.TLS, f"no TLS connection: {_tls_reason(error)}") from None
        self._pool.adopt(connection)
        return connection


async def _connect_socket(address: Address, port: int) -> socket.socket:
    """A connected socket, its peer verified to be the address that was checked."""
    family = socket.AF_INET if isinstance(address, IPv4Address) else socket.AF_INET6
    sock = socket.socket(family, socket.SOCK_STREAM)
    try:
        sock.setblocking(False)  # noqa: FBT003 - the socket module's own signature
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        await asyncio.get_running_loop().sock_connect(sock, (str(address), port))
        _verify_peer(sock, address)
    except BaseException:
        sock.close()
        raise
    return sock


def _verify_peer(sock: socket.socket, address: Address) -> None:
    if unmapped(ip_address(sock.getpeername()[0])) != unmapped(address):
        raise DeliveryFailed(
            FailureKind.REFUSED_ADDRESS, "the connection led elsewhere than to the checked address"
        )


def default_ssl_context() -> ssl.SSLContext:
    """Trusts whom the system trusts."""
    context = ssl.create_default_context()
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    return context


def _tls_reason(error: OSError) -> str:
    if isinstance(error, ssl.SSLCertVerificationError):
        return error.verify_message
    if isinstance(error, ssl.SSLError):
        return error.strerror or str(error)
    return reason_of(error) or "the target closed the connection"


def reason_of(error: OSError) -> str:
    """What went wrong, in the system's words. An event loop's own words may name the address that was
    called."""
    return os.strerror(error.errno) if error.errno else ""
