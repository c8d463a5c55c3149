"""Changing jobs: cancel, pause, resume, update, run, skip, delete.

Every change is one transaction that begins by locking the job, so the planner, other clients and workers see
either all of it or nothing. The planner moves a cursor only if the version it read is still current; a worker
starts an execution only if its row is still there; so whatever a change takes back cannot happen any more once
the transaction has committed.
"""

from collections.abc import Sequence
from datetime import timedelta
from itertools import islice, takewhile
from typing import Any, Final
from uuid import UUID

import msgspec

from tocsin.db.pool import Database, Record, Session, UniqueViolation, columns, witnessed
from tocsin.db.statements import statement
from tocsin.domain.audit import SYSTEM
from tocsin.domain.blackout import Blackouts
from tocsin.domain.errors import Conflict, Stale
from tocsin.domain.ids import ExecutionKey
from tocsin.domain.instant import SECOND, Instant, format_instant, parse_span
from tocsin.domain.job import CATCH_UP_PRIORITY, Definition
from tocsin.domain.planning import Fire, Plan, Skip, Terms, plan, plan_in_slices, terms_of
from tocsin.domain.policy import MISFIRE_THRESHOLD, Misfire, MisfirePolicy, Policies
from tocsin.domain.schedule import Rule, Schedule, fire_times, rule_of
from tocsin.store.audit import JobWatch
from tocsin.store.calendars import ranges_of
from tocsin.store.executions import hold_floor
from tocsin.store.jobs import CELL, TAG_SEPARATOR, name_taken, no_job

_BEGINNING: Final[Instant] = (
    -62_135_596_800 * SECOND
)  # the year 1; timestamptz does not reach much further back

_MOST_LOOKED_AT: Final = 20_000
_MOST_BEYOND: Final = 1000  # fires planned ahead of their time so that a decision still further ahead is kept


class Cancelled(msgspec.Struct, frozen=True):
    """What a cancellation did: executions called off, and running ones asked to stop."""

    cancelled: int
    asked_to_stop: int


