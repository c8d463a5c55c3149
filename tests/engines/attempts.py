"""Attempts at messages, made as a worker makes them: a caller over one connection, without a database."""

import asyncio
from collections.abc import Mapping, Sequence
from ipaddress import ip_address
from typing import Any
from uuid import UUID

from tocsin.clock import VirtualClock
from tocsin.domain.addresses import Address, AddressPolicy
from tocsin.domain.connection import Connection
from tocsin.domain.errors import Refused
from tocsin.domain.instant import MINUTE, SECOND
from tocsin.domain.outcome import Outcome, Postponed, Verdict
from tocsin.targets.assignment import Assignment
from tocsin.targets.http.resolver import Resolver
from tocsin.targets.message.caller import Known, MessageCaller
from tocsin.targets.message.dialer import Dialer
from tocsin.targets.message.opening import MakeBroker, Opening

START = 1_800_000_000 * SECOND
LOCAL = AddressPolicy(allow_loopback=True)


class OpenSecrets:
    """Secrets that are known beforehand."""

    def __init__(self, values: Mapping[str, str]) -> None:
        self._values = values

    async def signing_secrets(self, tenant_id: int) -> tuple[bytes, ...]:
        return ()

    async def values(self, tenant_id: int, names: Sequence[str]) -> dict[str, str]:
        missing = [name for name in names if name not in self._values]
        if missing:
            raise Refused(f"there is no secret {missing[0]!r}")
        return {name: self._values[name] for name in names}


class OneConnection:
    """The book of connections, with one in it."""

    def __init__(self, connection: Connection) -> None:
        self.known = Known(connection, 1)

    async def find(self, tenant_id: int, name: str) -> Known:
        if name != "bus":
            raise Refused(f"there is no connection {name!r}")
        return self.known


async def _lookup(host: str) -> Sequence[Address]:
    return [ip_address({"inner.example": "10.1.2.3"}.get(host, "127.0.0.1"))]


class Attempts:
    """Calls a caller and tells how each ended."""

    def __init__(
        self,
        make: MakeBroker,
        connection: Connection,
        secrets: Mapping[str, str] | None = None,
        policy: AddressPolicy = LOCAL,
    ) -> None:
        self.clock = VirtualClock(START)
        self.book = OneConnection(connection)
        opening = Opening(lambda: make, OpenSecrets(secrets or {}), Dialer(Resolver(_lookup), policy))
        self.opening = opening
        self.caller = MessageCaller(connection.kind, self.book, opening, self.clock)

    async def call(
        self, target: Any, number: int = 1, attempt: int = 1, seconds: float = 20.0
    ) -> Outcome | Postponed:
        """One attempt at one execution, stopped by its timeout as a worker does it."""
        job, now = UUID(int=number), self.clock.now()
        assignment = Assignment(job, START, 1, attempt, number, now, now, now)
        try:
            return await asyncio.wait_for(self.caller.call(assignment, target, seconds), seconds)
        except TimeoutError:
            return Outcome(Verdict.TIMED_OUT, "no answer in time")

    async def until_taken(self, target: Any, number: int) -> int:
        """Attempts until one succeeds, as retries and postponements make them. How many it took."""
        for attempt in range(1, 1000):
            outcome = await self.call(target, number, attempt)
            if isinstance(outcome, Outcome) and outcome.verdict is Verdict.SUCCEEDED:
                return attempt
            assert isinstance(outcome, Postponed) or outcome.verdict is not Verdict.REJECTED, outcome
            self.clock.advance(MINUTE)  # no breaker rests as long
            await asyncio.sleep(0.02)
        raise AssertionError("never taken")
