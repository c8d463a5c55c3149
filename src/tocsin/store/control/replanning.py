"""Planned fires of a locked job that have not started: take them back, plan anew, write that down.

A cursor that moves back stands before fire times that were decided already. They ran, were called off or were
skipped, and must not come again; so a plan made here knows what was decided, and goes on past all of it: the
planner, which goes on from there, looks at no history.
"""

from collections.abc import Sequence
from typing import Final
from uuid import UUID

import msgspec

from tocsin.db.pool import Record, Session
from tocsin.db.rows import arrays
from tocsin.db.statements import named
from tocsin.db.turns import pass_turns
from tocsin.domain.blackout import Blackouts
from tocsin.domain.cells import CELL
from tocsin.domain.instant import SECOND, Instant
from tocsin.domain.job import CATCH_UP_PRIORITY
from tocsin.domain.planning import Fire, Plan, Skip, Terms, plan, plan_in_slices, terms_of
from tocsin.domain.policy import Policies
from tocsin.domain.schedule import Rule, Schedule
from tocsin.store.calendars import ranges_of
from tocsin.store.executions import hold_executions
from tocsin.store.misfires import decisions_of, missed_executions, write_decisions
from tocsin.store.plans import FIRE_COLUMNS, fire_columns, skip_entry
from tocsin.store.statements import sql

# The year 1; timestamptz does not reach much further back.
BEGINNING: Final[Instant] = -62_135_596_800 * SECOND
NOTHING: Final = Plan([], [], None)
_REPLAN = named("tocsin.store", "replan_job")
_MOST_BEYOND: Final = 1000  # fires planned ahead of their time so that a decision still further ahead is kept


async def take_back(session: Session, job_id: UUID, after: Instant) -> list[Instant]:
    """Take planned executions back that fire after `after` and have not started. Returns their fire times."""
    await hold_executions(session, [job_id])
    taken = await session.fetch(sql("take_back"), CELL, job_id, after)
    await pass_turns(
        session, CELL, [job_id]
    )  # runs beside the schedule, and backfills, stay and may have waited
    return [row["fire_at"] for row in taken]


def earliest(taken: Sequence[Instant], job: Record) -> Instant | None:
    """The cursor after planned fires were taken back: the earliest of them."""
    known = [*taken, job["next_fire_at"]] if job["next_fire_at"] is not None else taken
    return min(known, default=None)


def only_fire(fire: Instant, now: Instant) -> Plan:
    """The plan of a one-off: at its time, or now if that has passed."""
    return Plan([Fire(fire, max(fire, now))], [], None)


async def terms_from(
    session: Session,
    job: Record,
    cursor: Instant,
    schedule: Schedule,
    policies: Policies,
    fired: int,
    *,
    missed_reason: str | None = None,
) -> Terms:
    """The terms of a job that is planned from `cursor` on and has fired `fired` times before."""
    ranges = await ranges_of(session, job["tenant_id"], schedule.calendars)
    terms = terms_of(schedule, policies, job["id"], fired, ranges, missed_reason)
    missed = await missed_executions(session, [job["id"]])
    return msgspec.structs.replace(
        terms,
        decided=await decided_since(session, job["id"], cursor),
        planned=tuple(missed.get(job["id"], ())),
    )


async def decided_since(session: Session, job_id: UUID, cursor: Instant) -> Blackouts:
    """What was decided before the cursor moved back: fires that ran, were called off or were skipped are in
    history already and must not come again."""
    rows = await session.fetch(
        "SELECT fire_at, fire_until FROM history WHERE cell = $1 AND job_id = $2 AND fire_at >= $3"
        " UNION ALL SELECT fire_at, NULL FROM executions WHERE cell = $1 AND job_id = $2 AND fire_at >= $3",
        CELL,
        job_id,
        cursor,
    )
    return Blackouts((row["fire_at"], (row["fire_until"] or row["fire_at"]) + 1) for row in rows)


async def plan_all(
    session: Session, rule: Rule, cursor: Instant, terms: Terms, now: Instant, until: Instant
) -> Plan:
    """Plan until `until` is reached, however much was missed."""
    slices = plan_in_slices(rule, cursor, terms, now=now, until=until, limit=None)
    done = next(slices)
    for further in slices:
        done = further
        # Between two slices others have their turn, and the database hears that the transaction is alive.
        await session.execute("SELECT true")
    return done


async def plan_beyond(
    session: Session, rule: Rule, cursor: Instant, terms: Terms, now: Instant, until: Instant
) -> Plan:
    """Plan until `until`, and on past what was decided already, for example because a person skipped it: the
    planner goes on from there and looks at no history."""
    done = await plan_all(session, rule, cursor, terms, now, until)
    over_at = terms.decided.over_at
    if done.cursor is None or over_at is None or done.cursor >= over_at:
        return done
    more = plan(rule, done.cursor, terms.after(done), now=now, until=over_at - 1, limit=_MOST_BEYOND)
    return done.followed_by(more)


async def write_plan(session: Session, job_id: UUID, policies: Policies, done: Plan, taken: int = 0) -> None:
    """Write a plan of a locked job. `taken` fires were taken back before and count no longer."""
    fires = [fire_columns(fire, policies) for fire in done.fires]
    await session.execute(
        *_REPLAN.given(
            cell=CELL,
            job_id=job_id,
            cursor=done.cursor,
            fires_more=len(done.fires) - taken,
            **arrays(FIRE_COLUMNS, fires),
            skips=_skips(done.skips),
            catch_up_priority=CATCH_UP_PRIORITY,
        )
    )
    decisions = decisions_of(job_id, done.late, done.dropped, policies.misfire)
    await write_decisions(session, decisions)


async def skip_fires(session: Session, job_id: UUID, skips: Sequence[Skip]) -> None:
    """Write down what does not fire, and leave the cursor alone."""
    await session.execute(sql("skip_fires"), CELL, job_id, _skips(skips))


def _skips(skips: Sequence[Skip]) -> str:
    return msgspec.json.encode([skip_entry(skip) for skip in skips]).decode()
