"""Which connection carries the next request, how many there may be, and for how long.

A request first gets a place in the line of its origin (scheme, host, port, and the TLS context if it brings
one, so that no call goes out on a connection that was made with another certificate), then in the line of the
whole client. Both lines serve tenants in turn, so a slow target holds up only its own calls, and no tenant
alone fills a line. A request with a place takes an idle connection of that origin or opens a new one. Idle
connections are reused newest first, so that the surplus ages when traffic falls; the oldest of all goes first
when there are too many, and each goes after `idle_seconds`.

Time passes in one tick for all connections. A timer of its own for each request (`asyncio.timeout` takes 5.5
µs on uvloop) would cost as much as reading the answer does; so deadlines are kept to the next tick, never
early.

Invariant: a connection is idle here, or in the hands of exactly one caller, or closed.
"""

import asyncio
import ssl
from collections import OrderedDict, deque
from typing import Final

from tocsin.domain.addresses import TargetUrl
from tocsin.targets.http.connection import HttpConnection
from tocsin.targets.http.exchange import HttpLimits

TICK_SECONDS: Final = 0.05


class Line:
    """At most `places` callers at once; of the others each tenant has a turn, and its first come is its first
    served."""

    __slots__ = ("_free", "_waiting")

    def __init__(self, places: int) -> None:
        self._free = places
        self._waiting: OrderedDict[int, deque[asyncio.Future[None]]] = OrderedDict()

    def enter_now(self) -> bool:
        """Take a place if one is free and no call waits for it."""
        if self._free == 0:
            return False
        self._free -= 1
        return True

    async def enter(self, tenant_id: int = 0) -> None:
        """Take a place, waiting for it if need be."""
        if self.enter_now():
            return
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(tenant_id, deque()).append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            if turn.cancelled():
                self._forget(tenant_id, turn)
            else:
                self.leave()  # the place came in the same moment; pass it on
            raise

    def leave(self) -> None:
        """Give the place to the tenant whose turn it is; it is free only when no call waits."""
        while self._waiting:
            tenant_id, turns = self._waiting.popitem(last=False)
            turn = turns.popleft()
            if turns:
                self._waiting[tenant_id] = turns  # behind the other tenants
            if not turn.done():
                turn.set_result(None)
                return
        self._free += 1

    def _forget(self, tenant_id: int, turn: "asyncio.Future[None]") -> None:
        turns = self._waiting.get(tenant_id)
        if turns is not None and turn in turns:
            turns.remove(turn)
            if not turns:
                del self._waiting[tenant_id]


OriginKey = tuple[str, str, int, ssl.SSLContext | None]


class Origin:
    """One target server: its line and its idle connections. Lives while it has callers or idle
    connections."""

    __slots__ = ("callers", "idle", "key", "line")

    def __init__(self, key: OriginKey, places: int) -> None:
        self.key: Final = key
        self.line: Final = Line(places)
        self.idle: Final[list[HttpConnection]] = []
        self.callers = 0


class HttpPool:
    """The connections of one client, on one event loop."""

    def __init__(self, limits: HttpLimits) -> None:
        self.closed = False
        self._limits = limits
        self._line = Line(limits.connections)
        self._origins: dict[OriginKey, Origin] = {}
        self._open: set[HttpConnection] = set()
        self._idle: OrderedDict[HttpConnection, tuple[Origin, float]] = OrderedDict()
        """Every idle connection with the time it became idle, oldest first."""
        self._ticker: asyncio.TimerHandle | None = None

    def enter_now(self, url: TargetUrl, tls: ssl.SSLContext | None = None) -> Origin | None:
        """A place in both lines if that needs no waiting. A caller that got one must `leave`."""
        origin = self._origin_of(url, tls)
        if origin.line.enter_now():
            if self._line.enter_now():
                origin.callers += 1
                return origin
            origin.line.leave()
        return None

    async def enter(self, url: TargetUrl, tls: ssl.SSLContext | None = None, tenant_id: int = 0) -> Origin:
        """A place in both lines, when it is the tenant's turn. A caller that got one must `leave`."""
        origin = self._origin_of(url, tls)
        origin.callers += 1
        try:
            await origin.line.enter(tenant_id)
            try:
                await self._line.enter(tenant_id)
            except BaseException:
                origin.line.leave()
                raise
        except BaseException:
            self._uncount(origin)
            raise
        return origin

    def leave(self, origin: Origin) -> None:
        """Give the place back."""
        self._line.leave()
        origin.line.leave()
        self._uncount(origin)

    def take_idle(self, origin: Origin) -> HttpConnection | None:
        """An idle connection that is still good as far as the kernel knows."""
        while origin.idle:
            connection = origin.idle.pop()
            del self._idle[connection]
            if connection.is_quiet():
                return connection
            connection.abort()
        return None

    def adopt(self, connection: HttpConnection) -> None:
        """Watch over a new connection until it is lost."""
        self._open.add(connection)
        connection.lost.add_done_callback(lambda _: self._drop(connection))
        if self.closed:
            connection.abort()
        elif self._ticker is None:
            self._ticker = asyncio.get_running_loop().call_later(TICK_SECONDS, self._tick)

    def keep(self, origin: Origin, connection: HttpConnection) -> None:
        """Put a connection aside for the next request, or close it if it cannot carry one."""
        now = asyncio.get_running_loop().time()
        if self.closed or not connection.reusable or now - connection.since > self._limits.connection_seconds:
            connection.close()
            return
        origin.idle.append(connection)
        self._idle[connection] = (origin, now)
        if len(self._idle) > self._limits.idle_connections:
            self._close_oldest()

    async def close(self) -> None:
        """End every connection, idle or not, and wait until the last one is gone."""
        self.closed = True
        if self._ticker is not None:
            self._ticker.cancel()
        connections = list(self._open)
        for connection in connections:
            connection.abort()
        await asyncio.gather(*(connection.lost for connection in connections))

    def _tick(self) -> None:
        loop = asyncio.get_running_loop()
        now = loop.time()
        for connection in self._open:
            connection.expire(now)
        while self._idle:
            _, since = next(iter(self._idle.values()))
            if now - since < self._limits.idle_seconds:
                break
            self._close_oldest()
        self._ticker = loop.call_later(TICK_SECONDS, self._tick) if self._open else None

    def _close_oldest(self) -> None:
        connection, (origin, _) = self._idle.popitem(last=False)
        origin.idle.remove(connection)
        connection.close()
        self._forget_if_unused(origin)

    def _drop(self, connection: HttpConnection) -> None:
        self._open.discard(connection)
        if (entry := self._idle.pop(connection, None)) is not None:
            origin, _ = entry
            origin.idle.remove(connection)
            self._forget_if_unused(origin)

    def _origin_of(self, url: TargetUrl, tls: ssl.SSLContext | None) -> Origin:
        key = (url.scheme, url.host, url.port, tls)
        origin = self._origins.get(key)
        if origin is None:
            origin = self._origins[key] = Origin(key, self._limits.connections_per_origin)
        return origin

    def _uncount(self, origin: Origin) -> None:
        origin.callers -= 1
        self._forget_if_unused(origin)

    def _forget_if_unused(self, origin: Origin) -> None:
        if not origin.callers and not origin.idle:
            self._origins.pop(origin.key, None)