class JobControl:
    """Changes to jobs of all tenants; every method names the tenant it acts for."""

    def __init__(self, database: Database, horizon: float) -> None:
        self._database = database
        self._horizon = round(horizon * SECOND)

    async def cancel(self, tenant_id: int, job_id: UUID, reason: str) -> Cancelled:
        """End a job: nothing of it starts any more once this returns."""
        async with self._database.transaction() as session:
            # Before the job's lock, as the backfiller does it: it must not queue what was just called off.
            await _end_backfills(session, tenant_id, job_id)
            job = await _lock(session, tenant_id, job_id)
            if job["state"] == "cancelled":
                raise _wrong_state("cancel", job)
            done = await _call_off(session, job_id, reason)
            if job["state"] == "completed" and done == Cancelled(0, 0):
                raise _wrong_state("cancel", job)
            if job["kind"] == "once" and job["next_fire_at"] is not None:
                await session.execute(_sql("cancel_paused"), CELL, job_id, reason)
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

    async def cancel_queued(self, tenant_id: int, job_id: UUID, reason: str) -> int:
        """Call off every execution that has not started; the job itself goes on."""
        async with self._database.transaction() as session:
            await _lock(session, tenant_id, job_id)
            await hold_floor(session, job_id)
            row = await session.fetchrow(_sql("cancel_executions"), CELL, job_id, None, reason)
            return int(row["cancelled"])

    async def delete(self, tenant_id: int, job_id: UUID) -> Cancelled:
        """Remove a job. Its history stays until retention takes it."""
        async with self._database.transaction() as session:
            await _end_backfills(session, tenant_id, job_id)
            await _lock(session, tenant_id, job_id)
            done = await _call_off(session, job_id, "job deleted")
            await session.execute("DELETE FROM jobs WHERE cell = $1 AND id = $2", CELL, job_id)
            return done

    async def pause(
        self, tenant_id: int, job_id: UUID, reason: str | None, until: Instant | None = None
    ) -> int:
        """Hold a job's fires. Returns how many planned executions were taken back out of the queue."""
        async with self._database.transaction() as session:
            job = await _lock(session, tenant_id, job_id)
            if job["state"] not in ("active", "completed"):
                raise _wrong_state("pause", job)
            held = await _take_back(session, job_id, _BEGINNING)
            if job["state"] == "completed" and not held:
                raise _wrong_state("pause", job)
            if job["kind"] == "once" and not held:
                raise Conflict("cannot pause: the job's only execution has already started")
            await _hold(session, job, held, reason, until)
            if until is not None:
                await session.execute("SELECT pg_notify('tocsin', 'pauses')")
            return len(held)

    async def pause_gone(
        self, tenant_id: int, key: ExecutionKey, token: int, target: str, reason: str
    ) -> bool:
        """Pause a recurring job because its target said that it is gone. Whether that was done.

        Fenced twice: the claim that heard it must still be held, and the job must still have that target.
        """
        watch = JobWatch(tenant_id, SYSTEM, "job.pause", key.job_id)
        with witnessed(watch):
            async with self._database.transaction() as session:
                job = await session.fetchrow(_sql("lock_job"), CELL, key.job_id, tenant_id)
                if job is None or job["state"] != "active" or job["kind"] != "recurring":
                    return False
                row = await session.fetchrow(_sql("heard_by_holder"), CELL, *key, token, target)
                if row is None:
                    return False
                held = await _take_back(session, key.job_id, _BEGINNING)
                await _hold(session, job, held, reason, None)
        return True

    async def resume(self, tenant_id: int, job_id: UUID, now: Instant, *, dry_run: bool = False) -> Plan:
        """Let a paused job fire again. What it missed meanwhile goes by its misfire policy.

        Returns what that fires and skips; with `dry_run` nothing is changed.
        """
        async with self._database.transaction() as session:
            job = await _lock(session, tenant_id, job_id)
            if job["state"] != "paused":
                raise _wrong_state("resume", job)
            missed = await self._plan_of_pause(session, job, now)
            if not dry_run:
                await _replan(session, job_id, job["policies"], missed)
                await session.execute("SELECT pg_notify('tocsin', 'plan ready')")
            return msgspec.structs.replace(missed, fires=[fire for fire in missed.fires if fire.at <= now])

    async def update(
        self, tenant_id: int, job_id: UUID, definition: Definition, now: Instant, *, version: int | None
    ) -> None:
        """Replace a job's definition. What is planned but not started is planned anew, in the same transaction.

        `version` is the one the caller has seen; None overwrites whatever is there.
        """
        async with self._database.transaction() as session:
            job = await _lock(session, tenant_id, job_id)
            if version is not None and job["version"] != version:
                raise Stale(
                    f"the job has changed meanwhile: it is at version {job['version']}, not {version}"
                )
            if job["state"] in ("completed", "cancelled"):
                raise _wrong_state("change", job)
            if job["kind"] != definition.kind:
                raise Conflict("a one-off cannot become recurring or the other way round", field="schedule")
            held = await _take_back(session, job_id, now if job["kind"] == "recurring" else _BEGINNING)
            if job["kind"] == "once" and not held and job["state"] == "active":
                raise Conflict("cannot change: the job's only execution has already started")
            owed = await self._plan_what_is_owed(session, job, definition.schedule, now)
            await self._write_definition(session, job_id, definition)
            cursor = _new_cursor(job, definition.schedule, held, now)
            fires_taken = len(held) if job["kind"] == "recurring" else 0
            if job["state"] == "paused":
                await session.execute(_sql("skip_fires"), CELL, job_id, _skips(owed))
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
            await _replan(session, job_id, definition.policies, owed.followed_by(ahead), fires_taken)
            await session.execute("SELECT pg_notify('tocsin', 'plan ready')")

    async def skip_next(self, tenant_id: int, job_id: UUID) -> Instant:
        """Leave the next fire out. Returns its fire time."""
        async with self._database.transaction() as session:
            job = await _lock(session, tenant_id, job_id)
            if job["state"] not in ("active", "completed") or job["kind"] != "recurring":
                raise _wrong_state("skip the next fire of", job)
            row = await session.fetchrow(_sql("skip_execution"), CELL, job_id)
            if row is not None:
                return int(row["fire_at"])
            if job["state"] == "completed" or job["next_fire_at"] is None:
                raise Conflict("the schedule never fires again")
            fire = int(job["next_fire_at"])
            following = rule_of(_schedule(job["schedule"])).next_fire(fire)
            await _replan(
                session, job_id, job["policies"], Plan([], [Skip(fire, fire, 1, "skip_next")], following)
            )
            return fire

    async def run(
        self,
        tenant_id: int,
        job_id: UUID,
        now: Instant,
        *,
        beside: bool = False,
        again: Instant | None = None,
    ) -> ExecutionKey:
        """Fire a job now, whatever its schedule says.

        `beside` lets it run although the job must not overlap; `again` is the fire time of the execution that
        this one repeats.
        """
        async with self._database.transaction() as session:
            job = await _lock(session, tenant_id, job_id)
            if job["state"] == "cancelled":
                raise _wrong_state("run", job)
            fire_at, cause = now, "manual" if again is None else "rerun"
            while (
                await session.fetchrow(_sql("add_execution"), CELL, job_id, fire_at, cause, beside, again)
                is None
            ):
                fire_at += 1  # that very microsecond is taken
            await session.execute("SELECT pg_notify('tocsin', 'ready')")
            return ExecutionKey(job_id, fire_at)

    async def pauses_over(self, shards: Sequence[int], now: Instant) -> tuple[list[Record], Instant | None]:
        """Jobs of these shards whose pause has ended, and when the next one ends."""
        rows = await self._database.fetch(
            "SELECT id, tenant_id, paused_until FROM jobs WHERE shard = ANY ($1::smallint[])"
            " AND paused_until IS NOT NULL ORDER BY paused_until LIMIT 100",
            list(shards),
        )
        over = [row for row in rows if row["paused_until"] <= now]
        return over, rows[len(over)]["paused_until"] if len(over) < len(rows) else None

    async def _plan_of_pause(self, session: Session, job: Record, now: Instant) -> Plan:
        """What the pause made the job miss. The planner goes on from the cursor."""
        schedule, policies, cursor = (
            _schedule(job["schedule"]),
            _policies(job["policies"]),
            job["next_fire_at"],
        )
        if cursor is None:
            return Plan([], [], None)
        if job["kind"] == "once":
            return Plan([Fire(cursor, max(cursor, now))], [], None)
        ranges = await ranges_of(
            session, job["tenant_id"], schedule.exclude.calendars if schedule.exclude else ()
        )
        terms = terms_of(schedule, policies, job["id"], job["fire_count"], ranges, missed_reason="paused")
        terms = msgspec.structs.replace(terms, decided=await _decided(session, job["id"], cursor))
        return await _plan_beyond(session, rule_of(schedule), cursor, terms, now, now + self._horizon)

    async def _plan_what_is_owed(self, session: Session, job: Record, new: Schedule, now: Instant) -> Plan:
        """What a schedule that is about to be replaced has named up to now and nobody has decided yet.

        It goes by the misfire policy, as if the planner had come just before the change. A paused job fires
        nothing: what it missed by the old schedule stays missed.
        """
        old, policies, cursor = _schedule(job["schedule"]), _policies(job["policies"]), job["next_fire_at"]
        if job["kind"] == "once" or old == new or cursor is None or cursor > now:
            return Plan([], [], None)
        if job["state"] == "paused":
            terms, live_from = Terms(Misfire(MisfirePolicy.SKIP), missed_reason="paused"), now + 1
        else:
            names = old.exclude.calendars if old.exclude else ()
            ranges = await ranges_of(session, job["tenant_id"], names)
            terms = terms_of(old, policies, job["id"], job["fire_count"], ranges)
            live_from = now - MISFIRE_THRESHOLD
        terms = msgspec.structs.replace(terms, decided=await _decided(session, job["id"], cursor))
        return await _plan_all(session, rule_of(old), cursor, terms, live_from, now)

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
            return Plan([], [], None)
        if job["kind"] == "once":
            return Plan([Fire(cursor, max(cursor, now))], [], None)
        ranges = await ranges_of(
            session, job["tenant_id"], schedule.exclude.calendars if schedule.exclude else ()
        )
        terms = terms_of(schedule, definition.policies, job["id"], fired, ranges)
        terms = msgspec.structs.replace(terms, decided=await _decided(session, job["id"], cursor))
        live_from = now - MISFIRE_THRESHOLD
        return await _plan_beyond(session, rule_of(schedule), cursor, terms, live_from, now + self._horizon)

    async def _write_definition(self, session: Session, job_id: UUID, definition: Definition) -> None:
        try:
            await session.execute(
                "UPDATE jobs SET name = $3, description = $4, tags = string_to_array($5, E'\\x1f'), queue = $6,"
                " priority = $7, schedule = $8, target = $9, policies = $10 WHERE cell = $1 AND id = $2",
                CELL,
                job_id,
                definition.name,
                definition.description,
                TAG_SEPARATOR.join(definition.tags),
                definition.queue,
                definition.priority,
                _json(definition.schedule),
                _json(definition.target),
                _json(definition.policies),
            )
        except UniqueViolation:
            raise name_taken(definition) from None


