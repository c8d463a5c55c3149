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
ON_TIME_MS: Final = 1_000
_MOST_PAUSED: Final = 1_000
_MOST_TOLD: Final = 100


class Load(msgspec.Struct, frozen=True):
    """How a tenant's work stands at a moment."""

    due: Record
    running: Record
    jobs: Record
    overdue: list[Record]
    dead: list[Record]
    attention: list[Record]
    """What tallies do not count: queues that are paused, alerts that fire."""

    def noticed(self, kind: str) -> list[Record]:
        """Of this kind (`queue` or `alert`), the most urgent first."""
        return [row for row in self.attention if row["kind"] == kind]

    @property
    def paused_whole(self) -> bool:
        """Whether all paused jobs were counted."""
        return bool(self.jobs["paused"] < _MOST_JOBS)

    @property
    def jobs_whole(self) -> bool:
        """Whether all paused and all recurring jobs were counted."""
        return self.paused_whole and bool(self.jobs["active"] < _MOST_JOBS)


class StatsStore:
    """Looks of one tenant each."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def load(self, tenant_id: int, now: Instant, *, operator: bool = False) -> Load:
        """Everything that the overview's first line says. Some of it is an operator's to act on."""
        one, many = self._database.one, self._database.fetch
        return Load(
            await one(sql("count_due"), CELL, tenant_id, now, MOST_COUNTED),
            await one(sql("count_running"), CELL, tenant_id, _MOST_CLAIMED),
            await one(sql("pending_by_state"), tenant_id, _MOST_JOBS),
            await many(sql("overdue_jobs"), tenant_id, now - OVERDUE, _MOST_OVERDUE),
            await self.dead_by_error(tenant_id, now - DAY, now),
            await many(sql("attention"), tenant_id, operator, _MOST_PAUSED, _MOST_TOLD),
        )

    async def dead_by_error(self, tenant_id: int, since: Instant, now: Instant) -> list[Record]:
        """Dead letters by kind of error."""
        return await self._database.fetch(sql("dead_by_error"), tenant_id, since, _MOST_DEAD, now)

    async def ended_since(self, tenants: list[int], since: Instant, most: int) -> list[Record]:
        """What ended lately, for all listeners, in one statement."""
        return await self._database.fetch(sql("ended_since"), CELL, tenants, since, most)

    async def upcoming(
        self, tenant_id: int, now: Instant, until: Instant, limit: int
    ) -> list[dict[str, Any]]:
        """The next fires of a tenant: what is planned, then the first of each job that is not."""
        planned = await self._database.fetch(
            sql("upcoming_planned"), CELL, tenant_id, limit, _MOST_CLAIMED, now
        )
        jobs = await self._database.fetch(sql("upcoming_jobs"), tenant_id, limit, until)
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
