"""Holding a job's fires and letting them go again: by a user, because its target is gone, at the end of the
pause.

A pause takes back what is planned and not started, and the cursor stands where it would have fired next.
Resuming plans from there: what was missed meanwhile goes by the misfire policy, what was decided before stays
decided.
"""

from collections.abc import Sequence
from itertools import islice, takewhile
from typing import Final
from uuid import UUID

import msgspec

from tocsin.db.pool import Database, Record, Session, witnessed
from tocsin.domain.audit import SYSTEM
from tocsin.domain.cells import CELL
from tocsin.domain.errors import Conflict
from tocsin.domain.ids import ExecutionKey
from tocsin.domain.instant import SECOND, Instant
from tocsin.domain.planning import Plan, Skip
from tocsin.domain.policy import Misfire, Policies
from tocsin.domain.schedule import fire_times, rule_of
from tocsin.store.audit import JobWatch
from tocsin.store.control.locked_job import find_and_lock, lock_job, policies_of, schedule_of, wrong_state
from tocsin.store.control.replanning import (
    BEGINNING,
    NOTHING,
    decided_since,
    earliest,
    only_fire,
    plan_beyond,
    skip_fires,
    take_back,
    terms_from,
    write_plan,
)
from tocsin.store.executions import hold_executions
from tocsin.store.statements import sql

_MOST_LOOKED_AT: Final = 20_000
_MOST_ENDS: Final = 1_000
_LONGEST_REASON: Final = 500
_HELD_CLAIM: Final = (
    "SELECT FROM executions WHERE cell = $1 AND job_id = $2 AND fire_at = $3 AND claim_token = $4 FOR UPDATE"
)


class _Failure(msgspec.Struct, frozen=True):
    """An execution of a job failed for good: which version of the job it was, and how."""

    tenant_id: int
    job_id: UUID
    version: int
    error: str

    def is_of(self, job: Record) -> bool:
        """Whether the job still is what failed, and fires."""
        return (job["state"], job["kind"], job["version"]) == ("active", "recurring", self.version)


class Pausing:
    """Pauses and resumes jobs."""

    def __init__(self, database: Database, horizon: float) -> None:
        self._database = database
        self._horizon = round(horizon * SECOND)

    async def pause(
        self,
        tenant_id: int,
        job_id: UUID,
        reason: str | None,
        until: Instant | None = None,
        *,
        dry_run: bool = False,
    ) -> int:
        """Hold a job's fires. Returns how many planned executions were taken back out of the queue, or would
        be. With `until`, a pause that is in force gets another end."""
        async with self._database.trial() if dry_run else self._database.transaction() as session:
            job = await lock_job(session, tenant_id, job_id)
            if job["state"] == "paused" and until is not None:
                await _prolong(session, job_id, reason, until)
                return 0
            if job["state"] not in ("active", "completed"):
                raise wrong_state("pause", job)
            taken = await take_back(session, job_id, BEGINNING)
            if job["state"] == "completed" and not taken:
                raise wrong_state("pause", job)
            if job["kind"] == "once" and not taken:
                raise Conflict("cannot pause: the job's only execution has already started")
            await _hold(session, job, taken, reason, until)
            if until is not None:
                await session.execute("SELECT pg_notify('tocsin', 'pauses')")
            return len(taken)

    async def pause_idle(self, tenant_id: int, job_ids: Sequence[UUID], reason: str) -> set[UUID]:
        """Pause those of these jobs that have nothing live, all at once. Returns them; the others are as they
        were."""
        async with self._database.transaction() as session:
            # Two statements, so that the second sees what was planned until the first had its locks.
            await session.fetch(sql("lock_jobs"), CELL, tenant_id, list(job_ids))
            rows = await session.fetch(sql("pause_idle_jobs"), CELL, tenant_id, list(job_ids), reason)
            return {row["id"] for row in rows}

    async def pause_gone(
        self, tenant_id: int, key: ExecutionKey, token: int, target: str, reason: str
    ) -> bool:
        """Pause a recurring job because its target said that it is gone. Whether that was done.

        Fenced twice: the claim that heard it must still be held, and the job must still have that target.
        """
        watch = JobWatch(tenant_id, SYSTEM, "job.pause", key.job_id)
        with witnessed(watch):
            async with self._database.transaction() as session:
                job = await find_and_lock(session, tenant_id, key.job_id)
                if job is None or job["state"] != "active" or job["kind"] != "recurring":
                    return False
                await hold_executions(session, [key.job_id])
                row = await session.fetchrow(sql("heard_by_holder"), CELL, *key, token, target)
                if row is None:
                    return False
                taken = await take_back(session, key.job_id, BEGINNING)
                await _hold(session, job, taken, reason, None)
        return True

    async def pause_failing(
        self, tenant_id: int, key: ExecutionKey, token: int, version: int, deaths: int, error: str
    ) -> bool:
        """Pause a recurring job once as many executions in a row failed for good as its policy allows.
        Returns whether it did.

        `deaths` are about to be written, the one with this key among them; the others are counted from
        history. Fenced twice: the claim must still be held, and the job must still be at the version that
        failed. So whatever changes the job, a resumption among it, begins the count anew.
        """
        failure = _Failure(tenant_id, key.job_id, version, error)
        return await self._pause_failed(failure, deaths, holding=(key.fire_at, token))

    async def pause_lost(self, tenant_id: int, job_id: UUID, version: int, error: str) -> bool:
        """The same after an execution's end was written for its vanished worker. Should that writer vanish
        too, before it asks this, the next failure pauses the job."""
        return await self._pause_failed(_Failure(tenant_id, job_id, version, error))

    async def _pause_failed(
        self, failure: "_Failure", deaths: int = 0, holding: tuple[Instant, int] | None = None
    ) -> bool:
        """`holding` is the fire time and the token of the claim that must be held."""
        job_id = failure.job_id
        with witnessed(JobWatch(failure.tenant_id, SYSTEM, "job.pause", job_id)):
            async with self._database.transaction() as session:
                job = await find_and_lock(session, failure.tenant_id, job_id)
                if job is None or not failure.is_of(job):
                    return False
                most = policies_of(job).pause_after
                await hold_executions(session, [job_id])
                if holding is not None and not await session.fetch(_HELD_CLAIM, CELL, job_id, *holding):
                    return False
                counted = sql("failed_in_a_row"), CELL, job_id, failure.version, _MOST_ENDS
                row: Record = await session.fetchrow(*counted)
                if most is None or row["failed"] + deaths < most:
                    return False
                reason = f"{most} executions in a row failed: {failure.error}"[:_LONGEST_REASON]
                await _hold(session, job, await take_back(session, job_id, BEGINNING), reason, None)
        return True

    async def resume(
        self,
        tenant_id: int,
        job_id: UUID,
        now: Instant,
        *,
        dry_run: bool = False,
        misfire: Misfire | None = None,
    ) -> Plan:
        """Let a paused job fire again. What it missed meanwhile goes by its misfire policy, or this once by
        another.

        Returns what that fires and skips; with `dry_run` nothing is changed.
        """
        async with self._database.transaction() as session:
            job = await lock_job(session, tenant_id, job_id)
            if job["state"] != "paused":
                raise wrong_state("resume", job)
            policies = policies_of(job)
            if misfire is not None:
                policies = msgspec.structs.replace(policies, misfire=misfire)
            missed = await self._plan_of_pause(session, job, policies, now)
            if not dry_run:
                await write_plan(session, job_id, policies, missed)
                await session.execute("SELECT pg_notify('tocsin', 'plan ready')")
            return msgspec.structs.replace(missed, fires=[fire for fire in missed.fires if fire.at <= now])

    async def pauses_over(
        self, shards: Sequence[int], now: Instant, passed_over: tuple[list[UUID], list[int]] = ([], [])
    ) -> tuple[list[Record], Instant | None]:
        """Jobs of these shards whose pause has ended, and when the next one ends. Ids and versions
        `passed_over` are left out."""
        rows = await self._database.fetch(
            "SELECT id, tenant_id, paused_until, version FROM jobs WHERE shard = ANY ($1::smallint[])"
            " AND paused_until IS NOT NULL AND (id, version) NOT IN (SELECT * FROM unnest($2::uuid[], $3::integer[]))"
            " ORDER BY paused_until LIMIT 100",
            list(shards),
            *passed_over,
        )
        over = [row for row in rows if row["paused_until"] <= now]
        return over, rows[len(over)]["paused_until"] if len(over) < len(rows) else None

    async def _plan_of_pause(self, session: Session, job: Record, policies: Policies, now: Instant) -> Plan:
        """What the pause made the job miss. The planner goes on from the cursor."""
        schedule, cursor = schedule_of(job), job["next_fire_at"]
        if cursor is None:
            return NOTHING
        if job["kind"] == "once":
            return only_fire(cursor, now)
        terms = await terms_from(
            session, job, cursor, schedule, policies, job["fire_count"], missed_reason="paused"
        )
        return await plan_beyond(session, rule_of(schedule), cursor, terms, now, now + self._horizon)


