"""Jobs: the bodies that define and change one, the answer that shows one, and the ways between these and the
domain.

An answer spells every default out; a body need not. What stops and starts a job is in `control`.
"""

from functools import lru_cache
from itertools import takewhile
from typing import Annotated, Any, Final, Literal
from uuid import UUID

import msgspec
from msgspec import UNSET, Meta, UnsetType

from tocsin.api.wire.executions import state_of
from tocsin.api.wire.pages import CursorInstant, Page
from tocsin.api.wire.scalars import Name, Time, time_of
from tocsin.api.wire.schedules import WrittenSchedule
from tocsin.domain import stored_job
from tocsin.domain.ids import ExecutionKey, ExecutionText, JobText, execution_text, job_text
from tocsin.domain.instant import MILLISECOND, format_instant
from tocsin.domain.job import DEFAULT_PRIORITY, DEFAULT_QUEUE, MAX_DESCRIPTION, MAX_TAG, MAX_TAGS, Definition
from tocsin.domain.lifecycle import State
from tocsin.domain.policy import (
    Limit,
    Misfire,
    MisfirePolicy,
    Overlap,
    PauseAfter,
    Policies,
    Precision,
    Retry,
    StartWithin,
)
from tocsin.domain.preview import explanation
from tocsin.domain.schedule import Schedule
from tocsin.domain.target import Target
from tocsin.domain.written import WrittenName, WrittenSpan, WrittenTimeout, at_most, line, lines

MAX_IDEMPOTENCY_KEY: Final = 255
MAX_UNIQUE: Final = 200
JobListPlace = tuple[str, UUID, str | None, CursorInstant | None]
Description = Annotated[str, lines(MAX_DESCRIPTION)]
Tags = Annotated[list[Annotated[str, line(MAX_TAG, without=",")]], at_most(MAX_TAGS, uniqueItems=True)]
UniqueText = Annotated[str, line(MAX_UNIQUE)]
IdempotencyKey = Annotated[str, line(MAX_IDEMPOTENCY_KEY)]


