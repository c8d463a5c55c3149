"""Takes back what was skipped while the database's clock was ahead.

The trace that such a time leaves is history from the future: fire times that were skipped as missed at an
instant that has not come. Those records go, catch-ups that were to run then go, and the job's cursor goes
back to the first of those fire times, from which the planner decides anew by the right clock. A job that was
completed that way is active again, unless its name is taken.
"""

from typing import Final

from tocsin.db.pool import Database, columns
from tocsin.domain.cells import CELL
from tocsin.domain.instant import MINUTE, SECOND, Instant, Span
from tocsin.store.executions import hold_executions
from tocsin.store.statements import sql

_FUTURE: Final[Span] = 5 * SECOND
"""Nothing is written so far ahead of the clock by a right one."""
_BATCH: Final = 500
_LONGEST_LEASE: Final[Span] = 10 * MINUTE


class Rewinding:
    """Cursors of one cell."""

    def __init__(self, database: Database, lease_ttl: float) -> None:
        self._database = database
        self._lease: Span = round(lease_ttl * SECOND)

    async def rewind(self, now: Instant) -> tuple[int, bool]:
        """Take back some. Returns for how many jobs, and whether there may be more."""
        await self._shorten_leases(now)
        future = now + _FUTURE
        found = await self._database.fetch(sql("decided_in_future"), future, _BATCH)
        if not found:
            return 0, False
        async with self._database.transaction() as session:
            late = await session.fetch(
                sql("hold_late_jobs"), CELL, *columns([(row["tenant_id"], row["job_id"]) for row in found], 2)
            )
            job_ids = [job["id"] for job in late]
            await hold_executions(session, job_ids)
            row = await session.fetchrow(sql("rewind_jobs"), CELL, job_ids, future)
        return (0 if row is None else int(row["jobs"])), True

    async def _shorten_leases(self, now: Instant) -> None:
        """A node that is gone may have leased its shards, by the wrong clock, until that time comes."""
        longest = now + max(10 * self._lease, _LONGEST_LEASE)
        for table in ("shards", "nodes"):
            await self._database.execute(
                f"UPDATE {table} SET expires_at = $1 WHERE expires_at > $2",  # noqa: S608 - one of two names
                now + self._lease,
                longest,
            )
