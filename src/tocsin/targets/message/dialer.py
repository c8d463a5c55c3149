"""Where brokers may be: each host is resolved and every address put to the policy before a client connects.

Clients are handed the checked address, never the name, so what was checked is what is called. That holds for
hosts that a broker announces, too: they come from outside like any other.
"""

from typing import Final

from tocsin.domain.addresses import Address, AddressPolicy, TargetUrl
from tocsin.domain.errors import Refused
from tocsin.targets.http.resolver import Resolver, Unresolved

_TRIED: Final = 4


class Dialer:
    """Finds addresses to connect to."""

    def __init__(self, resolver: Resolver, policy: AddressPolicy) -> None:
        self._resolver = resolver
        self._policy = policy

    async def addresses(self, place: TargetUrl) -> tuple[Address, ...]:
        """The addresses of a host. Raises Refused for what may not be called, OSError for a name without an
        address."""
        if place.address is not None:
            found: tuple[Address, ...] = (place.address,)
        else:
            try:
                found = await self._resolver.resolve(place.host)
            except Unresolved as unresolved:
                raise OSError(unresolved.detail) from None
        for address in found:
            if reason := self._policy.refusal(place, address):
                raise Refused(reason, field="addresses")
        return found[:_TRIED]
