"""What forecasts are made of, and where they are kept: see migration 0034. Written by the owner of a shard,
under its lease.
"""

from collections.abc import Iterator, Sequence
from datetime import date
from typing import Any, Final

import msgspec

from tocsin.db.pool import Database, Record, columns
from tocsin.db.rows import arrays
from tocsin.db.statements import named
from tocsin.domain.blackout import Range
from tocsin.domain.cells import CELL
from tocsin.domain.errors import Unreadable
from tocsin.domain.forecast import MOST_MEMBERS, Group, Member, Minutes
from tocsin.domain.instant import DAY, MINUTE, Instant, to_datetime
from tocsin.domain.stored_job import read_schedule
from tocsin.store.calendars import ranges_by_calendar
from tocsin.store.statements import sql

_WRITE_GROUPS = named("tocsin.store", "write_forecast_groups")
_GROUP_COLUMNS: Final = ("tenant_ids", "places", "queues", "schedules", "numbers", "job_ids", "names")
_MOST_JOBS: Final = 100_000
"""Of a shard, that are read."""
_MOST_GROUPS: Final = 30
"""Of a tenant and shard, that are kept to name who makes a peak."""
_MINUTES_OF_DAY: Final = DAY // MINUTE


class TenantGroup(msgspec.Struct, frozen=True):
    """A group of a tenant's jobs, and its schedule as it is written."""

    tenant_id: int
    text: str
    group: Group

    @property
    def key(self) -> tuple[int, str]:
        """What groups with the same fires have in common; calendars are a tenant's own."""
        return self.tenant_id if self.group.schedule.calendars else 0, self.text


class ShardGroups(msgspec.Struct, frozen=True):
    """The groups of a shard, the largest first. `mark` differs when they do; without `whole` there are more
    jobs."""

    shard: int
    items: list[TenantGroup]
    mark: int
    whole: bool


class Calendars(msgspec.Struct, frozen=True):
    """Calendars by tenant and name; `mark` differs when they do."""

    ranges: dict[tuple[int, str], list[Range]]
    mark: int


class Foreseen(msgspec.Struct):
    """The fires of a shard by tenant and queue."""

    minutes: dict[tuple[int, str], Minutes]
    whole: bool = True

    def add(self, tenant_id: int, queue: str, minutes: Minutes) -> None:
        """Add the fires of a group."""
        kept = self.minutes.setdefault((tenant_id, queue), {})
        for minute, fires in minutes.items():
            kept[minute] = kept.get(minute, 0.0) + fires


class Foreseeing:
    """Forecasts of all tenants, as one scheduler keeps them."""

    def __init__(self, database: Database, node_id: int) -> None:
        self._database = database
        self._node_id = node_id

    async def groups(self, shards: Sequence[int]) -> list[ShardGroups]:
        """The active recurring jobs of each shard by equal schedule. What this version cannot read is left
        out."""
        rows = await self._database.fetch(
            sql("forecast_groups"), CELL, list(shards), _MOST_JOBS, MOST_MEMBERS + 1
        )
        by_shard: dict[int, list[Record]] = {shard: [] for shard in shards}
        for row in rows:
            by_shard[row["shard"]].append(row)
        return [_shard_groups(shard, of) for shard, of in by_shard.items()]

    async def calendars(self, shards: Sequence[ShardGroups]) -> Calendars:
        """The calendars that jobs of these shards name."""
        tenants = {one.tenant_id for shard in shards for one in shard.items if one.group.schedule.calendars}
        if not tenants:
            return Calendars({}, 0)
        found = await ranges_by_calendar(self._database, sorted(tenants))
        ranges = {key: known for key, known in found.items() if not isinstance(known, Unreadable)}
        return Calendars(ranges, hash(tuple((key, tuple(known)) for key, known in sorted(ranges.items()))))

    async def write(self, shard: ShardGroups, epoch: int, foreseen: Foreseen, now: Instant) -> bool:
        """Replace a shard's forecast. False if the lease was lost, and then nothing was written."""
        of = shard.shard
        async with self._database.transaction() as session:
            leased = (sql("note_forecast"), [of], [epoch], self._node_id, now, foreseen.whole)
            if not await session.fetch(*leased):
                return False
            for table in ("forecasts", "forecast_groups"):
                await session.execute(f"DELETE FROM {table} WHERE shard = $1", of)  # noqa: S608
            days = [row for key, minutes in foreseen.minutes.items() for row in _days(*key, minutes)]
            await session.execute(sql("write_forecasts"), of, *columns(days, 5))
            groups = arrays(_GROUP_COLUMNS, _largest(shard.items))
            await session.execute(*_WRITE_GROUPS.given(shard=of, **groups))
        return True

    async def note_look(self, leases: dict[int, int], now: Instant) -> None:
        """Note that the forecasts of some shards are still right."""
        if leases:
            given = list(leases), list(leases.values())
            await self._database.fetch(sql("note_forecast"), *given, self._node_id, now, None)


def _shard_groups(shard: int, rows: Sequence[Record]) -> ShardGroups:
    items, marks, jobs, unread = [], [], 0, False
    for row in rows:
        jobs += row["number"]
        counts = row["fire_counts"] if "max_fires" in row["schedule"] else None
        marks.append(
            (
                row["tenant_id"],
                row["queue"],
                row["schedule"],
                row["number"],
                _tuple(row["ids"]),
                _tuple(counts),
            )
        )
        try:
            items.append(_tenant_group(row))
        except Unreadable:
            unread = True
    return ShardGroups(shard, items, hash(tuple(marks)), jobs < _MOST_JOBS and not unread)


def _tenant_group(row: Record) -> TenantGroup:
    members: tuple[Member, ...] = ()
    if row["ids"] and row["number"] <= MOST_MEMBERS:
        members = tuple(map(Member, row["ids"], row["fire_counts"], row["cursors"]))
    schedule = read_schedule(row["schedule"])
    group = Group(schedule, row["queue"], row["number"], row["job_id"], row["name"], members)
    return TenantGroup(row["tenant_id"], row["schedule"], group)


def _tuple(values: Sequence[Any] | None) -> tuple[Any, ...]:
    return tuple(values or ())


def _days(tenant_id: int, queue: str, minutes: Minutes) -> Iterator[tuple[Any, ...]]:
    """A row per day that has fires."""
    by_day: dict[int, list[int]] = {}
    for minute in sorted(minutes):
        by_day.setdefault(minute // _MINUTES_OF_DAY, []).append(minute)
    for day, of in by_day.items():
        places = ",".join(str(minute % _MINUTES_OF_DAY) for minute in of)
        fires = ",".join(f"{minutes[minute]:.6g}" for minute in of)
        yield tenant_id, _date(day), queue, f"{{{places}}}", f"{{{fires}}}"


def _date(day: int) -> date:
    return to_datetime(day * DAY).date()


def _largest(items: Sequence[TenantGroup]) -> list[tuple[Any, ...]]:
    """The first groups of each tenant: they come in the order of their size."""
    places: dict[int, int] = {}
    rows = []
    for one in items:
        place = places[one.tenant_id] = places.get(one.tenant_id, -1) + 1
        if place < _MOST_GROUPS:
            group = one.group
            rows.append((one.tenant_id, place, group.queue, one.text, group.number, group.job_id, group.name))
    return rows
