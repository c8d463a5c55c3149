"""What travels over the API: request bodies, answers, cursors. Types only, and how rows become them."""

import base64
import binascii
from functools import lru_cache
from typing import Annotated, Any, Final
from uuid import UUID

import msgspec
from msgspec import UNSET, Meta, UnsetType

from tocsin.api.endpoint import MAX_REASON
from tocsin.domain.backfill import Mode, Order
from tocsin.domain.blackout import MAX_RANGES, CalendarRange
from tocsin.domain.errors import Refused
from tocsin.domain.explain import Facts
from tocsin.domain.ids import ExecutionKey, ExecutionText, JobText, execution_text, job_text
from tocsin.domain.instant import MILLISECOND, Instant, format_instant, parse_instant
from tocsin.domain.job import (
    DEFAULT_PRIORITY,
    DEFAULT_QUEUE,
    MAX_DESCRIPTION,
    MAX_NAME,
    MAX_TAG,
    MAX_TAGS,
    Definition,
)
from tocsin.domain.keys import Scope
from tocsin.domain.lifecycle import State
from tocsin.domain.limits import Count, Rate, TenantLimits
from tocsin.domain.outcome import Attempt, Outcome, Verdict
from tocsin.domain.policy import (
    Limit,
    Misfire,
    MisfirePolicy,
    Overlap,
    Policies,
    Precision,
    Retry,
    StartWithin,
)
from tocsin.domain.schedule import MAX_RULES, Schedule
from tocsin.domain.secrets import SecretText
from tocsin.domain.target import Target
from tocsin.domain.tenant import MAX_WEIGHT, TenantState
from tocsin.domain.written import (
    UpToADay,
    UpToAMonth,
    UpToAnHour,
    WrittenInstant,
    WrittenName,
    WrittenSpan,
    WrittenTimeout,
    at_most,
    described,
    line,
    lines,
)

Time = WrittenInstant
# Cursors name instants. These bounds are the years that can be written; PostgreSQL's own lie beyond them.
CursorInstant = Annotated[
    int,
    Meta(ge=parse_instant("0001-01-01T00:00:00Z", ""), le=parse_instant("9999-12-31T23:59:59.999999Z", "")),
]
CursorNumber = Annotated[int, Meta(ge=0, le=(1 << 62))]
MAX_IDEMPOTENCY_KEY: Final = 255
ExecutionPlace = tuple[UUID, CursorInstant, CursorInstant | None]
JobExecutionPlace = tuple[CursorInstant, bool]

Name = Annotated[str, line(MAX_NAME)]
Description = Annotated[str, lines(MAX_DESCRIPTION)]
Tags = Annotated[list[Annotated[str, line(MAX_TAG, without=",")]], at_most(MAX_TAGS, uniqueItems=True)]
IdempotencyKey = Annotated[str, line(MAX_IDEMPOTENCY_KEY)]
BareSchedule = Annotated[
    str, described(format="schedule", examples=["2030-01-31T09:00:00Z", "0 9 * * MON-FRI"])
]
WrittenSchedule = (
    Schedule | BareSchedule | Annotated[list[Schedule | BareSchedule], at_most(MAX_RULES, minItems=1)]
)


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


class NewJob(JobBody, frozen=True):
    """A job to create."""

    idempotency_key: IdempotencyKey | None = None


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


class RetryView(Retry, frozen=True, omit_defaults=False):
    """A retry policy with its defaults spelled out."""


class MisfireView(Misfire, frozen=True, omit_defaults=False):
    """A misfire policy with its defaults spelled out."""


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
    next_fire_at: Time | None
    fire_count: int
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

    id: ExecutionText
    job_id: JobText
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
    rerun_of: ExecutionText | None = None
    backfill: int | None = None
    fire_until: Time | None = None
    fire_count: int = 1
    attempts: list[AttemptView] = []


class Page(msgspec.Struct, frozen=True):
    """What pages have in common."""

    next_cursor: str | None


class JobPage(Page, frozen=True):
    """Jobs, newest first."""

    items: list[Job]


class BackfillPage(Page, frozen=True):
    """Backfills, newest first."""

    items: list["Backfill"]


class ExecutionPage(Page, frozen=True):
    """Executions."""

    items: list[Execution]


