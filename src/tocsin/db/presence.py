"""Whether the database is there, and which server it is: one answer for all pools of a process.

*There* is the normal state and costs nothing. A call that has waited for a second makes us look: we connect
anew, to whichever host is the primary now. If the same server answers, it is only slow, and the call goes on
waiting. If another one does, the database has moved: whatever leads to the old server is closed, its callers
hear of it and try again. If no host does, and no other call was answered meanwhile, the database is *away*.

While it is away every call fails at once instead of waiting, all connections are closed, and this process
alone tries the hosts, again and again, until one of them is a writable primary. Then the parts that asked for
it (`on_back`) are woken.

A server that turned read-only under us, or that cannot be connected to, is away at once.
"""

import asyncio
from collections.abc import Callable
from time import monotonic
from typing import Final
from weakref import WeakSet

import asyncpg
import structlog

from tocsin.db.connection import Connection, open_on
from tocsin.db.hosts import hosts_of, in_order
from tocsin.db.reaching import reach, reach_at_last
from tocsin.db.trouble import LOGIN_REFUSED
from tocsin.domain.errors import Refused, Unavailable

LOOK_AFTER: Final = 1.0
"""Seconds that a call waits before we look whether the server is still there."""
_LOOKING: Final = {"application_name": "tocsin look"}
# Errors of a server that is there, though not for one more connection.
_THERE: Final = (asyncpg.TooManyConnectionsError, *LOGIN_REFUSED)
_log = structlog.get_logger()


class Presence:
    """What a process knows about its database. Make one per process and URL, and open everything over it."""

    def __init__(self, url: str) -> None:
        self.hosts = hosts_of(url)
        self._good: int | None = None
        self._connections: WeakSet[Connection] = WeakSet()
        self._calls: dict[int, float] = {}
        self._call = 0
        self._answered_at = 0.0
        self._away: str | None = None
        self._away_since = 0.0
        self._users = 0
        self._timer: asyncio.TimerHandle | None = None
        self._looking: asyncio.Task[None] | None = None
        self._recovering: asyncio.Task[None] | None = None
        self._there = asyncio.Event()
        self._there.set()
        self._wakes: list[Callable[[], None]] = []
        self._hears: Callable[[float, bool], None] | None = None

    def on_back(self, wake: Callable[[], None]) -> None:
        """Call `wake` when the database is there again, or has moved."""
        self._wakes.append(wake)

    def on_call(self, hear: Callable[[float, bool], None]) -> None:
        """Tell `hear` of each call that is over: how many seconds it took, and whether it was answered."""
        self._hears = hear

    def use(self) -> None:
        """A pool is opened over this."""
        self._users += 1

    def leave(self) -> None:
        """A pool is closed. Without one the database is not looked for."""
        self._users -= 1
        if self._users <= 0:
            self._settle()
            self._close_all()

    def refuse_if_away(self) -> None:
        """Fail at once while the database is known to be away."""
        if self._away is not None:
            raise Unavailable("the database is not available", why=self._away)

    async def wait_until_there(self) -> None:
        await self._there.wait()

    def began(self) -> int:
        """A call begins to wait for the server. Returns its number."""
        self._call += 1
        self._calls[self._call] = monotonic()
        if self._timer is None:
            self._watch(LOOK_AFTER)
        return self._call

    def ended(self, call: int, *, answered: bool) -> None:
        """The call is over. If it was answered, the server is there."""
        began, now = self._calls.pop(call), monotonic()
        if answered:
            self._answered_at = now
        if self._hears is not None:
            self._hears(now - began, answered)

    async def connect(
        self, settings: dict[str, str], *, command_timeout: float, starting: bool = False
    ) -> Connection:
        """A new connection to the primary. If there is none, the database is away."""
        self.refuse_if_away()

        async def attempt(number: int) -> Connection:
            connection = await open_on(
                self.hosts[number], settings, command_timeout=command_timeout, starting=starting
            )
            self._good = number
            return connection

        until = monotonic() + (command_timeout if starting else 0.0)
        while True:
            began = monotonic()
            try:
                connection = await reach(in_order(len(self.hosts), self._good), attempt)
            except TimeoutError as error:
                # Where another call was answered meanwhile, the server is only busy; at the start it is
                # impossible to tell.
                if self._answered_at < began and monotonic() >= until:
                    self._lose("no host answered")
                    raise Unavailable("the database did not answer", why="no host answered") from error
            except Unavailable as error:
                if self._answered_at < began and not isinstance(error.__cause__, _THERE):
                    self._lose(str(error))
                raise
            else:
                self._connections.add(connection)
                self._leave_others(connection.server)
                return connection

    def turned_read_only(self, connection: Connection) -> None:
        """The server behind this connection cannot be written to any more; so it is behind all others to
        it."""
        self._lose("the server turned read-only")
        connection.terminate()

    def look(self) -> None:
        """Find out whether the server is there, unless that is under way."""
        if self._looking is None and self._away is None and self._users > 0:
            self._looking = asyncio.get_running_loop().create_task(self._look())

    async def _look(self) -> None:
        try:
            (await self.connect(_LOOKING, command_timeout=LOOK_AFTER)).terminate()
        except (Unavailable, Refused):
            pass  # `connect` has drawn the conclusions
        finally:
            self._looking = None

    def _watch(self, seconds: float) -> None:
        self._timer = asyncio.get_running_loop().call_later(seconds, self._look_at_calls)

    def _look_at_calls(self) -> None:
        """Look if the oldest call has waited for long; come back while there are calls."""
        self._timer = None
        if not self._calls:
            return
        waited = monotonic() - next(iter(self._calls.values()))
        if waited >= LOOK_AFTER:
            self.look()
        self._watch(LOOK_AFTER if waited >= LOOK_AFTER else LOOK_AFTER - waited)

    def _lose(self, why: str) -> None:
        """The database is away: calls do not wait for it, and we alone try to find it."""
        if self._away is not None or self._users <= 0:
            return
        self._away, self._away_since = why, monotonic()
        self._there.clear()
        _log.warning("database.unavailable", error=why)
        self._close_all()
        self._recovering = asyncio.get_running_loop().create_task(self._recover())

    async def _recover(self) -> None:
        async def attempt(number: int) -> Connection:
            connection = await open_on(
                self.hosts[number], _LOOKING, command_timeout=LOOK_AFTER, starting=False
            )
            self._good = number
            return connection

        (await reach_at_last(len(self.hosts), attempt)).terminate()
        away_for = monotonic() - self._away_since
        _log.info("database.back", host=self.hosts[self._good or 0].name, away_seconds=round(away_for, 2))
        self._recovering = None
        self._settle()
        self._wake()

    def _leave_others(self, server: int) -> None:
        """Close what leads to a server that is not the primary any more."""
        others = [connection for connection in self._connections if connection.server != server]
        if left := [connection for connection in others if not connection.is_closed()]:
            _log.info("database.moved", host=self.hosts[self._good or 0].name, connections=len(left))
            for connection in left:
                connection.terminate()
            self._wake()

    def _close_all(self) -> None:
        for connection in tuple(self._connections):
            connection.terminate()

    def _settle(self) -> None:
        """Count the database as there."""
        self._away = None
        self._there.set()
        for task in (self._recovering, self._looking):
            if task is not None:
                task.cancel()
        self._recovering = None
        if self._timer is not None and not self._users > 0:
            self._timer.cancel()
            self._timer = None

    def _wake(self) -> None:
        for wake in self._wakes:
            wake()
