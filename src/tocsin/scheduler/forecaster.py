"""Keeps the forecast: how many fires each coming minute has, of the shards that this node leases.

A cycle reads the jobs of each shard by groups of equal schedules. Where the groups are what they were, only
the time of the look is noted; else the shard's fires of today and seven more days are summed up and written
anew. A cycle begins every ten minutes, or some seconds after jobs have changed; between its steps the
forecaster rests twenty times as long as a step took, and between cycles a hundred times as long as a cycle,
so that a million jobs cost no more than a hundredth of a core. Sums are made a millisecond at a time.
"""

import asyncio
from collections.abc import Sequence
from typing import Final

import structlog

from tocsin.clock import Clock
from tocsin.domain.blackout import Range
from tocsin.domain.errors import OwnershipLost, Unavailable
from tocsin.domain.forecast import Minutes, foresee
from tocsin.domain.instant import DAY, MINUTE, SECOND, Instant, Span
from tocsin.scheduler.leaser import Leases
from tocsin.service import Report
from tocsin.store.foreseeing import Foreseeing, Foreseen, ShardGroups, TenantGroup
from tocsin.telemetry import Telemetry

DAYS: Final = 8
"""Today and seven more, so that a week from now on is always known."""
_BUDGET: Final = 200_000
"""Fire times that are computed for a shard."""
_SHARDS_AT_ONCE: Final = 32
_CYCLE: Final = 10 * MINUTE
_SHORTEST_REST: Final = 5 * SECOND
_REST_AFTER_STEP: Final = 20
_REST_AFTER_CYCLE: Final = 100
_MOST_REMEMBERED: Final = 2_000
_log = structlog.get_logger()


class Forecaster:
    """Runs on every scheduler, for its own shards."""

    name = "forecaster"
    interval = 600.0

    def __init__(self, store: Foreseeing, leases: Leases, clock: Clock, telemetry: Telemetry) -> None:
        self._store = store
        self._leases = leases
        self._clock = clock
        self._telemetry = telemetry
        self._changed = False
        self._todo: list[int] = []
        self._spent: Span = 0
        self._resting_until: Instant = 0
        self._earliest: Instant = 0
        self._next_cycle: Instant = 0
        self._known: dict[int, int] = {}
        """What the groups of a shard were, as a number, when it was written last."""
        self._sums = _Sums()

    def jobs_changed(self) -> None:
        """Look again soon, instead of at the next cycle."""
        self._changed = True

    async def run_once(self, now: Instant) -> Report:
        """A step of a cycle, or the begin of one."""
        held = self._leases.trusted()
        if not held:
            self._todo, self._next_cycle = [], 0
            return Report(again_at=now + _SHORTEST_REST)
        if not self._todo and (now >= self._next_cycle or (self._changed and now >= self._earliest)):
            self._todo, self._spent, self._changed = sorted(held), 0, False
        if not self._todo:
            return Report(again_at=self._earliest if self._changed else self._next_cycle)
        if now < self._resting_until:  # woken by a notice
            return Report(again_at=self._resting_until)
        began = self._clock.monotonic()
        step, self._todo = self._todo[:_SHARDS_AT_ONCE], self._todo[_SHARDS_AT_ONCE:]
        try:
            await self._look({shard: held[shard] for shard in step if shard in held}, now)
        except Unavailable:
            self._todo = step + self._todo
            raise
        took = round((self._clock.monotonic() - began) * SECOND)
        self._spent += took
        return Report(len(step), self._rest(now, took))

    def _rest(self, now: Instant, took: Span) -> Instant:
        if self._todo:
            self._resting_until = now + _REST_AFTER_STEP * took
            return self._resting_until
        self._earliest = now + max(_SHORTEST_REST, _REST_AFTER_CYCLE * self._spent)
        self._next_cycle = max(now + _CYCLE, self._earliest)
        return self._earliest if self._changed else self._next_cycle

    async def _look(self, leases: dict[int, int], now: Instant) -> None:
        """A defect that shows with one shard leaves that one's forecast as old as it is until the next cycle:
        where a look fails, each shard is looked at alone."""
        try:
            await self._renew(leases, now)
        except (Unavailable, OwnershipLost):
            raise
        except Exception as error:  # noqa: BLE001 - see above
            if len(leases) > 1:
                for shard, epoch in leases.items():
                    await self._look({shard: epoch}, now)
                return
            _log.error("forecaster.shard_failed", shard=min(leases, default=None), exc_info=error)
            self._telemetry.part_errors.labels(self.name, "defect").inc()

    async def _renew(self, leases: dict[int, int], now: Instant) -> None:
        found = await self._store.groups(sorted(leases))
        calendars = await self._store.calendars(found)
        since = now - now % MINUTE
        same = []
        for shard in found:
            mark = hash((since // DAY, shard.mark, calendars.mark))
            if self._known.get(shard.shard) == mark:
                same.append(shard.shard)
                continue
            foreseen = await self._foresee(shard, calendars.ranges, since)
            if await self._store.write(shard, leases[shard.shard], foreseen, now):
                self._known[shard.shard] = mark
        await self._store.note_look({shard: leases[shard] for shard in same}, now)

    async def _foresee(
        self, shard: ShardGroups, calendars: dict[tuple[int, str], list[Range]], since: Instant
    ) -> Foreseen:
        until = since - since % DAY + DAYS * DAY
        self._sums.begin(until)
        foreseen, left = Foreseen({}, whole=shard.whole), _BUDGET
        for one in shard.items:
            if left <= 0:
                foreseen.whole = False
                break
            ranges = [
                r for name in one.group.schedule.calendars for r in calendars.get((one.tenant_id, name), ())
            ]
            minutes = self._sums.find(one, since)
            if minutes is None:
                minutes = await self._sum(one, ranges, since, until)
                self._sums.keep(one, since, minutes)
                left -= len(minutes) + 1
            foreseen.add(one.tenant_id, one.group.queue, minutes)
        return foreseen

    async def _sum(
        self, one: TenantGroup, ranges: Sequence[Range], since: Instant, until: Instant
    ) -> Minutes:
        minutes: Minutes = {}
        for part in foresee(one.group, ranges, since, until):
            for minute, fires in part.items():
                minutes[minute] = minutes.get(minute, 0.0) + fires
            await asyncio.sleep(0)
        return minutes


class _Sums:
    """What was summed up for equal schedules of other shards: a herd costs one calculation."""

    def __init__(self) -> None:
        self._until: Instant = 0
        self._kept: dict[tuple[int, str], tuple[Instant, int, Minutes]] = {}

    def begin(self, until: Instant) -> None:
        """Forget sums that end on another day: they are of no use any more."""
        if until != self._until or len(self._kept) > _MOST_REMEMBERED:
            self._until, self._kept = until, {}

    def find(self, one: TenantGroup, since: Instant) -> Minutes | None:
        """The fires of an equal group, for as many jobs as this one has."""
        begun, number, minutes = self._kept.get(one.key, (since + 1, 1, {}))
        if one.group.members or begun > since:
            return None
        first, factor = since // MINUTE, one.group.number / number
        return {minute: fires * factor for minute, fires in minutes.items() if minute >= first}

    def keep(self, one: TenantGroup, since: Instant, minutes: Minutes) -> None:
        if not one.group.members and not one.group.schedule.calendars:
            self._kept[one.key] = (since, one.group.number, minutes)
