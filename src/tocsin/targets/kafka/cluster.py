"""The nodes of a cluster: who leads each partition, as the cluster itself says, and connections to them.

A node's announcement comes from outside like anything else: its host is resolved and checked before a
connection is opened to it. Nothing here reconnects by itself; a connection that ended is opened anew when it
is needed next.
"""

import asyncio
import contextlib
from collections.abc import Collection, Mapping
from typing import Any, Final

import msgspec
from aiokafka.errors import (
    IllegalSaslStateError,
    KafkaConnectionError,
    KafkaError,
    SaslAuthenticationFailed,
    UnsupportedSaslMechanismError,
)
from aiokafka.protocol.metadata import MetadataRequest

from tocsin.domain.addresses import TargetUrl
from tocsin.domain.connection import places, read_place
from tocsin.domain.errors import Refused
from tocsin.domain.outcome import Outcome, Verdict
from tocsin.targets.kafka.connection import MAKES_NO_SENSE, KafkaConnection
from tocsin.targets.kafka.outcome import NO_LEADER, NO_TOPIC, meaning_of, words_of
from tocsin.targets.message.broker import Access, NotOpened
from tocsin.targets.message.message import away, busy, rejected
from tocsin.targets.message.opening import OPEN_SECONDS, first_open

_PORT: Final = 9092
_FRESH_SECONDS: Final = 300.0
"""A topic gets partitions rarely, and a leader that moved says so."""
_PARTITIONS_KNOWN: Final = 20_000
"""Of how many partitions the leaders are remembered. Topics come from jobs; the oldest answers go first."""
_PAUSES: Final = (0.1, 0.3, None)
"""Seconds after each look for a topic: nodes hear of a new one one after another."""
_CLOSED: Final = "the broker closed the connection, as it does where it asks for TLS or for a user"
_NOT_KAFKA: Final = "it does not answer as Kafka does"
_Where = tuple[str, int]


class Topic(msgspec.Struct, frozen=True):
    """A topic as the cluster described it."""

    error: int
    leaders: Mapping[int, int]
    """By partition: the number of a node, -1 if there is none now."""
    read_at: float


