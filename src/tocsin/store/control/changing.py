"""Replacing a job's definition. Fires that are planned but not started are planned anew, in the same
transaction.

No fire time is lost between two schedules: what the old one named up to now is decided by it, as if the
planner had come just before the change, and the new one begins after now. A definition that keeps its
schedule goes on where it was.
"""

from collections.abc import Sequence
from uuid import UUID

import msgspec

from tocsin.db.pool import Database, Record, Session, UniqueViolation
from tocsin.db.statements import named
from tocsin.domain.cells import CELL
from tocsin.domain.errors import Conflict, Stale
from tocsin.domain.instant import SECOND, Instant
from tocsin.domain.job import Definition
from tocsin.domain.planning import Plan, Terms
from tocsin.domain.policy import Misfire, MisfirePolicy
from tocsin.domain.schedule import Schedule, rule_of
from tocsin.domain.target import route_of
from tocsin.store.control.locked_job import lock_job, managed, policies_of, schedule_of, wrong_state
from tocsin.store.control.replanning import (
    BEGINNING,
    NOTHING,
    decided_since,
    earliest,
    only_fire,
    plan_all,
    plan_beyond,
    skip_fires,
    take_back,
    terms_from,
    write_plan,
)
from tocsin.store.jobs import TAG_SEPARATOR, name_taken
from tocsin.store.statements import sql

_CHANGE = named("tocsin.store", "change_definition")


class Changing:
    """Changes jobs in place."""

    def __init__(self, database: Database, horizon: float) -> None:
        self._database = database
        self._horizon = round(horizon * SECOND)

    async def update(
        self,
        tenant_id: int,
        job_id: UUID,
        definition: Definition,
        now: Instant,
        *,
        version: int | None,
        owner: str | None = None,
    ) -> None:
        """Replace a job's definition.

        `version` is the one the caller has seen; None overwrites whatever is there. `owner` is who declares
        it: no other owner, and no user, changes a job that has one.
        """
        async with self._database.transaction() as session:
            job = await lock_job(session, tenant_id, job_id)
            if version is not None and job["version"] != version:
                raise Stale(
                    f"the job has changed meanwhile: it is at version {job['version']}, not {version}"
                )
            if job["managed_by"] not in (None, owner):
                raise managed(job["managed_by"])
            if job["state"] in ("completed", "cancelled"):
                raise wrong_state("change", job)
            if job["kind"] != definition.kind:
                raise Conflict("a one-off cannot become recurring or the other way round", field="schedule")
            taken = await take_back(session, job_id, now if job["kind"] == "recurring" else BEGINNING)
            if job["kind"] == "once" and not taken and job["state"] == "active":
                raise Conflict("cannot change: the job's only execution has already started")
            owed = await _plan_what_is_owed(session, job, definition.schedule, now)
            await _write_definition(session, job_id, definition)
            cursor = _new_cursor(job, definition.schedule, taken, now)
            fires_taken = len(taken) if job["kind"] == "recurring" else 0
            if job["state"] == "paused":
                await skip_fires(session, job_id, owed.skips)
                await session.execute(
                    "UPDATE jobs SET next_fire_at = $3, fire_count = fire_count - $4, version = version + 1,"
                    " updated_at = tocsin_now() WHERE cell = $1 AND id = $2",
                    CELL,
                    job_id,
                    cursor,
                    fires_taken,
                )
                return
            fired = job["fire_count"] - fires_taken + len(owed.fires)
            ahead = await self._plan_ahead(session, job, definition, cursor, fired, now)
            whole = owed.followed_by(ahead)
            await write_plan(session, job_id, definition.policies, whole, fires_taken)
            await session.execute("SELECT pg_notify('tocsin', 'plan ready')")

    async def _plan_ahead(
        self,
        session: Session,
        job: Record,
        definition: Definition,
        cursor: Instant | None,
        fired: int,
        now: Instant,
    ) -> Plan:
        """What a changed job fires within the horizon. `fired` is how often it has fired so far."""
        schedule = definition.schedule
        if cursor is None:
            return NOTHING
        if job["kind"] == "once":
            return only_fire(cursor, now)
        terms = await terms_from(session, job, cursor, schedule, definition.policies, fired)
        return await plan_beyond(session, rule_of(schedule), cursor, terms, now, now + self._horizon)


async def _plan_what_is_owed(session: Session, job: Record, new: Schedule, now: Instant) -> Plan:
    """The fire times up to now of a schedule that is about to be replaced, as far as they are undecided.

    It goes by the misfire policy, as if the planner had come just before the change. A paused job fires
    nothing: what it missed by the old schedule stays missed.
    """
    old, cursor = schedule_of(job), job["next_fire_at"]
    if job["kind"] == "once" or old == new or cursor is None or cursor > now:
        return NOTHING
    if job["state"] == "paused":
        decided = await decided_since(session, job["id"], cursor)
        terms = Terms(Misfire(MisfirePolicy.SKIP, grace=0), missed_reason="paused", decided=decided)
        return await plan_all(session, rule_of(old), cursor, terms, now + 1, now)
    terms = await terms_from(session, job, cursor, old, policies_of(job), job["fire_count"])
    return await plan_all(session, rule_of(old), cursor, terms, now, now)


async def _write_definition(session: Session, job_id: UUID, definition: Definition) -> None:
    try:
        await session.execute(
            *_CHANGE.given(
                cell=CELL,
                job_id=job_id,
                name=definition.name,
                description=definition.description,
                tags=TAG_SEPARATOR.join(definition.tags),
                queue=definition.queue,
                priority=definition.priority,
                schedule=_json(definition.schedule),
                target=_json(definition.target),
                policies=_json(definition.policies),
            )
        )
    except UniqueViolation:
        raise name_taken(definition) from None
    await session.execute(sql("reroute_executions"), CELL, job_id, route_of(definition.target))


def _new_cursor(job: Record, schedule: Schedule, taken: Sequence[Instant], now: Instant) -> Instant | None:
    """An unchanged schedule goes on where it was; a changed one begins after now."""
    if schedule == schedule_of(job):
        return earliest(taken, job)
    if job["kind"] == "once":
        return rule_of(schedule).next_fire(BEGINNING)
    return rule_of(schedule).next_fire(now)


def _json(value: object) -> str:
    return msgspec.json.encode(value).decode()