class Reason(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Why something is done, for whoever reads it later."""

    reason: Annotated[str, line(MAX_REASON)] | None = None


class Pause(Reason, frozen=True):
    """A pause, for good or until an instant."""

    until: Time | None = None


class Resume(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """With `dry_run` nothing is changed."""

    dry_run: bool = False


class Run(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """With `override_overlap` it runs although the job must not overlap."""

    override_overlap: bool = False


class PreviewRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A schedule to look at before it is saved."""

    schedule: WrittenSchedule
    after: Time | None = None
    limit: Annotated[int, Meta(ge=1, le=1000)] = 10


class CalendarRanges(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The ranges of a calendar."""

    ranges: Annotated[list[CalendarRange], Meta(max_length=MAX_RANGES)]


class Calendar(msgspec.Struct, frozen=True):
    """A named calendar."""

    name: str
    ranges: list[CalendarRange]
    updated_at: Time


class Calendars(msgspec.Struct, frozen=True):
    """All calendars of a tenant."""

    items: list[Calendar]


class SecretValue(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The value of a secret, on its way in."""

    value: SecretText


class Secret(msgspec.Struct, frozen=True):
    """A secret, without its value."""

    name: str
    updated_at: Time


class SecretPage(Page, frozen=True):
    """Secrets, by name."""

    items: list[Secret]


class Reseal(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Which secrets to encrypt anew: the first, or those after `cursor`."""

    cursor: str | None = None


class UnopenedSecret(msgspec.Struct, frozen=True):
    """A secret that could not be opened, and stays as it is. A webhook secret is called ``webhook/<version>``."""

    tenant: str
    name: str
    key_id: str
    reason: str


class ResealAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """What was encrypted anew, under which key. `remaining` are still under another one."""

    key_id: str
    secrets: int
    webhook_secrets: int
    unopened: list[UnopenedSecret]
    remaining: int
    next_cursor: str | None


class WebhookSecret(msgspec.Struct, frozen=True):
    """What requests are signed with. `expires_at` is null for the newest."""

    secret: str
    created_at: Time
    expires_at: Time | None


class WebhookSecrets(msgspec.Struct, frozen=True):
    """The live signing secrets, newest first."""

    items: list[WebhookSecret]


class NewBackfill(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename={"from_": "from"}):
    """A past range to run."""

    from_: Time
    to: Time
    mode: Mode = Mode.MISSING
    order: Order = Order.OLDEST_FIRST
    pace: UpToAnHour = 0
    max_parallel: Annotated[int, Meta(ge=1, le=10_000)] = 10
    dry_run: bool = False


class Backfill(msgspec.Struct, frozen=True, kw_only=True, rename={"from_": "from"}):
    """A backfill and how far it has come."""

    id: int
    job_id: JobText
    state: str
    from_: Time
    to: Time
    mode: Mode
    order: Order
    pace: str
    max_parallel: int
    total: int
    queued: int
    left_out: int
    live: int
    finished: int
    created_at: Time
    finished_at: Time | None


class BackfillAnswer(msgspec.Struct, frozen=True):
    """What a backfill runs, or would run."""

    backfill: Backfill | None
    total: int
    fire_times: list[Time]
    """The first hundred."""


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
    dry_run: bool
    fired: int
    skipped: int
    fire_times: list[Time]
    """The missed fire times that run, the first hundred of them."""


class SkipAnswer(msgspec.Struct, frozen=True):
    """Which fire was left out."""

    job: Job
    skipped: Time


class Explanation(msgspec.Struct, frozen=True):
    """Why an execution waited, was late, was skipped, or is where it is."""

    execution: "Execution"
    explanation: list[str]


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


class LimitsPatch(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Limits of a tenant. What is not given stays; null lets the installation's default apply."""

    pending_jobs: Count | UnsetType | None = UNSET
    payload_bytes: Count | UnsetType | None = UNSET
    min_interval: UpToADay | UnsetType | None = UNSET
    requests_per_second: Rate | UnsetType | None = UNSET
    request_burst: Count | UnsetType | None = UNSET
    in_flight: Count | UnsetType | None = UNSET
    fires_per_second: Rate | UnsetType | None = UNSET


class Limits(TenantLimits, frozen=True, omit_defaults=False):
    """Limits with every field spelled out; null is none."""


class NewTenant(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A tenant to create."""

    name: WrittenName
    weight: Annotated[int, Meta(ge=1, le=MAX_WEIGHT)] = 1
    limits: LimitsPatch = LimitsPatch()


class TenantPatch(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What to change of a tenant."""

    weight: Annotated[int, Meta(ge=1, le=MAX_WEIGHT)] | UnsetType = UNSET
    limits: LimitsPatch | UnsetType = UNSET


class Tenant(msgspec.Struct, frozen=True):
    """A tenant. `limits` are its own, `limits_in_force` those and the installation's defaults."""

    name: str
    state: TenantState
    state_reason: str | None
    weight: int
    limits: Limits
    limits_in_force: Limits
    created_at: Time
    updated_at: Time


class TenantPage(Page, frozen=True):
    """Tenants, by name."""

    items: list[Tenant]


class NewKey(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A key to make."""

    name: Name
    scopes: Annotated[list[Scope], Meta(min_length=1, max_length=4)]
    tenant: WrittenName | None = None
    expires_at: Time | None = None
    expires_in: WrittenSpan | None = None


class Rotation(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How long the old one stays valid beside the new one."""

    overlap: UpToAMonth = "1d"


class Key(msgspec.Struct, frozen=True, kw_only=True):
    """A key, without its secret. `prefix` is how its text begins."""

    id: str
    prefix: str
    name: str
    tenant: str
    scopes: list[Scope]
    valid: bool
    created_at: Time
    expires_at: Time | None
    last_used_at: Time | None
    revoked_at: Time | None
    replaced_by: str | None


class FreshKey(msgspec.Struct, frozen=True):
    """A key that was just made, with its text: shown once."""

    key: Key
    text: str


class KeyPage(Page, frozen=True):
    """Keys, by id."""

    items: list[Key]


class AuditEntry(msgspec.Struct, frozen=True, kw_only=True):
    """Something that was done. Values that may hold a secret are masked."""

    at: Time
    tenant: str | None
    actor: str
    action: str
    object: str
    before: Any
    after: Any
    request_id: str | None
    address: str | None


class AuditPage(Page, frozen=True):
    """Entries of the audit log, latest first."""

    items: list[AuditEntry]


class Health(msgspec.Struct, frozen=True):
    """Whether this process is well."""

    status: str
    detail: str | None = None


def limits_of(patch: LimitsPatch) -> TenantLimits:
    """The limits that a request gives."""
    return msgspec.convert(msgspec.to_builtins(patch), TenantLimits)


def limits_view(limits: TenantLimits) -> Limits:
    """Limits as they are shown."""
    return Limits(**msgspec.structs.asdict(limits))


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
    )
    return Definition(
        schedule, new.target, new.name, new.description, new.queue, new.priority, tuple(new.tags), policies
    )


def misfire_of(written: Misfire | MisfirePolicy) -> Misfire:
    """A bare policy name stands for the policy with its defaults."""
    return written if isinstance(written, Misfire) else Misfire(written)


@lru_cache(maxsize=1024)
def retry_view(retry: Retry) -> RetryView:
    """A retry policy with its defaults written out."""
    return RetryView(**msgspec.structs.asdict(retry))


@lru_cache(maxsize=1024)
def misfire_view(misfire: Misfire) -> MisfireView:
    """A misfire policy with its defaults written out."""
    return MisfireView(**msgspec.structs.asdict(misfire))


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
        paused_until=time_of(row["paused_until"]),
        schedule=msgspec.json.decode(row["schedule"], type=Schedule),
        target=msgspec.json.decode(row["target"], type=Target),
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
        next_fire_at=time_of(row["next_fire_at"]) if row["state"] in ("active", "paused") else None,
        fire_count=row["fire_count"],
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
        rerun_of=_origin(row),
        backfill=row["backfill_id"],
        fire_until=time_of(row["fire_until"]),
        fire_count=row["fire_count"],
        attempts=_attempts(row) if attempts else [],
    )


def facts_of(row: Any) -> Facts:
    """What `explain` needs to know of an execution."""
    earlier = msgspec.json.decode(row["attempts"], type=list[Attempt]) if row["attempts"] else []
    return Facts(
        state=State(row["state"]),
        cause=row["cause"],
        due_at=row["due_at"],
        run_at=row["run_at"],
        started_at=row["started_at"],
        finished_at=row["finished_at"],
        deadline_at=row["deadline_at"],
        attempt=row["attempt"],
        attempts=earlier,
        reason=row["reason"],
        cancel_requested=row["cancel_requested"],
        start_by=row["start_by"],
        overlap=row["overlap"],
        limit_key=row["limit_key"],
        waits_for=row["waits_for"],
    )


def _origin(row: Any) -> str | None:
    """The execution that this one runs again."""
    origin = row["origin_fire_at"]
    return None if origin is None else execution_text(ExecutionKey(row["job_id"], origin))


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