class Cluster:
    """What is known of one cluster."""

    def __init__(self, access: Access) -> None:
        self._access = access
        self._connections: dict[_Where, KafkaConnection] = {}
        self._opening: dict[_Where, asyncio.Lock] = {}
        self._nodes: dict[int, TargetUrl | None] = {}
        """By number; None where the address makes no sense."""
        self._topics: dict[str, Topic] = {}
        self._asking = asyncio.Lock()
        self.closed = False

    async def topic(self, name: str) -> Topic:
        """A topic that can be written to. Raises NotOpened."""
        for pause in _PAUSES:
            known = self._topics.get(name)
            if known is None or known.error or self._now() - known.read_at > _FRESH_SECONDS:
                await self.look_again(name)
                known = self._topics.get(name)
            if known is None:
                raise NotOpened(away(_NOT_KAFKA))
            if not known.error:
                return known
            error = known.error
            if pause is None or not meaning_of(error).mends:
                break
            await asyncio.sleep(pause)
        gone = error == NO_TOPIC or not meaning_of(error).mends
        raise NotOpened((rejected if gone else busy)(words_of(error)))

    async def look_again(self, name: str) -> None:
        """Ask where the partitions of a topic are. Those who ask at once share an answer. Raises
        NotOpened."""
        asked_at = self._now()
        async with self._asking:
            known = self._topics.get(name)
            if known is not None and known.read_at > asked_at:
                return
            answer = await self.ask(MetadataRequest([name], allow_auto_topic_creation=False))
            try:
                self._learn(answer)
            except (TypeError, ValueError):
                raise NotOpened(away(_NOT_KAFKA)) from None

    async def ask(self, request: Any) -> Any:
        """Ask whichever node is there. Raises NotOpened."""
        node = next((one for one in self._connections.values() if one.connected()), None)
        if node is None:
            node = await self._open(places(self._access.connection))
        try:
            return await node.ask(request)
        except KafkaConnectionError:
            raise NotOpened(away(_CLOSED)) from None
        except KafkaError:
            raise NotOpened(away(_NOT_KAFKA)) from None

    async def leader(self, name: str, partition: int) -> KafkaConnection | None:
        """A connection to the node that leads a partition; None if none does for now. Raises NotOpened."""
        topic = self._topics.get(name)
        leader = -1 if topic is None else topic.leaders.get(partition, -1)
        if leader not in self._nodes:
            return None
        place = self._nodes[leader]
        if place is None:
            raise NotOpened(rejected("the cluster names a node whose address cannot be read"))
        where = (place.host, place.port)
        async with self._opening.setdefault(where, asyncio.Lock()):
            known = self._connections.get(where)
            return known if known is not None and known.connected() else await self._open((place,))

    async def close(self) -> None:
        """Leave every node."""
        self.closed = True
        leaving = [connection.leave() for connection in self._connections.values()]
        self._connections.clear()
        with contextlib.suppress(OSError, TimeoutError, KafkaError):
            async with asyncio.timeout(OPEN_SECONDS):
                await asyncio.gather(*leaving)

    def _learn(self, answer: Any) -> None:
        now = self._now()
        self._nodes = {node: _place(host, port) for node, host, port, *_ in answer.brokers}
        for error, name, _, partitions in answer.topics:
            leaders = {number: leader for _, number, leader, *_ in partitions}
            self._topics.pop(name, None)
            self._topics[name] = Topic(error or (0 if leaders else NO_LEADER), leaders, now)
        self._forget()

    def _forget(self) -> None:
        """Forget the oldest topics when there are too many, and nodes that the cluster no longer names."""
        known = sum(max(1, len(topic.leaders)) for topic in self._topics.values())
        while known > _PARTITIONS_KNOWN and len(self._topics) > 1:
            oldest = self._topics.pop(next(iter(self._topics)))
            known -= max(1, len(oldest.leaders))
        named = {(place.host, place.port) for place in self._nodes.values() if place is not None}
        named |= {(place.host, place.port) for place in places(self._access.connection)}
        for where in self._connections.keys() - named:
            if not self._connections[where].asked:
                self._connections.pop(where).close()
        self._opening = {
            where: lock for where, lock in self._opening.items() if where in named or lock.locked()
        }

    async def _open(self, hosts: Collection[TargetUrl]) -> KafkaConnection:
        if self.closed:
            raise NotOpened(away("the connection was given up"))
        opened = await first_open(self._access.dialer, tuple(hosts), self._connect)
        if self.closed:  # meanwhile
            await opened.leave()
            raise NotOpened(away("the connection was given up"))
        return opened

    async def _connect(self, place: TargetUrl, address: str) -> KafkaConnection:
        node = KafkaConnection(self._access, place, address)
        try:
            await node.connect()
        except SaslAuthenticationFailed:
            raise NotOpened(_not_let_in("the user or the password is wrong")) from None
        except (UnsupportedSaslMechanismError, IllegalSaslStateError):
            mechanism = self._access.connection.mechanism
            raise NotOpened(_not_let_in(f"it does not let users in by {mechanism}")) from None
        except KafkaConnectionError as error:
            if isinstance(error.__cause__, MAKES_NO_SENSE):
                raise NotOpened(away(_NOT_KAFKA)) from None
            cause = error.__cause__
            raise (cause if isinstance(cause, OSError) else ConnectionResetError()) from None
        except OSError:  # among them a certificate that is not trusted, which is a ValueError, too
            raise
        except (KafkaError, *MAKES_NO_SENSE):
            raise NotOpened(away(_NOT_KAFKA)) from None
        where = (place.host, place.port)
        before = self._connections.pop(where, None)
        self._connections[where] = node
        if before is not None:
            before.close()
        return node

    @staticmethod
    def _now() -> float:
        return asyncio.get_running_loop().time()


def _place(host: str | None, port: int) -> TargetUrl | None:
    host = host or ""
    try:
        return read_place(f"[{host}]:{port}" if ":" in host else f"{host}:{port}", _PORT, "addresses")
    except Refused:
        return None


def _not_let_in(reason: str) -> Outcome:
    return Outcome(Verdict.REJECTED, f"the broker did not let us in: {reason}")
