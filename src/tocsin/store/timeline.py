"""What became of the fires of jobs, by fire time: for one axis of past and coming, and for a calendar."""

from collections.abc import Sequence
from datetime import timedelta
from typing import Final
from uuid import UUID

from tocsin.db.pool import Database, Record
from tocsin.domain.cells import CELL
from tocsin.domain.instant import Instant, Span
from tocsin.store.statements import sql

MOST_FIRES: Final = 120
"""Of a lane, before it becomes bands."""
MOST_OF_CALENDAR: Final = 50_000
_MOST_IN_BANDS: Final = 60_000
"""Rows that are read for the bands of all lanes together."""


class TimelineStore:
    """Looks of one tenant each."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def fires(
        self, tenant_id: int, jobs: Sequence[UUID], since: Instant, until: Instant
    ) -> list[Record]:
        """The latest fires of each job, one more than a lane shows."""
        return await self._database.fetch(
            sql("fires_of_jobs"), CELL, list(jobs), tenant_id, since, until, MOST_FIRES + 1
        )

    async def bands(
        self, tenant_id: int, jobs: Sequence[UUID], since: Instant, until: Instant, step: Span
    ) -> list[Record]:
        """Counts of jobs that fired more often than a lane shows; the more of these, the less far back."""
        if not jobs:
            return []
        each, size = rows_of_a_band(len(jobs)), timedelta(microseconds=step)
        return await self._database.fetch(
            sql("bands_of_jobs"), CELL, list(jobs), tenant_id, since, until, each, size
        )

    async def live(
        self, tenant_id: int, jobs: Sequence[UUID], since: Instant, until: Instant
    ) -> list[Record]:
        """What is planned or runs."""
        return await self._database.fetch(
            sql("live_of_jobs"), CELL, list(jobs), tenant_id, since, until, MOST_FIRES
        )

    async def calendar(self, tenant_id: int, job_id: UUID, since: Instant, until: Instant) -> list[Record]:
        """How a job's fires ended, by quarter of an hour."""
        return await self._database.fetch(
            sql("calendar_of_job"), CELL, job_id, tenant_id, since, until, MOST_OF_CALENDAR
        )


def rows_of_a_band(jobs: int) -> int:
    """How many rows are read for each of `jobs` jobs."""
    return _MOST_IN_BANDS // max(1, jobs)