class JobBody(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A job as it shall be."""

    schedule: Annotated[
        WrittenSchedule,
        Meta(
            description="When: one of at, in, now, every, cron; a bare string with an instant or a cron expression;"
            " or a list of these"
        ),
    ]
    target: Annotated[Target, Meta(description="What is called")]
    name: Name | None = None
    description: Description | None = None
    queue: WrittenName = DEFAULT_QUEUE
    priority: Annotated[int, Meta(ge=0, le=9, description="0 is the most urgent")] = DEFAULT_PRIORITY
    tags: Tags = []
    timeout: WrittenTimeout | None = None
    start_within: StartWithin | None = None
    retry: Retry = Retry()
    misfire: Misfire | MisfirePolicy = Misfire()
    overlap: Overlap = Overlap.ALLOW
    limit: Limit | None = None
    precision: Precision = Precision.NORMAL
    pause_after: PauseAfter | None = None


class NewJob(JobBody, frozen=True):
    """A job to create. With `unique` or `debounce` one one-off is live under a key at a time, among those of
    one kind of target, for tasks of one task."""

    idempotency_key: IdempotencyKey | None = None
    unique: (
        Annotated[UniqueText, Meta(description="While a job with this key is live, it is the answer")] | None
    ) = None
    debounce: (
        Annotated[UniqueText, Meta(description="A job with this key that has not started is pushed back")]
        | None
    ) = None
    max_wait: Annotated[WrittenSpan, Meta(description="How long debounce pushes back in all")] | None = None


class JobPatch(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Fields of a job to change; the others stay. Nested objects are replaced whole."""

    schedule: WrittenSchedule | UnsetType = UNSET
    target: Target | UnsetType = UNSET
    name: Name | UnsetType | None = UNSET
    description: Description | UnsetType | None = UNSET
    queue: WrittenName | UnsetType = UNSET
    priority: Annotated[int, Meta(ge=0, le=9)] | UnsetType = UNSET
    tags: Tags | UnsetType = UNSET
    timeout: WrittenTimeout | UnsetType | None = UNSET
    start_within: StartWithin | UnsetType | None = UNSET
    retry: Retry | UnsetType = UNSET
    misfire: Misfire | MisfirePolicy | UnsetType = UNSET
    overlap: Overlap | UnsetType = UNSET
    limit: Limit | UnsetType | None = UNSET
    precision: Precision | UnsetType = UNSET
    pause_after: PauseAfter | UnsetType | None = UNSET


class RetryView(Retry, frozen=True, omit_defaults=False):
    """A retry policy with its defaults spelled out."""


class MisfireView(Misfire, frozen=True, omit_defaults=False):
    """A misfire policy with its defaults spelled out."""


class RecentFire(msgspec.Struct, frozen=True):
    """How one of a job's last executions ended."""

    id: ExecutionText
    fire_at: Time
    state: State
    late_ms: float | None
    run_ms: float | None
    reason: str | None


class Job(msgspec.Struct, frozen=True, kw_only=True):
    """A job as it stands."""

    id: JobText
    name: str | None
    description: str | None
    kind: str
    state: str
    state_reason: str | None
    paused_until: Time | None
    schedule: Schedule
    target: Target
    queue: str
    priority: int
    tags: list[str]
    timeout: WrittenTimeout | None
    start_within: StartWithin | None
    retry: RetryView
    misfire: MisfireView
    overlap: Overlap
    limit: Limit | None
    precision: Precision
    pause_after: int | None
    next_fire_at: Time | None
    fire_count: int
    managed_by: str | None
    """The owner that declares the job, if there is one: no other owner changes it."""
    version: int
    created_at: Time
    updated_at: Time
    note: str | None = None
    outcome: Literal["created", "existed", "moved"] | UnsetType = UNSET
    """In the answer to a creation under `unique` or `debounce`: what became of it."""
    due_at: Time | UnsetType = UNSET
    """There: when the job is due now."""
    schedule_words: str | UnsetType = UNSET
    """The schedule in words, where a listing asked for it."""
    recent: list[RecentFire] | UnsetType = UNSET
    """The last finished executions, latest first, where a listing asked for them."""
    last_fire_at: Time | UnsetType | None = UNSET
    """The latest of these that ran, and how it ended."""
    last_state: State | UnsetType | None = UNSET
    last_error: str | UnsetType | None = UNSET
    """Of the latest that failed, if none succeeded since."""
    consecutive_failures: int | UnsetType = UNSET
    """How many of these failed since the last that succeeded; 20 means 20 or more."""


class JobPage(Page, frozen=True, kw_only=True):
    """Jobs, newest first."""

    items: list[Job]


def recent_fire(row: Any) -> RecentFire:
    """A finished execution in short. Lateness is told of first attempts."""
    started, retried = row["started_at"], row["retried"]
    return RecentFire(
        execution_text(ExecutionKey(row["job_id"], row["fire_at"])),
        format_instant(row["fire_at"]),
        state_of(row),
        None if started is None or retried else (started - row["due_at"]) / MILLISECOND,
        None if started is None else (row["finished_at"] - started) / MILLISECOND,
        row["reason"],
    )


def with_recent(job: Job, rows: list[Any]) -> Job:
    """A job with its last outcomes and what they say. What was skipped or called off says nothing about
    it."""
    recent = [recent_fire(row) for row in rows]
    ran = [fire for fire in recent if fire.state not in (State.SKIPPED, State.CANCELLED)]
    failed = list(takewhile(lambda fire: fire.state != State.SUCCEEDED, ran))
    return msgspec.structs.replace(
        job,
        schedule_words=explanation(job.schedule),
        recent=recent,
        last_fire_at=ran[0].fire_at if ran else None,
        last_state=ran[0].state if ran else None,
        last_error=failed[0].reason if failed else None,
        consecutive_failures=len(failed),
    )


def definition_of(new: JobBody, schedule: Schedule) -> Definition:
    """The domain's view of a request."""
    policies = Policies(
        new.retry,
        misfire_of(new.misfire),
        new.overlap,
        new.timeout,
        new.start_within,
        new.limit,
        new.precision,
        new.pause_after,
    )
    return Definition(
        schedule, new.target, new.name, new.description, new.queue, new.priority, tuple(new.tags), policies
    )


def misfire_of(written: Misfire | MisfirePolicy) -> Misfire:
    """A bare policy name stands for the policy with its defaults."""
    return written if isinstance(written, Misfire) else Misfire(written)


def job_view(row: Any) -> Job:
    """A job from its row."""
    policies = stored_job.parse_policies(row["policies"])
    return Job(
        id=job_text(row["id"]),
        name=row["name"],
        description=row["description"],
        kind=row["kind"],
        state=row["state"],
        state_reason=row["state_reason"],
        paused_until=time_of(row["paused_until"]),
        schedule=stored_job.parse_schedule(row["schedule"]),
        target=stored_job.read_target(row["target"]),
        queue=row["queue"],
        priority=row["priority"],
        tags=list(row["tags"]),
        timeout=policies.timeout,
        start_within=policies.start_within,
        retry=retry_view(policies.retry),
        misfire=misfire_view(policies.misfire),
        overlap=policies.overlap,
        limit=policies.limit,
        precision=policies.precision,
        pause_after=policies.pause_after,
        next_fire_at=time_of(row["next_fire_at"]) if row["state"] in ("active", "paused") else None,
        fire_count=row["fire_count"],
        managed_by=row["managed_by"],
        version=row["version"],
        created_at=format_instant(row["created_at"]),
        updated_at=format_instant(row["updated_at"]),
    )


@lru_cache(maxsize=1024)
def retry_view(retry: Retry) -> RetryView:
    """A retry policy with its defaults written out."""
    return RetryView(**msgspec.structs.asdict(retry))


@lru_cache(maxsize=1024)
def misfire_view(misfire: Misfire) -> MisfireView:
    """A misfire policy with its defaults written out."""
    return MisfireView(**msgspec.structs.asdict(misfire))
