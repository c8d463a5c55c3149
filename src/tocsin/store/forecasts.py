"""What the schedulers foresee of a tenant's fires, and its queued one-offs."""

from datetime import timedelta
from typing import Final

import msgspec

from tocsin.db.pool import Database, Record
from tocsin.domain.cells import CELL
from tocsin.domain.errors import Unreadable
from tocsin.domain.forecast import Group, Load
from tocsin.domain.instant import MINUTE, Instant, Span
from tocsin.domain.stored_job import read_schedule
from tocsin.store.statements import sql

_MOST_GROUPS: Final = 200
_MOST_ONE_OFFS: Final = 50_000
_AGE: Final = (
    "SELECT count(f.shard) = count(*) AS complete, min(f.computed_at) AS computed_at, coalesce(bool_and(f.whole), false) AS whole"
    " FROM shards s LEFT JOIN forecast_shards f USING (shard)"
)


class Age(msgspec.Struct, frozen=True):
    """When the part of the forecast that is oldest was computed, and whether all jobs are in it."""

    computed_at: Instant | None
    whole: bool


class ForecastStore:
    """Looks of one tenant each."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def load(self, tenant_id: int, since: Instant, minutes: int, queue: str | None) -> Load:
        """The fires of recurring jobs in each minute from `since` on."""
        rows = await self._database.fetch(
            sql("foreseen_fires"), tenant_id, since, since + minutes * MINUTE, queue
        )
        load = Load(since, [0.0] * minutes)
        for row in rows:
            load.minutes[(row["at"] - since) // MINUTE] = row["fires"]
        return load

    async def age(self) -> Age:
        """How old the forecast is. Shards that no node has looked at yet leave it incomplete."""
        row = await self._database.one(_AGE)
        return Age(row["computed_at"], row["complete"] and row["whole"])

    async def groups(self, tenant_id: int, queue: str | None) -> list[Group]:
        """The largest groups of jobs with equal schedules. Groups that this version cannot read are left
        out."""
        rows = await self._database.fetch(sql("foreseen_groups"), tenant_id, queue, _MOST_GROUPS)
        found = []
        for row in rows:
            try:
                schedule = read_schedule(row["schedule"])
            except Unreadable:
                continue
            found.append(Group(schedule, row["queue"], row["number"], row["job_id"], row["name"]))
        return found

    async def one_offs(self, tenant_id: int, since: Instant, until: Instant, step: Span) -> list[Record]:
        """Queued one-offs by bucket and queue."""
        size = timedelta(microseconds=step)
        return await self._database.fetch(
            sql("forecast_one_offs"), CELL, tenant_id, since, until, size, _MOST_ONE_OFFS
        )