async def _hold(
    session: Session, job: Record, taken: Sequence[Instant], reason: str | None, until: Instant | None
) -> None:
    """Pause a locked job whose planned fires `taken` were taken back."""
    left_over = await _left_over(session, job, taken)
    await skip_fires(session, job["id"], [Skip(fire, fire, 1, "paused") for fire in left_over])
    await session.execute(
        "UPDATE jobs SET state = 'paused', state_reason = $3, paused_until = $4, next_fire_at = $5,"
        " fire_count = fire_count - $6, version = version + 1, updated_at = tocsin_now()"
        " WHERE cell = $1 AND id = $2",
        CELL,
        job["id"],
        reason,
        until,
        earliest([fire for fire in taken if fire not in left_over], job),
        len(taken) if job["kind"] == "recurring" else 0,
    )


async def _prolong(session: Session, job_id: UUID, reason: str | None, until: Instant) -> None:
    """Give the pause of a locked job another end, and another reason if one is given."""
    await session.execute(
        "UPDATE jobs SET paused_until = $3, state_reason = coalesce($4, state_reason), version = version + 1,"
        " updated_at = tocsin_now() WHERE cell = $1 AND id = $2",
        CELL,
        job_id,
        until,
        reason,
    )
    await session.execute("SELECT pg_notify('tocsin', 'pauses')")


async def _left_over(session: Session, job: Record, taken: Sequence[Instant]) -> set[Instant]:
    """Of the fires taken back those that an earlier schedule of the job had named.

    The cursor cannot go back to them: the schedule that the job has now may name other times there, from
    before it was the job's. A time that it names and that was never planned shows that it was not yet.
    """
    if job["kind"] == "once" or not taken:
        return set()
    rule, kept = rule_of(schedule_of(job)), set(taken)
    decided = await decided_since(session, job["id"], min(taken))
    first, end = rule.next_fire(min(taken) - 1), job["next_fire_at"] or max(taken) + 1
    named = [] if first is None else islice(fire_times(rule, first), _MOST_LOOKED_AT)
    unplanned = [
        fire
        for fire in takewhile(lambda time: time < end, named)
        if fire not in kept and decided.end_of(fire) is None
    ]
    since = max(unplanned, default=BEGINNING)
    return {fire for fire in taken if fire < since or rule.next_fire(fire - 1) != fire}
