"""Redis streams: a message counts as published when XADD answers with the entry's id.

A batch is one write and as many answers. Redis drops no duplicates: after a lost answer the entry may be
there twice, with the same idempotency key. A cluster says where a stream lives (`MOVED`), or is going to
(`ASK`); that host is checked like any other before it is called, and the former is remembered. Without a
cluster only a primary is written to: of several addresses, the first that greets us as one.
"""

import asyncio
from collections.abc import Sequence
from typing import Any, Final, cast

from redis.asyncio.connection import Connection
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.crc import REDIS_CLUSTER_HASH_SLOTS, key_slot
from redis.exceptions import (
    AskError,
    AuthenticationError,
    BusyLoadingError,
    ClusterDownError,
    InvalidResponse,
    MasterDownError,
    MovedError,
    NoPermissionError,
    OutOfMemoryError,
    ReadOnlyError,
    RedisError,
    ResponseError,
    TryAgainError,
)
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import TimeoutError as RedisTimeoutError

from tocsin.domain.addresses import TargetUrl
from tocsin.domain.connection import places, read_place
from tocsin.domain.errors import Refused
from tocsin.domain.message_target import RedisTarget
from tocsin.domain.outcome import Outcome, Postponed, Verdict
from tocsin.targets.message.broker import Access, NotOpened
from tocsin.targets.message.message import Parcel, busy, rejected
from tocsin.targets.message.opening import OPEN_SECONDS, WrongServer, first_open

_PORT: Final = 6379
_MOVES_FOLLOWED: Final = 3
_NODES: Final = 1000
"""As many as a cluster should have. One that names more is left, and asked anew where its streams are."""
_REPLICA_WAIT_MS: Final = 2000
_BUSY: Final = (BusyLoadingError, ClusterDownError, MasterDownError, OutOfMemoryError, TryAgainError)
_PASSING: Final = ("BUSY ", "MISCONF ", "NOREPLICAS ")
"""Errors for which the client has no class, of a server that may take the message later: a script runs for
long, the disk is full, too few replicas are there."""
_Where = tuple[str, int]


class _CheckedConnection(Connection):
    """Connects to the address that was checked, and expects the certificate of the name."""

    def __init__(self, access: Access, place: TargetUrl, address: str) -> None:
        self._to = {"host": address, "port": place.port, "ssl": access.tls}
        if access.tls is not None:
            self._to["server_hostname"] = access.server_name(place.host)
        super().__init__(
            host=address,
            port=place.port,
            username=access.connection.username,
            password=access.password,
            socket_connect_timeout=OPEN_SECONDS,
            socket_timeout=None,  # a publisher knows for how long its messages may wait
            retry=Retry(NoBackoff(), 0),
            protocol=2,  # the later one brings notices that send clients to other hosts
            driver_info=None,
        )

    def _connection_arguments(self) -> dict[str, Any]:
        return self._to


