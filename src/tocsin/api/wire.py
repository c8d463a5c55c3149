"""What travels over the API: request bodies, answers, cursors. Types only, and how rows become them."""

import base64
import binascii
from typing import Annotated, Any
from uuid import UUID

import msgspec
from msgspec import Meta

from tocsin.api.endpoint import MAX_REASON
from tocsin.domain.errors import Refused
from tocsin.domain.ids import ExecutionKey, execution_text, job_text
from tocsin.domain.instant import MILLISECOND, Instant, format_instant, parse_instant
from tocsin.domain.job import DEFAULT_PRIORITY, DEFAULT_QUEUE, Definition
from tocsin.domain.lifecycle import State
from tocsin.domain.outcome import Attempt, Outcome, Verdict
from tocsin.domain.policy import Misfire, MisfirePolicy, Overlap, Policies, Retry
from tocsin.domain.schedule import Schedule
from tocsin.domain.target import Target

Time = Annotated[str, Meta(extra_json_schema={"format": "date-time"})]
# Cursors name instants. These bounds are the years that can be written; PostgreSQL's own lie beyond them.
CursorInstant = Annotated[
    int,
    Meta(ge=parse_instant("0001-01-01T00:00:00Z", ""), le=parse_instant("9999-12-31T23:59:59.999999Z", "")),
]
ExecutionPlace = tuple[UUID, CursorInstant, CursorInstant | None]


