"""One pulse a second for everybody who listens, whatever their number: one statement, while somebody does.

A listener hears of its own tenant only. What ended is read with an overlap, since a row may be committed a moment after
its end was noted; what was told already is not told again. A listener that does not keep up misses pulses, never memory.
"""

import asyncio
from typing import Any, Final

import structlog

from tocsin.clock import Clock
from tocsin.db.pool import acting_for
from tocsin.domain.errors import Unavailable
from tocsin.domain.ids import ExecutionKey
from tocsin.domain.instant import SECOND, Instant
from tocsin.store.stats import StatsStore

_EVERY: Final = 1.0  # seconds
_OVERLAP: Final = 3 * SECOND
_MOST: Final = 51  # of a tenant's executions in a pulse; one more than are shown says that there are more
_MOST_UNHEARD: Final = 5  # pulses that wait for a slow listener
_log = structlog.get_logger()

Beat = tuple[Instant, list[Any]]
"""When it was, and the rows of what ended, oldest first."""


class Listener:
    """One stream's end of the pulse."""

    def __init__(self, tenant_id: int) -> None:
        self.tenant_id = tenant_id
        self.beats: asyncio.Queue[Beat | None] = asyncio.Queue(_MOST_UNHEARD)

    def tell(self, beat: Beat | None) -> None:
        """Hand a pulse over; the oldest goes if the listener is too slow. None ends it."""
        if self.beats.full():
            self.beats.get_nowait()
        self.beats.put_nowait(beat)


class Pulse:
    """Beats while somebody listens."""

    def __init__(self, stats: StatsStore, clock: Clock) -> None:
        self._stats = stats
        self._clock = clock
        self._listeners: set[Listener] = set()
        self._told: dict[ExecutionKey, Instant] = {}
        self._beating: asyncio.Task[None] | None = None
        self._stopped = False

    def listen(self, tenant_id: int) -> Listener:
        """Begin to listen. With the first listener the pulse begins."""
        listener = Listener(tenant_id)
        if self._stopped:
            listener.tell(None)
            return listener
        self._listeners.add(listener)
        if self._beating is None or self._beating.done():
            self._beating = asyncio.create_task(self._beat(), name="pulse")
        return listener

    def leave(self, listener: Listener) -> None:
        """Listen no more."""
        self._listeners.discard(listener)

    def stop(self) -> None:
        """End every stream at once: the process is told to stop."""
        self._stopped = True
        for listener in self._listeners:
            listener.tell(None)

    async def _beat(self) -> None:
        while self._listeners and not self._stopped:
            now = self._clock.now()
            try:
                news = await self._news(now)
            except Unavailable as error:
                _log.warning("pulse.missed", error=str(error))
            else:
                for listener in tuple(self._listeners):
                    listener.tell((now, news.get(listener.tenant_id, [])))
            await asyncio.sleep(_EVERY)

    async def _news(self, now: Instant) -> dict[int, list[Any]]:
        """What ended since the pulse before, by tenant."""
        tenants = sorted({listener.tenant_id for listener in self._listeners})
        with acting_for(*tenants):
            rows = await self._stats.ended_since(tenants, now - _OVERLAP, _MOST)
        self._told = {key: at for key, at in self._told.items() if at > now - 4 * _OVERLAP}
        news: dict[int, list[Any]] = {}
        for row in sorted(rows, key=lambda row: row["finished_at"]):
            key = ExecutionKey(row["job_id"], row["fire_at"])
            if self._told.get(key) != row["finished_at"]:
                self._told[key] = row["finished_at"]
                news.setdefault(row["tenant_id"], []).append(row)
        return news