async def _lock(session: Session, tenant_id: int, job_id: UUID) -> Record:
    row = await session.fetchrow(_sql("lock_job"), CELL, job_id, tenant_id)
    if row is None:
        raise no_job(job_id)
    return row


async def _call_off(session: Session, job_id: UUID, reason: str) -> Cancelled:
    await hold_floor(session, job_id)
    row = await session.fetchrow(_sql("cancel_executions"), CELL, job_id, None, reason)
    asked = await session.fetch(_sql("ask_to_stop"), CELL, job_id, None, reason)
    if asked:
        await session.execute("SELECT pg_notify('tocsin', 'stop')")
    return Cancelled(row["cancelled"] if row else 0, len(asked))


async def _take_back(session: Session, job_id: UUID, after: Instant) -> list[Instant]:
    return [row["fire_at"] for row in await session.fetch(_sql("take_back"), CELL, job_id, after)]


async def _hold(
    session: Session, job: Record, held: Sequence[Instant], reason: str | None, until: Instant | None
) -> None:
    """Pause a locked job whose planned fires `held` were taken back."""
    left_over = await _left_over(session, job, held)
    skips = Plan([], [Skip(fire, fire, 1, "paused") for fire in left_over], None)
    await session.execute(_sql("skip_fires"), CELL, job["id"], _skips(skips))
    await session.execute(
        "UPDATE jobs SET state = 'paused', state_reason = $3, paused_until = $4, next_fire_at = $5,"
        " fire_count = fire_count - $6, version = version + 1, updated_at = tocsin_now()"
        " WHERE cell = $1 AND id = $2",
        CELL,
        job["id"],
        reason,
        until,
        _earliest([fire for fire in held if fire not in left_over], job),
        len(held) if job["kind"] == "recurring" else 0,
    )


