"""One pulse a second for all listeners, whatever their number: two statements, while there is a listener.

A listener hears of its own tenant only, and of the fleet if it is an operator's. What ended is read with an
overlap, since a row may be committed a moment after its end was noted; what was told already is not told
again. A listener that does not keep up misses pulses, never memory.
"""

import asyncio
from itertools import count
from typing import Any, Final

import msgspec
import structlog

from tocsin.clock import Clock
from tocsin.db.patience import patient_for
from tocsin.db.pool import acting_for
from tocsin.domain.errors import Unavailable
from tocsin.domain.fleet_changes import Fleet, Moved, NodeChange, moved, node_changes
from tocsin.domain.ids import ExecutionKey
from tocsin.domain.instant import SECOND, Instant
from tocsin.store.leases import LeaseStore
from tocsin.store.operations import OperationStore
from tocsin.store.stats import StatsStore

_EVERY: Final = 1.0  # seconds
_OVERLAP: Final = 3 * SECOND
_MOST: Final = 51  # of a tenant's executions in a pulse; one more than are shown says that there are more
_MOST_UNHEARD: Final = 5  # pulses that wait for a slow listener
_log = structlog.get_logger()


class FleetNews(msgspec.Struct, frozen=True):
    """What changed in the fleet, and the names of all nodes that it is about."""

    at: Instant
    nodes: list[NodeChange]
    moved: list[Moved]
    names: dict[int, str]


class Beat(msgspec.Struct, frozen=True):
    """When it was, the rows of what ended, oldest first, and of operations that moved, and what changed in
    the fleet."""

    now: Instant
    ended: list[Any]
    operations: list[Any]
    fleet: FleetNews | None = None


class Listener:
    """One stream's end of the pulse."""

    def __init__(self, tenant_id: int, *, operator: bool = False) -> None:
        self.tenant_id = tenant_id
        self.operator = operator
        self.beats: asyncio.Queue[Beat | None] = asyncio.Queue(_MOST_UNHEARD)

    def tell(self, beat: Beat | None) -> None:
        """Hand a pulse over; the oldest goes if the listener is too slow. None ends it."""
        if self.beats.full():
            self.beats.get_nowait()
        self.beats.put_nowait(beat)


class Pulse:
    """Beats while there is a listener."""

    def __init__(
        self, stats: StatsStore, operations: OperationStore, leases: LeaseStore, clock: Clock
    ) -> None:
        self._stats = stats
        self._operations = operations
        self._leases = leases
        self._fleet: Fleet | None = None
        self._moved: dict[int, Instant] = {}
        self._clock = clock
        self._listeners: set[Listener] = set()
        self._told: dict[ExecutionKey, Instant] = {}
        self._beating: asyncio.Task[None] | None = None
        self._stopped = False

    def listen(self, tenant_id: int, *, operator: bool = False) -> Listener:
        """Begin to listen. With the first listener the pulse begins."""
        listener = Listener(tenant_id, operator=operator)
        if self._stopped:
            listener.tell(None)
            return listener
        self._listeners.add(listener)
        if self._beating is None or self._beating.done():
            with patient_for(None):  # it outlives the request that began it
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
        for number in count():
            if not self._listeners or self._stopped:
                return
            now = self._clock.now()
            try:
                news = await self._news(now)
                # By turns, so that a second has two statements.
                operated = await self._operations_moved(now) if number % 2 else {}
                fleet = None if number % 2 else await self._fleet_news()
            except Unavailable as error:
                _log.warning("pulse.missed", error=str(error))
            except Exception:  # noqa: BLE001 - a defect that one row shows must not silence every stream
                _log.exception("pulse.failed")
            else:
                for one in tuple(self._listeners):
                    ended, operations = news.get(one.tenant_id, []), operated.get(one.tenant_id, [])
                    one.tell(Beat(now, ended, operations, fleet if one.operator else None))
            await asyncio.sleep(_EVERY)

    async def _fleet_news(self) -> FleetNews | None:
        """What changed in the fleet since it was looked at last, which is while an operator listens."""
        if not any(listener.operator for listener in self._listeners):
            self._fleet = None
            return None
        before, self._fleet = self._fleet, await self._leases.fleet()
        if before is None:
            return None
        nodes = list(node_changes(before.nodes, self._fleet.nodes))
        leases = moved(before.shards, self._fleet.shards)
        names = {node_id: node.name for node_id, node in (before.nodes | self._fleet.nodes).items()}
        return FleetNews(self._fleet.at, nodes, leases, names) if nodes or leases else None

    async def _operations_moved(self, now: Instant) -> dict[int, list[Any]]:
        """Operations that moved since the pulse before, by tenant."""
        tenants = sorted({listener.tenant_id for listener in self._listeners})
        with acting_for(*tenants):
            rows = await self._operations.changed_since(tenants, now - _OVERLAP)
        found: dict[int, list[Any]] = {}
        for row in rows:
            if self._moved.get(row["id"]) != row["updated_at"]:
                found.setdefault(row["tenant_id"], []).append(row)
        self._moved = {row["id"]: row["updated_at"] for row in rows}
        return found

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
