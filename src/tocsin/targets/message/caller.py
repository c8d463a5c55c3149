"""Calls message targets: finds the connection, hands the message to its publisher, waits for how it ends.

Connections are to messages what hosts are to webhooks: the breaker gives one that fails a rest, per tenant. A
connection that was changed gets a new publisher; what the old one has under way ends there.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final, Protocol

import msgspec

from tocsin.clock import Clock
from tocsin.domain.connection import Connection
from tocsin.domain.errors import Refused, Unavailable, Unreadable
from tocsin.domain.message_target import MessageTarget, filled_message, parts_of_message
from tocsin.domain.outcome import Outcome, Postponed, Verdict, pause_for_newer
from tocsin.domain.waits import Reason
from tocsin.targets.assignment import Assignment
from tocsin.targets.caller import Host
from tocsin.targets.filling import Names, NoNames, values_for
from tocsin.targets.http.breaker import HostBreaker, is_away
from tocsin.targets.message.broker import Broker
from tocsin.targets.message.message import Parcel, message_of
from tocsin.targets.message.opening import Opening
from tocsin.targets.message.publisher import Publisher

_PUBLISHERS: Final = 1024


class Known(msgspec.Struct, frozen=True):
    """A connection as it stands."""

    connection: Connection
    version: int


class Connections(Protocol):
    """Finds connections by tenant and name."""

    async def find(self, tenant_id: int, name: str) -> Known:
        """The connection. Raises Refused if there is none, Unreadable if a newer version wrote it,
        Unavailable if that cannot be known now."""


class _Served(msgspec.Struct, frozen=True):
    version: int
    publisher: Publisher


class MessageCaller:
    """One attempt at a message, for one kind of broker."""

    def __init__(
        self,
        kind: str,
        connections: Connections,
        opening: Opening,
        clock: Clock,
        names: Names | None = None,
    ) -> None:
        self._kind = kind
        self._connections = connections
        self.opening = opening
        self._clock = clock
        self._names = names or NoNames()
        self._breaker = HostBreaker()
        self._served: dict[tuple[int, str], _Served] = {}
        self._leaving: set[asyncio.Task[None]] = set()

    def host(self, target: MessageTarget) -> Host | None:  # noqa: ARG002 - of any target
        """None: messages share a connection, and how many are under way on it is the connection's to say."""
        return None

    async def call(
        self, assignment: Assignment, target: MessageTarget, timeout: float
    ) -> Outcome | Postponed:
        """Publish the message, unless its connection is at rest."""
        place = (assignment.tenant_id, target.connection, 0)
        wait = self._breaker.wait(place, assignment.due_at, self._clock.now())
        if wait is not None:
            return Postponed(wait, Reason.HOST_REST)
        loop = asyncio.get_running_loop()
        deadline = loop.time() + timeout
        try:
            outcome = await self._publish(assignment, target, deadline)
        except BaseException:
            if loop.time() < deadline:
                self._breaker.forget(place)
            else:  # the worker stopped us because the time was over
                self._breaker.report(place, self._clock.now(), failed=True)
            raise
        if isinstance(outcome, Outcome) and (outcome.verdict is Verdict.SUCCEEDED or is_away(outcome)):
            self._breaker.report(place, self._clock.now(), failed=is_away(outcome))
        else:
            self._breaker.forget(place)
        return outcome

    async def close(self) -> None:
        """Leave every broker."""
        publishers = [served.publisher for served in self._served.values()]
        self._served.clear()
        await asyncio.gather(*(publisher.close() for publisher in publishers), *self._leaving)

    async def _publish(
        self, assignment: Assignment, target: MessageTarget, deadline: float
    ) -> Outcome | Postponed:
        try:
            known = await self._connections.find(assignment.tenant_id, target.connection)
            self._check_kind(known.connection, target)
            target = await self._filled(assignment, target)
        except Unreadable:
            return Postponed(pause_for_newer(assignment.due_at, self._clock.now()), Reason.NEWER)
        except Refused as error:
            return Outcome(Verdict.REJECTED, error.detail)
        except Unavailable as error:
            return Outcome(Verdict.FAILED, error.detail)
        parcel = Parcel(message_of(assignment, target), deadline)
        self._publisher(assignment.tenant_id, target.connection, known).send(parcel)
        return await parcel.ended

    async def _filled(self, assignment: Assignment, target: MessageTarget) -> MessageTarget:
        if not target.template:
            return target
        return filled_message(target, await values_for(assignment, parts_of_message(target), self._names))

    def _check_kind(self, connection: Connection, target: MessageTarget) -> None:
        if connection.kind != self._kind:
            raise Refused(f"the connection {target.connection!r} is of the kind {connection.kind}")

    def _publisher(self, tenant_id: int, name: str, known: Known) -> Publisher:
        served = self._served.get((tenant_id, name))
        if served is not None and served.version == known.version:
            return served.publisher
        if served is not None:
            self._retire(served.publisher)
        elif len(self._served) >= _PUBLISHERS:
            self._retire(self._served.pop(next(iter(self._served))).publisher)
        publisher = Publisher(self._opener(tenant_id, known.connection), known.connection.in_flight)
        self._served[tenant_id, name] = _Served(known.version, publisher)
        return publisher

    def _opener(self, tenant_id: int, connection: Connection) -> Callable[[], Awaitable[Broker]]:
        return lambda: self.opening.open(tenant_id, connection)

    def _retire(self, publisher: Publisher) -> None:
        leaving = asyncio.create_task(publisher.close(), name="publisher close")
        self._leaving.add(leaving)
        leaving.add_done_callback(self._leaving.discard)
