"""What becomes of executions that were planned in time and have been missed.

A worker that is about to start one finds that its grace is over, and asks here. Everything that the job has
missed is decided at once, by the same rule as in planning (`domain.misfire`), whichever workers have claimed
it: which runs late depends on what else was missed. The job is locked meanwhile, against the planner, other
workers and users. Where the planner itself has fallen behind with the job there is more that was missed than
was ever planned; such jobs are left to it, and it takes what was planned along.

Nothing is started here. What runs goes into the catch-up lane, what does not run goes to history, and both at
once or not at all.

Where no worker starts anything, because a queue is paused for weeks or a job's last worker is gone, none asks
either. There the forgetter has `drop` remove fires that cannot run any more, even if workers come back.
"""

from collections.abc import Iterable, Iterator, Sequence
from datetime import timedelta
from itertools import chain
from typing import Any, Final
from uuid import UUID

import msgspec

from tocsin.db.pool import Database, Record, Session, columns
from tocsin.db.rows import arrays
from tocsin.db.statements import named
from tocsin.db.turns import pass_turns
from tocsin.domain.cells import CELL
from tocsin.domain.errors import Unreadable
from tocsin.domain.instant import Instant, parse_span
from tocsin.domain.job import CATCH_UP_PRIORITY
from tocsin.domain.misfire import Dropped, Late, Missed, decide
from tocsin.domain.policy import Misfire
from tocsin.domain.schedule import offset_of
from tocsin.domain.stored_job import read_policies, read_schedule
from tocsin.store.statements import sql

MOST_AT_ONCE: Final = 5000
"""Of one job: more than any policy keeps, so that each step decides some."""
_DECIDE = named("tocsin.store", "decide_missed")
_COLUMNS: Final = ("job_ids", "fire_ats", "reasons", "waits", "graces")
_MOST_PER_STEP: Final = 20_000
_MOST_DROPPED: Final = 2_000
"""For `drop`, which no caller waits for."""

Decision = tuple[UUID, Late | Dropped, Misfire]


class Decided(msgspec.Struct, frozen=True):
    """How many executions run late, how many do not run, which jobs are left to the planner, and whether
    there is more to decide."""

    late: int = 0
    dropped: int = 0
    behind: frozenset[UUID] = frozenset()
    more: bool = False


class MisfireStore:
    """Missed executions of one cell."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def decide(self, jobs: Sequence[tuple[int, UUID]], now: Instant) -> Decided:
        """Decide about all that these jobs, named with their tenants, have missed. Those that another
        transaction has locked are left out."""
        async with self._database.transaction() as session:
            misfires, behind = await _hold(session, jobs, now)
            missed = await missed_executions(session, list(misfires))
            decisions, more = _decide(missed, misfires, now)
            late, dropped = await write_decisions(session, decisions)
        return Decided(late, dropped, behind, more)

    async def drop(self, jobs: Sequence[tuple[int, UUID]], now: Instant) -> int:
        """Write down what does not run of what these jobs have missed, whenever the rest is decided: what is
        too old already, and what later ones push out. Whatever may run stays as it is. Returns how many are
        gone."""
        async with self._database.transaction() as session:
            misfires, _ = await _hold(session, jobs, now)
            missed = await missed_executions(session, list(misfires))
            _, dropped = await write_decisions(session, _surely_dropped(missed, misfires, now))
        return dropped


def decisions_of(
    job_id: UUID, late: Sequence[Late], dropped: Sequence[Dropped], misfire: Misfire
) -> Iterator[Decision]:
    """What becomes of executions of one job, as it is written down."""
    some: Iterable[Late | Dropped] = chain(late, dropped)
    return ((job_id, one, misfire) for one in some)


async def missed_executions(
    session: Database | Session, job_ids: Sequence[UUID], most: int = MOST_AT_ONCE
) -> dict[UUID, list[Missed]]:
    """What these jobs have missed of what was planned, and what runs late and has not started, earliest
    first."""
    if not job_ids:
        return {}
    found: dict[UUID, list[Missed]] = {}
    for job_id, *missed in await session.fetch(sql("missed_executions"), CELL, job_ids, most):
        found.setdefault(job_id, []).append(Missed(*missed))
    return found


async def write_decisions(session: Session, decisions: Iterable[Decision]) -> tuple[int, int]:
    """Write down what becomes of executions of locked jobs. Returns how many run late, and how many do not
    run. An execution that waited behind one of the latter has its turn."""
    rows = sorted((_row(*decision) for decision in decisions), key=lambda row: row[:2])
    if not rows:
        return 0, 0
    given = arrays(_COLUMNS, rows)
    await session.execute(sql("hold_missed"), CELL, given["job_ids"], given["fire_ats"])
    done = await session.fetchrow(*_DECIDE.given(cell=CELL, **given, catch_up_priority=CATCH_UP_PRIORITY))
    assert done is not None  # noqa: S101 - it always returns a row
    await pass_turns(session, CELL, done["passed_on"] or ())
    return done["late"], done["dropped"]


async def _hold(
    session: Session, jobs: Sequence[tuple[int, UUID]], now: Instant
) -> tuple[dict[UUID, Misfire], frozenset[UUID]]:
    """Lock jobs. Returns the policies of those about which can be decided here, and the others."""
    rows = await session.fetch(sql("hold_late_jobs"), CELL, *columns(sorted(set(jobs)), 2))
    found = {row["id"]: _misfire(row, now) for row in rows}
    misfires = {job_id: misfire for job_id, misfire in found.items() if misfire is not None}
    return misfires, frozenset(found.keys() - misfires.keys())


def _surely_dropped(
    missed: dict[UUID, list[Missed]], misfires: dict[UUID, Misfire], now: Instant
) -> Iterator[Decision]:
    left = _MOST_DROPPED
    for job_id, planned in missed.items():
        if left <= 0:
            return
        _, dropped = decide(planned, misfires[job_id], now, more=True)
        left -= len(dropped)
        yield from decisions_of(job_id, (), dropped, misfires[job_id])


def _decide(
    missed: dict[UUID, list[Missed]], misfires: dict[UUID, Misfire], now: Instant
) -> tuple[list[Decision], bool]:
    decisions: list[Decision] = []
    more = False
    for job_id, planned in missed.items():
        if len(decisions) >= _MOST_PER_STEP:
            return decisions, True
        misfire, cut = misfires[job_id], len(planned) == MOST_AT_ONCE
        late, dropped = decide(planned, misfire, now, more=cut)
        decisions += decisions_of(job_id, late, dropped, misfire)
        more = more or cut
    return decisions, more


def _row(job_id: UUID, decision: Late | Dropped, misfire: Misfire) -> tuple[Any, ...]:
    grace = timedelta(microseconds=parse_span(misfire.grace, "misfire.grace"))
    if isinstance(decision, Dropped):
        return job_id, decision.at, decision.reason, None, grace
    return job_id, decision.at, None, timedelta(microseconds=decision.wait), grace


def _misfire(job: Record, now: Instant) -> Misfire | None:
    """The policy by which a job's missed executions are decided here. None if the planner has yet to decide
    about fire times that were missed, too; or if only newer nodes can read the job."""
    try:
        misfire = read_policies(job["policies"]).misfire
        offset = offset_of(read_schedule(job["schedule"]), job["id"])
    except Unreadable:
        return None
    behind = job["cursor"] is not None and job["cursor"] + offset < misfire.live_from(now)
    return None if behind else misfire
