"""Numbers about a tenant's work, for people who look: what waits, runs, ended, and what went wrong.

Every statement is bounded, by an index and a number of rows, so that no look grows with the history or the
backlog. Where a bound was met the answer says so: a count is "at least", a window is shorter than it was
asked for.
"""

from typing import Any, Final

import msgspec

from tocsin.db.pool import Database, Record
from tocsin.domain.cells import CELL
from tocsin.domain.instant import DAY, MINUTE, Instant
from tocsin.store.statements import sql

MOST_COUNTED: Final = 10_000
_MOST_CLAIMED: Final = 20_000
_MOST_JOBS: Final = 2_000
_MOST_DEAD: Final = 10_000
_MOST_OVERDUE: Final = 20
OVERDUE: Final = MINUTE
_LEAST_OF_SHARD: Final = 8  # of the next fires that are read of each shard
ON_TIME_MS: Final = 1_000
_PAUSED_QUEUES: Final = (
    "SELECT name, paused_at, paused_by, reason FROM queues WHERE tenant_id = $1 AND paused_at IS NOT NULL"
    " ORDER BY paused_at LIMIT 1000"
)


class Load(msgspec.Struct, frozen=True):
    """How a tenant's work stands at a moment."""

    due: Record
    running: Record
    jobs: Record
    overdue: list[Record]
    dead: list[Record]
    paused_queues: list[Record]
    """The longest paused first."""

    @property
    def jobs_whole(self) -> bool:
        """Whether all recurring jobs were counted."""
        return bool(self.jobs["number"] < _MOST_JOBS)


class StatsStore:
    """Looks of one tenant each."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def load(self, tenant_id: int, now: Instant) -> Load:
        """Everything that the overview's first line says."""
        one, many = self._database.one, self._database.fetch
        return Load(
            await one(sql("count_due"), CELL, tenant_id, now, MOST_COUNTED),
            await one(sql("count_running"), CELL, tenant_id, _MOST_CLAIMED),
            await one(sql("pending_by_state"), tenant_id, _MOST_JOBS),
            await many(sql("overdue_jobs"), CELL, tenant_id, now - OVERDUE, _MOST_OVERDUE),
            await self.dead_by_error(tenant_id, now - DAY, now),
            await many(_PAUSED_QUEUES, tenant_id),
        )

    async def dead_by_error(self, tenant_id: int, since: Instant, now: Instant) -> list[Record]:
        """Dead letters by kind of error."""
        return await self._database.fetch(sql("dead_by_error"), tenant_id, since, _MOST_DEAD, now)

    async def ended_since(self, tenants: list[int], since: Instant, most: int) -> list[Record]:
        """What ended lately, for everybody who listens, in one statement."""
        return await self._database.fetch(sql("ended_since"), CELL, tenants, since, most)

    async def upcoming(
        self, tenant_id: int, now: Instant, until: Instant, limit: int
    ) -> list[dict[str, Any]]:
        """The next fires of a tenant: what is planned, then the first of each job that is not."""
        planned = await self._database.fetch(
            sql("upcoming_planned"), CELL, tenant_id, limit, _MOST_CLAIMED, now
        )
        jobs = await self._database.fetch(
            sql("upcoming_jobs"), CELL, tenant_id, limit, until, limit // 8 + _LEAST_OF_SHARD
        )
        found = [
            {
                "at": row["run_at"],
                "job_id": row["job_id"],
                "name": row["name"],
                "fire_at": row["fire_at"],
                "attempt": row["attempt"],
            }
            for row in planned
            if row["run_at"] < until
        ]
        found += [
            {
                "at": row["next_fire_at"],
                "job_id": row["id"],
                "name": row["name"],
                "fire_at": None,
                "attempt": 1,
            }
            for row in jobs
        ]
        return sorted(found, key=lambda fire: fire["at"])[:limit]


def dead_whole(rows: list[Record]) -> bool:
    """Whether all dead letters of the range were counted."""
    return bool(sum(row["number"] for row in rows) < _MOST_DEAD)
