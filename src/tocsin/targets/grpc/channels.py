"""Connections to gRPC servers: resolved and checked by us, made to the checked addresses, shared by calls.

The library never sees a name to resolve, and reads neither proxies from the environment nor service
configuration from name servers, so a call goes where the policy allowed it and nowhere else. A channel unused
for a minute lets go of its connection by itself.
"""

import asyncio
import re
from collections import OrderedDict
from ipaddress import IPv4Address
from typing import Any, Final

import grpc
import grpc.aio
import msgspec

from tocsin.domain.addresses import Address, AddressPolicy, TargetUrl
from tocsin.domain.errors import Refused
from tocsin.targets.http.resolver import Resolver

MAX_ANSWER: Final = 1024 * 1024
_REMEMBERED: Final = 256
_NAME_PATIENCE: Final = 0.5
_IDLE_MS: Final = 60_000
_TRIED: Final = 4
_CERTIFICATE: Final = re.compile(r"-----BEGIN CERTIFICATE-----.*?-----END CERTIFICATE-----\n?", re.DOTALL)
_PRIVATE_KEY: Final = re.compile(
    r"-----BEGIN [A-Z ]*PRIVATE KEY-----.*?-----END [A-Z ]*PRIVATE KEY-----\n?", re.DOTALL
)


class Credentials(msgspec.Struct, frozen=True):
    """How a channel is secured. Part of its identity: another certificate is another channel."""

    tenant_id: int
    plaintext: bool = False
    ca: str | None = None
    certificate: str | None = None

    def __repr__(self) -> str:
        return f"Credentials({self.tenant_id})"


class Channels:
    """The channels of one process."""

    def __init__(self, resolver: Resolver, policy: AddressPolicy) -> None:
        self._resolver = resolver
        self._policy = policy
        self._open: OrderedDict[tuple[str, str, Credentials], Any] = OrderedDict()
        self._closing: set[asyncio.Task[None]] = set()

    async def channel(self, place: TargetUrl, credentials: Credentials) -> Any:
        """A channel to a place. Raises Refused, Unresolved and StillResolving."""
        target = _target(place, await self._addresses(place))
        key = (target, place.authority, credentials)
        channel = self._open.get(key)
        if channel is None:
            channel = self._open[key] = _made(target, place, credentials)
            if len(self._open) > _REMEMBERED:
                _, oldest = self._open.popitem(last=False)
                closing = asyncio.create_task(oldest.close(grace=60))
                self._closing.add(closing)
                closing.add_done_callback(self._closing.discard)
        else:
            self._open.move_to_end(key)
        return channel

    async def close(self) -> None:
        """Close them all."""
        while self._open:
            _, channel = self._open.popitem()
            await channel.close()

    async def _addresses(self, place: TargetUrl) -> tuple[Address, ...]:
        found = (
            (place.address,) if place.address else await self._resolver.resolve(place.host, _NAME_PATIENCE)
        )
        for address in found:
            if reason := self._policy.refusal(place, address):
                raise Refused(reason, field="target.address")
        return found


def _target(place: TargetUrl, addresses: tuple[Address, ...]) -> str:
    """Addresses of the first one's family, as the library takes them."""
    family = type(addresses[0])
    same = sorted({address for address in addresses if isinstance(address, family)})[:_TRIED]
    if family is IPv4Address:
        return "ipv4:" + ",".join(f"{address}:{place.port}" for address in same)
    return "ipv6:" + ",".join(f"[{address}]:{place.port}" for address in same)


def _made(target: str, place: TargetUrl, credentials: Credentials) -> Any:
    options = [
        ("grpc.default_authority", place.authority),
        ("grpc.enable_http_proxy", 0),
        ("grpc.service_config_disable_resolution", 1),
        ("grpc.enable_retries", 0),
        ("grpc.max_receive_message_length", MAX_ANSWER),
        ("grpc.max_metadata_size", 32 * 1024),
        ("grpc.client_idle_timeout_ms", _IDLE_MS),
        ("grpc.use_local_subchannel_pool", 1),
        ("grpc.primary_user_agent", "tocsin"),
        ("grpc.initial_reconnect_backoff_ms", 100),
        ("grpc.min_reconnect_backoff_ms", 100),
        ("grpc.max_reconnect_backoff_ms", 1000),
    ]
    if credentials.plaintext:
        return grpc.aio.insecure_channel(target, options=options)
    options.append(("grpc.ssl_target_name_override", place.host))
    return grpc.aio.secure_channel(target, _credentials(credentials), options=options)


def _credentials(credentials: Credentials) -> grpc.ChannelCredentials:
    ca = None if credentials.ca is None else credentials.ca.encode()
    if credentials.certificate is None:
        return grpc.ssl_channel_credentials(ca)
    key = _PRIVATE_KEY.search(credentials.certificate)
    chain = "".join(_CERTIFICATE.findall(credentials.certificate))
    if key is None or not chain:
        raise Refused(
            "the secret is no client certificate: it needs a certificate and its private key, as PEM text",
            field="target.tls.client_certificate",
        )
    return grpc.ssl_channel_credentials(ca, key[0].encode(), chain.encode())