async def _left_over(session: Session, job: Record, held: Sequence[Instant]) -> set[Instant]:
    """Of the fires taken back those that an earlier schedule of the job had named.

    The cursor cannot go back to them: the schedule that the job has now may name other times there, from before it
    was the job's. A time that it names and that was never planned shows that it was not yet.
    """
    if job["kind"] == "once" or not held:
        return set()
    rule, kept = rule_of(_schedule(job["schedule"])), set(held)
    decided = await _decided(session, job["id"], min(held))
    first, end = rule.next_fire(min(held) - 1), job["next_fire_at"] or max(held) + 1
    named = [] if first is None else islice(fire_times(rule, first), _MOST_LOOKED_AT)
    unplanned = [
        fire
        for fire in takewhile(lambda time: time < end, named)
        if fire not in kept and decided.end_of(fire) is None
    ]
    since = max(unplanned, default=_BEGINNING)
    return {fire for fire in held if fire < since or rule.next_fire(fire - 1) != fire}


async def _decided(session: Session, job_id: UUID, cursor: Instant) -> Blackouts:
    """What was decided before the cursor moved back: fires that ran, were called off or were skipped are in history
    already and must not come again."""
    rows = await session.fetch(
        "SELECT fire_at, fire_until FROM history WHERE cell = $1 AND job_id = $2 AND fire_at >= $3"
        " UNION ALL SELECT fire_at, NULL FROM executions WHERE cell = $1 AND job_id = $2 AND fire_at >= $3",
        CELL,
        job_id,
        cursor,
    )
    return Blackouts((row["fire_at"], (row["fire_until"] or row["fire_at"]) + 1) for row in rows)


