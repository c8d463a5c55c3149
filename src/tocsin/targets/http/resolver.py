"""Names to addresses: one lookup per name at a time, within a deadline, remembered for a few seconds.

Those who ask for the same name meanwhile share the lookup under way, so a herd of jobs to one host costs one
question. A lookup that outlasts a caller's patience goes on: the caller comes back later (`StillResolving`)
and finds the answer, or that there is none. So a silent name server keeps no call's place for long.

An answer that is no longer fresh is served while a new one is fetched. If the name servers are silent, so is
one that is older. A name server's certain answer that a name does not exist is believed at once.

Addresses come out unchecked: the caller asks the address policy about every address, every time it connects.
"""

import asyncio
import itertools
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from ipaddress import IPv4Address
from typing import Final, TypeVar

import msgspec

from tocsin.domain.addresses import Address
from tocsin.domain.errors import TocsinError
from tocsin.targets.http.exchange import DeliveryFailed, FailureKind

Lookup = Callable[[str], Awaitable[Sequence[Address]]]
"""Raises `LookupFailed`."""

T = TypeVar("T")
_FAILURE_REMEMBERED: Final = 5.0
"""Seconds for which a failed lookup is remembered if callers were asked to come back for its answer."""


class LookupFailed(Exception):
    """There is no address. `certain`: a name server said so; else none answered as it should."""

    def __init__(self, reason: str, *, certain: bool) -> None:
        super().__init__(reason)
        self.reason = reason
        self.certain = certain


class StillResolving(TocsinError):
    """The name servers have not answered yet, and still may."""


class Unresolved(DeliveryFailed):
    """A name without an address."""

    def __init__(self, detail: str, *, certain: bool) -> None:
        super().__init__(FailureKind.DNS, detail)
        self.certain = certain


class _Known(msgspec.Struct, frozen=True):
    at: float
    addresses: tuple[Address, ...]


class Freshness(msgspec.Struct, frozen=True, kw_only=True):
    """For how many seconds an answer is used."""

    fresh: float = 5.0
    """Without asking again."""
    renewed: float = 30.0
    """While a new one is fetched."""
    unanswered: float = 600.0
    """If name servers do not answer."""


class Resolver:
    """Resolves names on one event loop."""

    def __init__(
        self,
        lookup: Lookup,
        *,
        deadline: float = 5.0,
        freshness: Freshness | None = None,
        max_names: int = 4096,
    ) -> None:
        self._lookup = lookup
        self._deadline = deadline
        self._freshness = freshness or Freshness()
        self._max_names = max_names
        self._known: dict[str, _Known] = {}
        self._underway: dict[str, asyncio.Task[tuple[Address, ...]]] = {}
        self._awaited: set[str] = set()
        """Names under way for whose answer a caller will come back."""
        self._failed: dict[str, tuple[float, Unresolved]] = {}

    async def resolve(self, host: str, patience: float | None = None) -> tuple[Address, ...]:
        """Every address of a name, families alternating, so that a family that is broken here costs one try.

        Raises StillResolving if that takes longer than `patience` seconds.
        """
        known, age = self._remembered(host)
        if known and age < max(self._freshness.fresh, self._freshness.renewed):
            if age >= self._freshness.fresh:
                self._ask(host)
            return known
        until, failure = self._failed.get(host, (0.0, None))
        if failure is not None and until > asyncio.get_running_loop().time():
            raise failure
        usable = known if age < self._freshness.unanswered else ()
        try:
            return await self._answer(host, patience)
        except StillResolving:
            if not usable:
                self._awaited.add(host)
                raise
        except Unresolved as unresolved:
            if unresolved.certain or not usable:
                raise
        return usable

    async def close(self) -> None:
        """Give up what is under way."""
        tasks = list(self._underway.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _remembered(self, host: str) -> tuple[tuple[Address, ...], float]:
        known = self._known.get(host)
        if known is None:
            return (), 0.0
        return known.addresses, asyncio.get_running_loop().time() - known.at

    async def _answer(self, host: str, patience: float | None) -> tuple[Address, ...]:
        try:
            async with asyncio.timeout(patience):
                # The lookup is shared: one caller giving up must not take it from the others.
                return await asyncio.shield(self._ask(host))
        except TimeoutError:
            raise StillResolving("the name servers have not answered yet") from None

    def _ask(self, host: str) -> asyncio.Task[tuple[Address, ...]]:
        question = self._underway.get(host)
        if question is None:
            question = self._underway[host] = asyncio.create_task(self._look_up(host), name="name lookup")
            question.add_done_callback(partial(self._learn, host))
        return question

    async def _look_up(self, host: str) -> tuple[Address, ...]:
        try:
            async with asyncio.timeout(self._deadline):
                return _alternating(await self._lookup(host))
        except TimeoutError:
            words = f"the name did not resolve within {self._deadline:g} s"
            raise Unresolved(words, certain=False) from None
        except LookupFailed as failed:
            raise Unresolved(f"the name does not resolve: {failed.reason}", certain=failed.certain) from None

    def _learn(self, host: str, question: asyncio.Task[tuple[Address, ...]]) -> None:
        del self._underway[host]
        awaited = host in self._awaited
        self._awaited.discard(host)
        if question.cancelled():
            return
        now = asyncio.get_running_loop().time()
        # Asking for the exception also marks it as seen when every caller has given up.
        error = question.exception()
        if error is None:
            self._failed.pop(host, None)
            _put(self._known, host, _Known(now, question.result()), self._max_names)
        elif isinstance(error, Unresolved):
            if error.certain:
                self._known.pop(host, None)
            if awaited:
                _put(self._failed, host, (now + _FAILURE_REMEMBERED, error), self._max_names)


def _put(remembered: dict[str, T], host: str, value: T, most: int) -> None:
    """Remember one more, and forget the oldest when there are too many."""
    remembered.pop(host, None)
    if len(remembered) >= most:
        del remembered[next(iter(remembered))]
    remembered[host] = value


def _alternating(addresses: Sequence[Address]) -> tuple[Address, ...]:
    """In the resolver's order of preference, without repeats, taking the two families in turn."""
    distinct = list(dict.fromkeys(addresses))
    first_is_v4 = bool(distinct) and isinstance(distinct[0], IPv4Address)
    preferred = [address for address in distinct if isinstance(address, IPv4Address) == first_is_v4]
    other = [address for address in distinct if isinstance(address, IPv4Address) != first_is_v4]
    turns = itertools.chain.from_iterable(itertools.zip_longest(preferred, other))
    return tuple(address for address in turns if address is not None)