class RedisBroker:
    """Connections to one Redis, or to the nodes of one cluster."""

    def __init__(self, access: Access) -> None:
        self._access = access
        self._nodes: dict[_Where | None, Connection] = {}
        """By place; None is the one that the connection's own addresses lead to."""
        self._homes: dict[int, _Where] = {}
        """Where slots of a cluster were said to be."""
        self._locks: dict[_Where | None, asyncio.Lock] = {}
        self.lost = False

    async def open(self) -> None:
        """Connect to the first address that answers."""
        self._nodes[None] = await first_open(
            self._access.dialer, places(self._access.connection), self._connect
        )

    async def publish(self, parcels: Sequence[Parcel]) -> None:
        """Send each to the node that has its stream; what has moved is sent after it."""
        asked: dict[Parcel, _Where] = {}
        for _ in range(_MOVES_FOLLOWED):
            by_node: dict[_Where | None, list[Parcel]] = {}
            for parcel in parcels:
                if not parcel.ended.done():
                    by_node.setdefault(asked.get(parcel) or self._home(parcel), []).append(parcel)
            if not by_node:
                return
            await asyncio.gather(*(self._send(where, some, asked) for where, some in by_node.items()))
            if self.lost:
                return
        for parcel in parcels:
            parcel.end(busy("the stream keeps moving between nodes"))

    async def close(self) -> None:
        """Leave every node."""
        self.lost = True
        for connection in self._nodes.values():
            try:
                async with asyncio.timeout(OPEN_SECONDS):
                    await connection.disconnect(nowait=True)
            except (RedisError, OSError, TimeoutError):
                continue

    def _home(self, parcel: Parcel) -> _Where | None:
        if not self._homes:
            return None
        stream = cast("RedisTarget", parcel.message.target).stream
        return self._homes.get(key_slot(stream.encode()))

    async def _send(self, where: _Where | None, parcels: list[Parcel], asked: dict[Parcel, _Where]) -> None:
        """One batch at a time to one node: answers have no names."""
        outcomes: Sequence[Outcome | Postponed | None]
        async with self._locks.setdefault(where, asyncio.Lock()):
            try:
                outcomes = await self._exchange(await self._node(where), parcels, asked)
            except NotOpened as error:
                outcomes = [error.outcome] * len(parcels)
            except (RedisConnectionError, RedisTimeoutError, OSError):
                self.lost = True  # what has not ended is lost
                return
            for parcel, outcome in zip(parcels, outcomes, strict=True):
                if outcome is not None:
                    parcel.end(outcome)

    async def _exchange(
        self, node: Connection, parcels: list[Parcel], asked: dict[Parcel, _Where]
    ) -> list[Outcome | None]:
        """One write, then its answers in order. `asked` says for which of them another node sent us here,
        this once, while their stream is moving."""
        connection = self._access.connection
        asking = [asked.pop(parcel, None) is not None for parcel in parcels]
        commands: list[tuple[Any, ...]] = []
        for parcel, is_asking in zip(parcels, asking, strict=True):
            commands += [("ASKING",)] if is_asking else []
            commands.append(_command(parcel, creates=connection.creates_streams))
        if connection.replicas:
            commands.append(("WAIT", connection.replicas, _REPLICA_WAIT_MS))
        await node.send_packed_command(node.pack_commands(commands), check_health=False)
        outcomes = []
        for parcel, is_asking in zip(parcels, asking, strict=True):
            if is_asking:
                await self._outcome(node, parcel, asked)  # of ASKING; what follows says the same
            outcomes.append(await self._outcome(node, parcel, asked))
        reached = await _reached(node) if connection.replicas else 0
        return [_with_replicas(outcome, reached, connection.replicas) for outcome in outcomes]

    async def _node(self, where: _Where | None) -> Connection:
        if (known := self._nodes.get(where)) is not None:
            return known
        if len(self._locks) > _NODES:
            self.lost = True
            raise NotOpened(busy("the cluster has named too many nodes"))
        host, port = cast("_Where", where)
        try:
            place = read_place(f"[{host}]:{port}" if ":" in host else f"{host}:{port}", _PORT, "addresses")
        except Refused:
            raise NotOpened(rejected("the cluster names a node whose address cannot be read")) from None
        self._nodes[where] = await first_open(self._access.dialer, (place,), self._connect)
        return self._nodes[where]

    async def _outcome(self, node: Connection, parcel: Parcel, asked: dict[Parcel, _Where]) -> Outcome | None:
        """What one answer means; None if another node has the stream now, or may be asked for it."""
        try:
            answer = await node.read_response()
        except MovedError as moved:
            if 0 <= moved.slot_id < REDIS_CLUSTER_HASH_SLOTS:
                self._homes[moved.slot_id] = (moved.host or node.host, moved.port)
            return None
        except AskError as moving:
            asked[parcel] = (moving.host or node.host, moving.port)
            return None
        except _BUSY as error:
            return busy(str(error))
        except AuthenticationError:
            self.lost = True
            return rejected("the server asks for a password")
        except ReadOnlyError:
            self.lost = True  # no longer the primary: connect anew, to the one that is
            return busy("the server is a replica")
        except NoPermissionError:
            return rejected("not allowed to add to this stream")
        except ResponseError as error:
            return (busy if str(error).startswith(_PASSING) else rejected)(str(error))
        if answer is None:
            return rejected("there is no such stream")
        return Outcome(Verdict.SUCCEEDED, detail={"id": answer.decode()})

    async def _connect(self, place: TargetUrl, address: str) -> Connection:
        connection = _CheckedConnection(self._access, place, address)
        try:
            await connection.connect()  # type: ignore[no-untyped-call]
            await _greet(connection)
        except BaseException as error:
            await connection.disconnect(nowait=True)
            match error:
                case AuthenticationError() if self._access.password is None:
                    raise _not_let_in("it asks for a password") from None
                case AuthenticationError() | NoPermissionError() | ResponseError():
                    raise _not_let_in(str(error)) from None
                case InvalidResponse():
                    raise WrongServer("it does not answer as Redis does") from None
                case RedisConnectionError() | RedisTimeoutError():
                    raise _cause(error) from None
            raise
        return connection


async def _greet(connection: Connection) -> None:
    """Have the server say what it is: to connect is not to be let in, or to be served. Every user may ask."""
    await connection.send_command("HELLO", 2)
    answer = await connection.read_response()
    if not isinstance(answer, list):
        raise WrongServer("it does not answer as Redis does")
    facts = dict(zip(answer[::2], answer[1::2], strict=False))
    if facts.get(b"role") == b"replica" and facts.get(b"mode") != b"cluster":
        raise WrongServer("it is a replica")


def _not_let_in(why: str) -> NotOpened:
    return NotOpened(Outcome(Verdict.REJECTED, f"the broker did not let us in: {why}"))


def _cause(error: Exception) -> OSError:
    """The system's error, without the address that the client's own words name."""
    while error.__cause__ or error.__context__:
        error = cast("Exception", error.__cause__ or error.__context__)
        if isinstance(error, OSError):
            return error
    return OSError(type(error).__name__)


def _command(parcel: Parcel, *, creates: bool) -> tuple[Any, ...]:
    message = parcel.message
    target = cast("RedisTarget", message.target)
    options: list[Any] = [] if creates else ["NOMKSTREAM"]
    if target.max_length is not None:
        options += ["MAXLEN", "~", target.max_length]
    fields: list[Any] = [part for pair in (target.fields | dict(message.headers)).items() for part in pair]
    return "XADD", target.stream, *options, "*", *fields, "body", message.body


async def _reached(node: Connection) -> int | None:
    """How many replicas have what was added; None if we may not ask."""
    try:
        return int(await node.read_response())
    except NoPermissionError:
        return None


def _with_replicas(outcome: Outcome | None, reached: int | None, wanted: int) -> Outcome | None:
    if outcome is None or outcome.verdict is not Verdict.SUCCEEDED:
        return outcome
    if reached is None:
        return rejected("it is added, but waiting for replicas is not allowed")
    if reached < wanted:
        return busy(f"{reached} of {wanted} replicas have the message")
    return outcome
