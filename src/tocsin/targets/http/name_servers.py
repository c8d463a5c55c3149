"""Asks the system's name servers without blocking, through c-ares.

`getaddrinfo` of the C library blocks a thread for as long as a name server is silent, so any number of
threads can be used up by one tenant's dead names. c-ares has one socket for all questions. It reads what the
C library reads: `/etc/hosts`, and name servers, search domains and options of `/etc/resolv.conf`, again when
they change. Other sources of `nsswitch.conf` are not asked.
"""

import socket
from collections.abc import Sequence
from ipaddress import ip_address
from typing import Final

import aiodns
from aiodns.error import ARES_EBADNAME, ARES_ENODATA, ARES_ENOTFOUND, DNSError

from tocsin.domain.addresses import Address
from tocsin.targets.http.resolver import LookupFailed

_CERTAIN: Final = frozenset({ARES_ENOTFOUND, ARES_ENODATA, ARES_EBADNAME})
_TRIES: Final = 5
"""c-ares learns how quickly a server answers and waits 250 ms and up for it, twice as long each time: with
the usual three tries it would give up on a name whose own servers take two seconds."""


class NameServers:
    """The name servers as seen from one event loop; `servers` (address or address:port) instead of the
    system's."""

    def __init__(self, servers: Sequence[str] = ()) -> None:
        self._dns = aiodns.DNSResolver(servers or None, tries=_TRIES)

    async def lookup(self, host: str) -> Sequence[Address]:
        """The addresses of a name, in the order in which they should be tried."""
        try:
            found = await self._dns.getaddrinfo(host, type=socket.SOCK_STREAM)
        except DNSError as error:
            code, words = error.args
            raise LookupFailed(words, certain=code in _CERTAIN) from None
        return [ip_address(node.addr[0].decode()) for node in found.nodes]

    async def close(self) -> None:
        """Ask nothing more; questions under way fail."""
        await self._dns.close()
