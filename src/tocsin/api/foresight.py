"""The load of each tenant's coming day, as creations look at it.

The creator of a single recurring job is told if the job joins a peak. For that a process asks the database
once in ten seconds for each tenant, however many jobs are created: they share one look. Creations wait a
tenth of a second for it at most, and none fails with it: what is not known by then is not said.
"""

import asyncio
from collections import OrderedDict
from typing import Final

import msgspec

from tocsin.clock import Clock
from tocsin.db.patience import patient_for
from tocsin.domain.errors import Unavailable
from tocsin.domain.forecast import Load, peaks
from tocsin.domain.instant import DAY, MINUTE
from tocsin.store.forecasts import ForecastStore

_FRESH_S: Final = 10.0
_PATIENCE_S: Final = 0.1
_MOST_REMEMBERED: Final = 1_000


class Day(msgspec.Struct, frozen=True):
    """A load, and the places of its peaks, the highest first."""

    load: Load
    peaks: list[int]


_UNKNOWN: Final = Day(Load(0, []), [])


class Foresight:
    """Coming days, by tenant."""

    def __init__(self, store: ForecastStore, clock: Clock) -> None:
        self._store = store
        self._clock = clock
        self._days: OrderedDict[int, tuple[float, Day]] = OrderedDict()
        self._looks: dict[int, tuple[float, asyncio.Task[None]]] = {}

    async def day(self, tenant_id: int) -> Day:
        """The tenant's coming day; without peaks if it is not known in time."""
        now = self._clock.monotonic()
        fresh_until, day = self._days.get(tenant_id, (0.0, _UNKNOWN))
        if now < fresh_until:
            return day
        if tenant_id not in self._looks:
            with patient_for(None):  # it outlives the request that began it
                self._looks[tenant_id] = now + _PATIENCE_S, asyncio.create_task(self._look(tenant_id))
        patient_until, look = self._looks[tenant_id]
        if now < patient_until:
            await asyncio.wait((look,), timeout=patient_until - now)
        return self._days.get(tenant_id, (0.0, _UNKNOWN))[1]

    async def _look(self, tenant_id: int) -> None:
        day = _UNKNOWN
        try:
            now = self._clock.now()
            load = await self._store.load(tenant_id, now - now % MINUTE, DAY // MINUTE, None)
            day = Day(load, peaks(load))
        except Unavailable:
            pass  # creations have their own way of saying so
        finally:
            del self._looks[tenant_id]
            self._days[tenant_id] = (self._clock.monotonic() + _FRESH_S, day)
            self._days.move_to_end(tenant_id)
            if len(self._days) > _MOST_REMEMBERED:
                self._days.popitem(last=False)