async def _plan_all(
    session: Session, rule: Rule, cursor: Instant, terms: Terms, live_from: Instant, until: Instant
) -> Plan:
    """Plan until `until` is reached, however much was missed."""
    slices = plan_in_slices(rule, cursor, terms, live_from=live_from, until=until, limit=None)
    done = next(slices)
    for further in slices:
        done = further
        # Between two slices others have their turn, and the database hears that the transaction is alive.
        await session.execute("SELECT true")
    return done


async def _plan_beyond(
    session: Session, rule: Rule, cursor: Instant, terms: Terms, live_from: Instant, until: Instant
) -> Plan:
    """Plan until `until`, and on past what was decided already, for example because somebody skipped it: the planner
    goes on from there and looks at no history."""
    done = await _plan_all(session, rule, cursor, terms, live_from, until)
    over_at = terms.decided.over_at
    if done.cursor is None or over_at is None or done.cursor >= over_at:
        return done
    left = None if terms.fires_left is None else terms.fires_left - len(done.fires)
    rest = msgspec.structs.replace(terms, fires_left=left)
    more = plan(rule, done.cursor, rest, live_from=live_from, until=over_at - 1, limit=_MOST_BEYOND)
    return done.followed_by(more)


async def _end_backfills(session: Session, tenant_id: int, job_id: UUID) -> None:
    await session.execute(
        "UPDATE backfills SET state = 'cancelled', finished_at = tocsin_now()"
        " WHERE tenant_id = $1 AND job_id = $2 AND state = 'running'",
        tenant_id,
        job_id,
    )


async def _replan(
    session: Session, job_id: UUID, policies: Policies | str, done: Plan, taken: int = 0
) -> None:
    """Write a plan of a locked job. `taken` fires were taken back before and count no longer."""
    within = (_policies(policies) if isinstance(policies, str) else policies).start_within
    start_within = None if within is None else parse_span(within, "start_within")
    fires = columns([_fire_row(fire, start_within) for fire in done.fires], 5)
    await session.execute(
        _sql("replan_job"),
        CELL,
        job_id,
        done.cursor,
        len(done.fires) - taken,
        *fires,
        _skips(done),
        CATCH_UP_PRIORITY,
    )


def _skips(done: Plan) -> str:
    return _json(
        [
            {
                "first": format_instant(skip.first),
                "last": format_instant(skip.last),
                "count": skip.count,
                "reason": skip.reason,
            }
            for skip in done.skips
        ]
    )


def _fire_row(fire: Fire, start_within: int | None) -> tuple[Any, ...]:
    start_by = None if start_within is None else fire.due_at + start_within
    return fire.at, fire.due_at, timedelta(microseconds=fire.wait), fire.late, start_by


def _earliest(held: Sequence[Instant], job: Record) -> Instant | None:
    """The cursor after planned fires were taken back: the earliest of them."""
    known = [*held, job["next_fire_at"]] if job["next_fire_at"] is not None else held
    return min(known, default=None)


def _new_cursor(job: Record, schedule: Schedule, held: Sequence[Instant], now: Instant) -> Instant | None:
    """An unchanged schedule goes on where it was; a changed one begins after now."""
    if schedule == _schedule(job["schedule"]):
        return _earliest(held, job)
    if job["kind"] == "once":
        return rule_of(schedule).next_fire(_BEGINNING)
    return rule_of(schedule).next_fire(now)


def _wrong_state(action: str, job: Record) -> Conflict:
    kind = "one-off" if job["kind"] == "once" else "job"
    return Conflict(f"cannot {action} a {kind} that is {job['state']}")


def _json(value: object) -> str:
    return msgspec.json.encode(value).decode()


def _sql(name: str) -> str:
    return statement("tocsin.store", name)


_schedule = msgspec.json.Decoder(Schedule).decode
_policies = msgspec.json.Decoder(Policies).decode
