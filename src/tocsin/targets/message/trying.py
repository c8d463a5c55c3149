"""Whether a broker can be reached and lets us in: connect now, leave again, tell. Nothing is published."""

import asyncio
from collections.abc import Mapping
from typing import Final

import msgspec

from tocsin.domain.connection import Connection
from tocsin.domain.outcome import Outcome
from tocsin.targets.message.broker import NotOpened
from tocsin.targets.message.opening import Opening

_SECONDS: Final = 20.0


class Tried(msgspec.Struct, frozen=True):
    """How it went."""

    took_ms: float
    error: str | None = None


class Brokers:
    """Opens connections of every installed kind, once each."""

    def __init__(self, openings: Mapping[str, Opening]) -> None:
        self._openings = openings

    async def try_out(self, tenant_id: int, connection: Connection) -> Tried:
        """Connect and leave."""
        opening = self._openings.get(connection.kind)
        if opening is None:
            return Tried(0, "this process opens no connections of this kind")
        loop = asyncio.get_running_loop()
        began = loop.time()
        error: str | None = None
        try:
            async with asyncio.timeout(_SECONDS):
                broker = await opening.open(tenant_id, connection)
                await broker.close()
        except NotOpened as reason:
            outcome = reason.outcome
            error = outcome.error if isinstance(outcome, Outcome) else "this process cannot open its secrets"
        except TimeoutError:
            error = f"no answer within {_SECONDS:g} s"
        return Tried(round((loop.time() - began) * 1000, 1), error)
