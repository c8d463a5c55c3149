"""Ending: a job, what it has queued, or all of it but its history. One execution is called off in
`store/executions.py`.

Locks are taken in one order: the job's backfills, as the backfiller does it, then the job, then its
executions, first the one that holds the turn. So nothing is queued, skipped for the sake of what is being
called off, or put back for a retry while the job ends. The turn need not pass on: nothing that waits for it
is left.
"""

from contextlib import AbstractAsyncContextManager
from typing import Any
from uuid import UUID

import msgspec

from tocsin.db.pool import Database, Session
from tocsin.domain.cells import CELL
from tocsin.domain.errors import Conflict
from tocsin.store.control.locked_job import lock_job, wrong_state
from tocsin.store.executions import hold_executions
from tocsin.store.statements import sql


class Cancelled(msgspec.Struct, frozen=True):
    """What a cancellation did: executions that were never called and never will be, running ones that were
    asked to stop, and those called off that had been called before: they waited for another attempt, or their
    task had put them off."""

    cancelled: int
    asked_to_stop: int
    not_retried: int = 0


class Cancelling:
    """Ends jobs."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def cancel(self, tenant_id: int, job_id: UUID, reason: str, *, dry_run: bool = False) -> Cancelled:
        """End a job: nothing of it starts any more once this returns. With `dry_run` nothing is changed, here
        and below."""
        async with self._begin(dry_run=dry_run) as session:
            # Before the job's lock, as the backfiller does it: it must not queue what was just called off.
            await _end_backfills(session, tenant_id, job_id)
            job = await lock_job(session, tenant_id, job_id)
            if job["state"] == "cancelled":
                raise wrong_state("cancel", job)
            done = await _call_off(session, job_id, reason)
            if job["state"] == "completed" and done == Cancelled(0, 0):
                raise wrong_state("cancel", job)
            if job["kind"] == "once" and job["next_fire_at"] is not None:
                await session.execute(sql("cancel_paused"), CELL, job_id, reason)
            if job["kind"] == "once" and done == Cancelled(0, 0) and job["next_fire_at"] is None:
                raise Conflict("cannot cancel: the job has already completed")
            await session.execute(
                "UPDATE jobs SET state = 'cancelled', state_reason = $3, paused_until = NULL, next_fire_at = NULL,"
                " version = version + 1, updated_at = tocsin_now() WHERE cell = $1 AND id = $2",
                CELL,
                job_id,
                reason,
            )
            return done

    async def cancel_queued(
        self, tenant_id: int, job_id: UUID, reason: str, *, dry_run: bool = False
    ) -> Cancelled:
        """Call off every execution that has not started; the job itself goes on."""
        async with self._begin(dry_run=dry_run) as session:
            await lock_job(session, tenant_id, job_id)
            await hold_executions(session, [job_id])
            row = await session.fetchrow(sql("cancel_executions"), CELL, job_id, None, reason)
            return Cancelled(row["cancelled"], 0, row["not_retried"])

    async def delete(self, tenant_id: int, job_id: UUID, *, dry_run: bool = False) -> Cancelled:
        """Remove a job. Its history stays until retention takes it."""
        async with self._begin(dry_run=dry_run) as session:
            await _end_backfills(session, tenant_id, job_id)
            await lock_job(session, tenant_id, job_id)
            done = await _call_off(session, job_id, "job deleted")
            await session.execute("DELETE FROM jobs WHERE cell = $1 AND id = $2", CELL, job_id)
            return done

    def _begin(self, *, dry_run: bool) -> AbstractAsyncContextManager[Any]:
        return self._database.trial() if dry_run else self._database.transaction()


async def _end_backfills(session: Session, tenant_id: int, job_id: UUID) -> None:
    await session.execute(
        "UPDATE backfills SET state = 'cancelled', finished_at = tocsin_now()"
        " WHERE tenant_id = $1 AND job_id = $2 AND state = 'running'",
        tenant_id,
        job_id,
    )


async def _call_off(session: Session, job_id: UUID, reason: str) -> Cancelled:
    await hold_executions(session, [job_id])
    row: Any = await session.fetchrow(sql("cancel_executions"), CELL, job_id, None, reason)
    asked = await session.fetch(sql("ask_to_stop"), CELL, job_id, None, reason)
    if asked:
        await session.execute("SELECT pg_notify('tocsin', 'stop')")
    return Cancelled(row["cancelled"], len(asked), row["not_retried"])
