"""Names to addresses: one lookup per name at a time, within a deadline, remembered for a few seconds.

`getaddrinfo` blocks and cannot be cancelled, so it runs on threads that nothing else uses: a tenant whose name
server never answers can fill these, not the ones the rest of the process needs. Those who ask for the same name
meanwhile share the lookup under way, so a herd of jobs to one host costs one question.

What comes out is unchecked: the caller asks the address policy about every address, every time it connects.
"""

import asyncio
import itertools
import socket
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from ipaddress import IPv4Address, ip_address
from typing import Final

from tocsin.domain.addresses import Address
from tocsin.worker.targets.http_exchange import DeliveryFailed, FailureKind

Lookup = Callable[[str], Sequence[Address]]

_THREADS: Final = 32


def system_lookup(host: str) -> Sequence[Address]:
    """Ask the system's resolver. Blocks. The name goes in as bytes, so that Python applies no IDNA of its own."""
    found = socket.getaddrinfo(host.encode("ascii"), None, type=socket.SOCK_STREAM)
    return [ip_address(sockaddr[0]) for *_, sockaddr in found]


class Resolver:
    """Resolves names on one event loop. `lookup` may block; it is called on a thread."""

    def __init__(
        self,
        lookup: Lookup = system_lookup,
        *,
        deadline: float = 5.0,
        remember: float = 5.0,
        max_names: int = 4096,
    ) -> None:
        self._lookup = lookup
        self._deadline = deadline
        self._remember = remember
        self._max_names = max_names
        self._threads = ThreadPoolExecutor(_THREADS, thread_name_prefix="resolver")
        self._known: dict[str, tuple[float, tuple[Address, ...]]] = {}
        self._underway: dict[str, asyncio.Future[Sequence[Address]]] = {}

    async def resolve(self, host: str) -> tuple[Address, ...]:
        """Every address of a name, families alternating, so that a family that is broken here costs one try."""
        until, addresses = self._known.get(host, (0.0, ()))
        if until > asyncio.get_running_loop().time():
            return addresses
        try:
            async with asyncio.timeout(self._deadline):
                # The lookup is shared: one caller giving up must not take it from the others.
                found = await asyncio.shield(self._ask(host))
        except TimeoutError:
            raise DeliveryFailed(
                FailureKind.DNS, f"the name did not resolve within {self._deadline:g} s"
            ) from None
        except OSError as error:
            raise DeliveryFailed(FailureKind.DNS, f"the name does not resolve: {error.strerror}") from None
        return _alternating(found)

    def close(self) -> None:
        """Let go of the threads. A lookup that hangs ends in its own time, unheard."""
        self._threads.shutdown(wait=False)

    def _ask(self, host: str) -> asyncio.Future[Sequence[Address]]:
        question = self._underway.get(host)
        if question is None:
            question = asyncio.get_running_loop().run_in_executor(self._threads, self._lookup, host)
            self._underway[host] = question
            question.add_done_callback(partial(self._learn, host))
        return question

    def _learn(self, host: str, question: asyncio.Future[Sequence[Address]]) -> None:
        del self._underway[host]
        # Asking for the exception also marks it as seen when every caller has given up.
        if question.cancelled() or question.exception() is not None:
            return
        self._known.pop(host, None)
        if len(self._known) >= self._max_names:
            del self._known[next(iter(self._known))]
        until = asyncio.get_running_loop().time() + self._remember
        self._known[host] = (until, _alternating(question.result()))


def _alternating(addresses: Sequence[Address]) -> tuple[Address, ...]:
    """In the resolver's order of preference, without repeats, taking the two families in turn."""
    distinct = list(dict.fromkeys(addresses))
    first_is_v4 = bool(distinct) and isinstance(distinct[0], IPv4Address)
    preferred = [address for address in distinct if isinstance(address, IPv4Address) == first_is_v4]
    other = [address for address in distinct if isinstance(address, IPv4Address) != first_is_v4]
    turns = itertools.chain.from_iterable(itertools.zip_longest(preferred, other))
    return tuple(address for address in turns if address is not None)