class NewJob(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A job to create."""

    schedule: Annotated[
        Schedule | str,
        Meta(
            description="When: one of at, in, now, every, cron; or a bare string with an instant or a cron expression"
        ),
    ]
    target: Annotated[Target, Meta(description="What is called")]
    name: str | None = None
    description: str | None = None
    queue: str = DEFAULT_QUEUE
    priority: Annotated[int, Meta(ge=0, le=9, description="0 is the most urgent")] = DEFAULT_PRIORITY
    tags: list[str] = []
    timeout: str | float | None = None
    start_within: str | float | None = None
    retry: Retry = Retry()
    misfire: Misfire | MisfirePolicy = Misfire()
    overlap: Overlap = Overlap.ALLOW


class Job(msgspec.Struct, frozen=True, kw_only=True):
    """A job as it stands."""

    id: str
    name: str | None
    description: str | None
    kind: str
    state: str
    state_reason: str | None
    schedule: Schedule
    target: Target
    queue: str
    priority: int
    tags: list[str]
    timeout: str | float | None
    start_within: str | float | None
    retry: Retry
    misfire: Misfire
    overlap: Overlap
    next_fire_at: Time | None
    version: int
    created_at: Time
    updated_at: Time
    note: str | None = None


class AttemptView(msgspec.Struct, frozen=True, kw_only=True):
    """One try at an execution."""

    number: int
    verdict: Verdict | None
    started_at: Time | None
    finished_at: Time | None
    duration_ms: float | None
    node: int | None
    error: str | None
    detail: dict[str, Any] | None


class Execution(msgspec.Struct, frozen=True, kw_only=True):
    """One firing of a job."""

    id: str
    job_id: str
    state: State
    cause: str
    queue: str
    priority: int
    fire_at: Time
    due_at: Time
    run_at: Time
    started_at: Time | None
    finished_at: Time | None
    lag_ms: float | None
    attempt: int
    reason: str | None
    cancel_requested: bool
    fire_until: Time | None = None
    fire_count: int = 1
    attempts: list[AttemptView] = []


class Page(msgspec.Struct, frozen=True):
    """What pages have in common."""

    next_cursor: str | None


class JobPage(Page, frozen=True):
    """Jobs, newest first."""

    items: list[Job]


class ExecutionPage(Page, frozen=True):
    """Executions."""

    items: list[Execution]


class Reason(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Why something is done, for whoever reads it later."""

    reason: Annotated[str, Meta(min_length=1, max_length=MAX_REASON)] | None = None


class Nothing(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The body of an action that takes no instructions: none, or an empty object."""


class CancelAnswer(msgspec.Struct, frozen=True):
    """What a cancellation did."""

    job: Job | None
    cancelled: int
    asked_to_stop: int


class PauseAnswer(msgspec.Struct, frozen=True):
    """What a pause took back out of the queue."""

    job: Job
    held: int


class ResumeAnswer(msgspec.Struct, frozen=True):
    """What resuming fired at once and left out."""

    job: Job
    fired: int
    skipped: int


class Shard(msgspec.Struct, frozen=True):
    """A shard and who leases it."""

    shard: int
    epoch: int
    owner: int | None
    node: str | None
    expires_at: Time | None


class NodeView(msgspec.Struct, frozen=True):
    """A process of the fleet."""

    id: int
    name: str
    roles: list[str]
    version: str
    alive: bool
    shards: int
    started_at: Time
    seen_at: Time


class Shards(msgspec.Struct, frozen=True):
    """All shards."""

    items: list[Shard]


class Nodes(msgspec.Struct, frozen=True):
    """The fleet."""

    items: list[NodeView]


class Health(msgspec.Struct, frozen=True):
    """Whether this process is well."""

    status: str
    detail: str | None = None


def definition_of(new: NewJob, schedule: Schedule) -> Definition:
    """The domain's view of a request."""
    misfire = new.misfire if isinstance(new.misfire, Misfire) else Misfire(new.misfire)
    policies = Policies(new.retry, misfire, new.overlap, new.timeout, new.start_within)
    return Definition(
        schedule, new.target, new.name, new.description, new.queue, new.priority, tuple(new.tags), policies
    )


def job_view(row: Any, note: str | None = None) -> Job:
    """A job from its row."""
    policies = msgspec.json.decode(row["policies"], type=Policies)
    return Job(
        id=job_text(row["id"]),
        name=row["name"],
        description=row["description"],
        kind=row["kind"],
        state=row["state"],
        state_reason=row["state_reason"],
        schedule=msgspec.json.decode(row["schedule"], type=Schedule),
        target=msgspec.json.decode(row["target"], type=Target),
        queue=row["queue"],
        priority=row["priority"],
        tags=list(row["tags"]),
        timeout=policies.timeout,
        start_within=policies.start_within,
        retry=policies.retry,
        misfire=policies.misfire,
        overlap=policies.overlap,
        next_fire_at=time_of(row["next_fire_at"]) if row["state"] in ("active", "paused") else None,
        version=row["version"],
        created_at=format_instant(row["created_at"]),
        updated_at=format_instant(row["updated_at"]),
        note=note,
    )


def execution_view(row: Any, *, attempts: bool = False) -> Execution:
    """An execution from its row, live or finished."""
    started = _first_start(row)
    return Execution(
        id=execution_text(ExecutionKey(row["job_id"], row["fire_at"])),
        job_id=job_text(row["job_id"]),
        state=State(row["state"]),
        cause=row["cause"],
        queue=row["queue"],
        priority=row["priority"],
        fire_at=format_instant(row["fire_at"]),
        due_at=format_instant(row["due_at"]),
        run_at=format_instant(row["run_at"]),
        started_at=time_of(row["started_at"]),
        finished_at=time_of(row["finished_at"]),
        lag_ms=None if started is None else (started - row["due_at"]) / MILLISECOND,
        attempt=row["attempt"],
        reason=row["reason"],
        cancel_requested=row["cancel_requested"],
        fire_until=time_of(row["fire_until"]),
        fire_count=row["fire_count"],
        attempts=_attempts(row) if attempts else [],
    )


def time_of(instant: Instant | None) -> str | None:
    """An instant as text, if there is one."""
    return None if instant is None else format_instant(instant)


def encode_cursor(place: object) -> str:
    """A cursor: opaque to callers, self-contained for us."""
    return base64.urlsafe_b64encode(msgspec.json.encode(place)).decode().rstrip("=")


def decode_cursor(text: str | None, kind: Any) -> Any:
    """The place a cursor names, of the type `kind`."""
    if text is None:
        return None
    try:
        raw = base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
        return msgspec.json.decode(raw, type=kind)
    except (ValueError, binascii.Error, msgspec.DecodeError):
        raise Refused(
            "not a cursor of this listing; use next_cursor as it was given", field="cursor"
        ) from None


def _first_start(row: Any) -> Instant | None:
    """When the first attempt started: lag is about that, not about retries."""
    if row["attempts"] is None:
        start: Instant | None = row["started_at"]
        return start
    earlier = msgspec.json.decode(row["attempts"], type=list[Attempt])
    return earlier[0].started_at if earlier else row["started_at"]


def _attempts(row: Any) -> list[AttemptView]:
    earlier = msgspec.json.decode(row["attempts"], type=list[Attempt]) if row["attempts"] else []
    views = [_attempt_view(attempt) for attempt in earlier]
    if row["started_at"] is not None:
        views.append(_attempt_view(_last_attempt(row), running=row["finished_at"] is None))
    return views


def _last_attempt(row: Any) -> Attempt:
    verdict = Verdict.SUCCEEDED if row["state"] == "succeeded" else Verdict.FAILED
    outcome = msgspec.json.decode(row["outcome"], type=Outcome) if row["outcome"] else Outcome(verdict)
    return Attempt(
        row["attempt"],
        outcome.verdict,
        row["started_at"],
        row["finished_at"],
        row["node_id"],
        outcome.error,
        outcome.detail,
    )


def _attempt_view(attempt: Attempt, *, running: bool = False) -> AttemptView:
    took = None
    if attempt.started_at is not None and attempt.finished_at is not None:
        took = (attempt.finished_at - attempt.started_at) / MILLISECOND
    return AttemptView(
        number=attempt.number,
        verdict=None if running else attempt.verdict,
        started_at=time_of(attempt.started_at),
        finished_at=time_of(attempt.finished_at),
        duration_ms=took,
        node=attempt.node_id,
        error=attempt.error,
        detail=attempt.detail,
    )
