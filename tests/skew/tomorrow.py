"""A made-up next version of Tocsin: what it writes into rows, adds to tables, says by notice, and can read
and run itself.

Its rows keep the promises that versions make to each other: kinds, words and fields may be new, columns and
tables may be added with a default, and nothing that exists changes its meaning.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, ClassVar
from uuid import UUID

import msgspec
import pytest

from tocsin.db.pool import Database, open_connection
from tocsin.domain import stored_job
from tocsin.domain.outcome import SUCCEEDED, Outcome
from tocsin.domain.policy import Policies
from tocsin.domain.schedule import Schedule
from tocsin.domain.stored import reader
from tocsin.domain.target import Target
from tocsin.queue import work
from tocsin.targets.assignment import Assignment

UNKNOWN_TARGET = """target = '{"kind": "teleport", "to": "the moon"}'"""
UNKNOWN = [
    UNKNOWN_TARGET,
    """policies = '{"retry": {"gravity": 9}}'""",
    """policies = '{"misfire": {"policy": "fire_some"}}'""",
    """policies = '{"overlap": "stack"}'""",
    """policies = '{"timeout": "a fortnight"}'""",
]
"""Changes of a job that this version can read no more."""
UNKNOWN_SCHEDULES = [
    """schedule = '{"lunar": "full moon"}'""",
    """schedule = '{"cron": "0 0 ? ? MOON"}'""",
    """policies = '{"misfire": {"policy": "fire_some"}}'""",
    """policies = '{"misfire": {"grace": "a fortnight"}}'""",
    """policies = '{"start_within": "a fortnight"}'""",
    """schedule = '{"every": "10s", "exclude": {"calendars": ["strange"]}}'""",
]
UNKNOWN_OFFSET = """schedule = '{"every": "10s", "jitter": "a fortnight"}'"""
UNKNOWN_ENDS = [
    "state = 'deferred'",
    """outcome = '{"verdict": "postponed"}'""",
    """attempts = '[{"number": 1, "verdict": "postponed"}]', attempt = 2""",
    """attempts = '[{"number": "first", "verdict": "failed"}]', attempt = 2""",
    """outcome = '{"verdict": "failed", "error": {"of": "tomorrow"}}'""",
]
"""What it writes about an execution that is over, and this version can read no more."""
NEW_WORDS_OF_ENDS = [
    "cause = 'tomorrow'",
    "late_for = 'tomorrow', started_at = run_at + interval '9 s'",
    """waits = '[{"for": "tomorrow", "since": 1, "until": 9000000, "of": "moon"}]'""",
    "reason = 'tomorrow', state = 'skipped'",
]
"""What it writes there and this version can pass on."""
NOTICES = ("teleported", "lanes:teleport", '{"route": "teleport"}', "", "ready teleported stop")
"""What it says on our channel."""
_END_ALL = """
    WITH ended AS (DELETE FROM executions RETURNING *)
    INSERT INTO history (cell, job_id, fire_at, tenant_id, queue, priority, cause, state, due_at, run_at, started_at,
                         finished_at, attempt)
    SELECT cell, job_id, fire_at, tenant_id, queue, priority, cause, 'dead', due_at, run_at, run_at,
           run_at + interval '10 s', attempt
    FROM ended"""
_TABLES = "SELECT relname FROM pg_class WHERE relnamespace = 'tocsin'::regnamespace AND relkind IN ('r', 'p') AND NOT relispartition"


async def write(database: Database, job_id: UUID, change: str) -> None:
    """The next version changes a job."""
    await database.execute(f"UPDATE jobs SET {change} WHERE id = $1", job_id)


async def teleport(database: Database, job_id: UUID) -> None:
    """The next version gives a job a target of the new kind, and its executions the new route."""
    await write(database, job_id, UNKNOWN_TARGET)
    await database.execute(
        "WITH moved AS (UPDATE executions SET route = 'teleport' WHERE job_id = $1 RETURNING *)"
        " INSERT INTO lanes (cell, queue, priority, tenant_id, route)"
        " SELECT cell, queue, priority, tenant_id, route FROM moved ON CONFLICT DO NOTHING",
        job_id,
    )


async def end_executions(url: str, change: str) -> None:
    """All executions ended, as the next version says: its migration knows more states and causes."""
    connection = await open_connection(url, name="test")
    await connection.execute("ALTER TABLE history DROP CONSTRAINT history_state_check")
    await connection.execute(_END_ALL)
    await connection.execute(f"UPDATE history SET {change}")
    await connection.close()


async def widen(database: Database) -> list[str]:
    """Its migration gives every table another column with a default. Returns the tables."""
    tables = [row["relname"] for row in await database.fetch(_TABLES)]
    for table in tables:
        await database.execute(f"ALTER TABLE {table} ADD COLUMN of_tomorrow text NOT NULL DEFAULT 'new'")
    return tables


class TeleportTarget(
    msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag_field="kind", tag="teleport"
):
    """A kind of target that does not exist yet."""

    answers_at_once: ClassVar[bool] = False
    to: str


class PoliciesOfTomorrow(Policies, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """Policies with one field more."""

    gravity: float | None = None


class ScheduleOfTomorrow(
    Schedule, frozen=True, forbid_unknown_fields=True, omit_defaults=True, rename={"in_": "in"}
):
    """Schedules with one field more."""

    lunar: str | None = None


class Teleporter:
    """Calls the new kind."""

    def __init__(self) -> None:
        self.called: list[Assignment] = []

    def host(self, target: TeleportTarget) -> None: ...

    async def call(self, assignment: Assignment, target: TeleportTarget, timeout: float) -> Outcome:
        assert target.to == "the moon"
        self.called.append(assignment)
        return SUCCEEDED


@contextmanager
def rules() -> Iterator[None]:
    """This process reads jobs as the next version does."""
    target: Any = Target | TeleportTarget
    with pytest.MonkeyPatch.context() as patch:
        for module in (stored_job, work):
            patch.setattr(module, "read_target", reader(target, "target"))
        patch.setattr(stored_job, "parse_schedule", reader(ScheduleOfTomorrow, "schedule"))
        patch.setattr(stored_job, "parse_policies", reader(PoliciesOfTomorrow, "policies"))
        _forget()
        yield
    _forget()


def _forget() -> None:
    work._read.cache_clear()
    stored_job.read_policies.cache_clear()
    stored_job.read_schedule.cache_clear()
