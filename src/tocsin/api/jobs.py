"""``/v1/jobs``: create, find, read, change, delete. Routes that stop and start a job are in `control`."""

import hashlib
from collections import defaultdict
from typing import Any, TypeAlias
from uuid import UUID

import msgspec

from tocsin.api.connections import check_connection_of
from tocsin.api.counting import CAP, cap_of
from tocsin.api.definitions import (
    as_created,
    check_calendars,
    new_job,
    patched,
    read_definition,
    stored_definition,
    tell_created,
)
from tocsin.api.endpoint import BOOLEAN, CURSOR, INSTANT, LIMIT, ApiCall, Endpoint, Parameter, Reply
from tocsin.api.forecast import note_of_peak
from tocsin.api.grpc_targets import with_descriptors
from tocsin.api.listing import listing
from tocsin.api.quota import too_many_jobs
from tocsin.api.readable import readable
from tocsin.api.unique_jobs import enter, unique_key
from tocsin.api.wire import jobs as wire
from tocsin.api.wire.control import CancelAnswer
from tocsin.api.wire.executions import Execution, ExecutionPage, JobExecutionPlace, execution_view, name_of
from tocsin.api.wire.pages import decode_cursor, encode_cursor
from tocsin.api.wire.stats import Count
from tocsin.domain.errors import Conflict, NotFound, Refused, Stale
from tocsin.domain.ids import ExecutionKey, execution_text, job_text, parse_job_text
from tocsin.domain.instant import Instant
from tocsin.domain.job import MAX_NAME, Definition, check_text
from tocsin.domain.job_order import SORTS
from tocsin.domain.keys import Scope
from tocsin.domain.target_kind import KINDS
from tocsin.store.job_listing import JobFilter, JobPlace
from tocsin.store.jobs import NewJob
from tocsin.store.repeats import Once, Repeated
from tocsin.store.stats import OVERDUE
from tocsin.tracing import Tracing

_STATES = ("active", "paused", "completed", "cancelled")
_TRIES = 5
_RECENT = 20
Recent: TypeAlias = defaultdict[UUID, list[Any]]
"""The rows of jobs' last outcomes."""


async def create(call: ApiCall) -> Reply:
    """Check everything, then write once."""
    context, now = call.context, call.context.clock.now()
    key = _idempotency_key(call)
    # The hash is of the request as it was understood, so that spelling and order do not matter.
    digest = b"" if key is None else hashlib.sha256(msgspec.json.encode(call.body, order="sorted")).digest()
    # A repetition gets its answer although there is no room for another job, or its schedule is over by now.
    first = None if key is None else await context.jobs.first_answer(call.asker.tenant_id, key, digest)
    if first is not None:
        call.changed_nothing()
        return _repeated(first)
    definition = read_definition(call.body, call, now)
    await check_calendars(definition, call)
    await check_connection_of(definition.target, call)
    definition = await with_descriptors(definition, call)
    job = new_job(definition, call, now, key)
    answer = await _noted(call, as_created(job, now), now)
    unique = unique_key(call.body, job, now)
    await admit(call)
    if unique is not None:
        once = None if key is None else Once(job.tenant_id, key, digest)
        try:
            shown, status = await enter(call, job, answer, unique, once)
        except Repeated:
            return _repeated(await context.jobs.known_answer(job.tenant_id, key or "", digest))
        return _tagged(shown, status)
    if key is None:
        await context.intake.define(job)
    else:
        text = msgspec.json.encode(answer).decode()
        first = await context.jobs.define_once(job, key, digest, text, now)
        if first is not None:
            return _repeated(first)
    context.telemetry.created.inc()
    tell_created(call, answer.id, definition.kind)
    if context.telemetry.tracing is not None:
        _trace(call, job, context.telemetry.tracing, now)
    return _tagged(answer)


async def _noted(call: ApiCall, answer: wire.Job, now: Instant) -> wire.Job:
    """With a note if it joins a peak, unless there is something else to say."""
    if answer.note is not None:
        return answer
    peak = await note_of_peak(call.context, call.asker.tenant_id, answer.schedule, now)
    return msgspec.structs.replace(answer, note=peak)


def _trace(call: ApiCall, job: NewJob, tracing: Tracing, began: Instant) -> None:
    """The creation as a part of the caller's trace. A one-off's execution is known already."""
    once = job.definition.kind == "once"
    execution = execution_text(ExecutionKey(job.id, job.fire_at)) if once else None
    tracing.created(
        call.headers.get("traceparent"), job_text(job.id), execution, began, call.context.clock.now()
    )


async def list_jobs(call: ApiCall) -> wire.JobPage:
    """A page of jobs."""
    rows, cursor = await page_of_jobs(call, call.limit())
    recent: Recent | None = None
    if call.choice("with", ("recent",)) is not None:
        recent = await _recent(call, [row["id"] for row in rows])

    def view_of(row: Any) -> wire.Job:
        shown = wire.job_view(row)
        return shown if recent is None else wire.with_recent(shown, recent[row["id"]])

    return listing(wire.JobPage, rows, view_of, lambda row: job_text(row["id"]), next_cursor=cursor)


async def page_of_jobs(call: ApiCall, limit: int) -> tuple[list[Any], str | None]:
    """The rows of a page as its parameters ask for it, and where the next one begins."""
    sort = call.choice("sort", SORTS) or "created"
    place = decode_cursor(call.query.get("cursor"), wire.JobListPlace)
    if place and place[0] != sort:
        raise Refused("the cursor is of another order of the listing", field="cursor")
    after = JobPlace(*place[1:]) if place else None
    listing = call.context.job_listing
    page = await listing.page(call.asker.tenant_id, filter_of(call), after, limit, sort)
    place = page.next
    return page.rows, None if place is None else encode_cursor((sort, place.id, place.name, place.at))


async def count_jobs(call: ApiCall) -> Count:
    """How many jobs match."""
    number, capped = await call.context.job_listing.count(call.asker.tenant_id, filter_of(call), cap_of(call))
    return Count(number, capped)


def filter_of(call: ApiCall) -> JobFilter:
    """What the listing's parameters narrow it to."""
    overdue = call.choice("overdue", ("true", "false")) == "true"
    return JobFilter(
        state=call.choice("state", _STATES),
        kind=call.choice("kind", ("once", "recurring")),
        queue=call.query.get("queue"),
        tags=call.words("tag"),
        any_tag=call.choice("tag_match", ("all", "any")) == "any",
        name=call.query.get("name"),
        target=call.choice("target", KINDS),
        created_from=call.instant("created_from"),
        created_to=call.instant("created_to"),
        next_fire_from=call.instant("next_fire_from"),
        next_fire_to=call.instant("next_fire_to"),
        unplanned_since=call.context.clock.now() - OVERDUE if overdue else None,
    )


async def _recent(call: ApiCall, ids: list[UUID]) -> Recent:
    """The last outcomes of a page of jobs, read in one statement."""
    found: Recent = defaultdict(list)
    for row in await call.context.executions.recent(call.asker.tenant_id, ids, _RECENT):
        found[row["job_id"]].append(row)
    return found


async def show(call: ApiCall) -> Reply:
    """One job."""
    job_id = job_id_of(call)
    shown = await view(call, job_id)
    if call.choice("with", ("recent",)) is not None:
        recent = await _recent(call, [job_id])
        with readable(call, "job's last outcomes"):
            shown = wire.with_recent(shown, recent[job_id])
    return _tagged(shown)


async def show_by_name(call: ApiCall) -> Reply:
    """The recurring job of a name."""
    name = call.path["name"]
    job_id = await call.context.jobs.by_name(call.asker.tenant_id, name)
    if job_id is None:
        raise NotFound(f"no recurring job named {name[:200]!r}")
    return _tagged(await view(call, job_id))


async def update(call: ApiCall) -> Reply:
    """Change some fields. Without If-Match the change is applied to whatever is there."""
    job_id, expected = job_id_of(call), _expected_version(call)
    for last in (False,) * (_TRIES - 1) + (True,):
        row = await call.context.jobs.get(call.asker.tenant_id, job_id)
        if expected is not None and expected != row["version"]:
            raise Stale(f"the job is at version {row['version']}, not {expected}; read it again")
        definition = patched(row, call.body, call, call.context.clock.now())
        try:
            await _replace(call, job_id, definition, row["version"])
            break
        except Stale:
            if expected is not None or last:
                raise
    return _tagged(await view(call, job_id))


async def put_by_name(call: ApiCall) -> Reply:
    """Create the recurring job of a name, or make it what the body says: for declarative clients."""
    name = call.path["name"]
    check_text(name, "name", MAX_NAME)
    if call.body.name not in (None, name):
        raise Refused("the name in the body is not the one in the address", field="name")
    now = call.context.clock.now()
    definition = read_definition(msgspec.structs.replace(call.body, name=name), call, now)
    if definition.kind != "recurring":
        raise Refused("only recurring jobs have unique names", field="schedule")
    await check_calendars(definition, call)
    await check_connection_of(definition.target, call)
    definition = await with_descriptors(definition, call)
    for _ in range(_TRIES):
        job_id = await call.context.jobs.by_name(call.asker.tenant_id, name)
        try:
            if job_id is None:
                await admit(call)
                job = new_job(definition, call, now)
                await call.context.intake.define(job)
                tell_created(call, job_text(job.id), definition.kind)
                return _tagged(await _noted(call, as_created(job, now), now), status=201)
            row = await call.context.jobs.get(call.asker.tenant_id, job_id)
            with call.noting_job(job_id, "job.update"):
                if stored_definition(row) != definition:
                    await _replace(call, job_id, definition, None)  # of several at once the last one stays
            return _tagged(await view(call, job_id))
        except (Stale, NotFound):
            continue
        except Conflict as conflict:
            if conflict.field != "name":
                raise
    raise Conflict("others keep changing this job; try again")


async def delete(call: ApiCall) -> CancelAnswer:
    """Remove a job; its history stays."""
    dry_run = call.choice("dry_run", ("true", "false")) == "true"
    if dry_run:
        call.changed_nothing()
    done = await call.context.cancelling.delete(call.asker.tenant_id, job_id_of(call), dry_run=dry_run)
    return CancelAnswer(None, done.cancelled, done.asked_to_stop, done.not_retried, dry_run)


async def executions(call: ApiCall) -> ExecutionPage:
    """Executions of one job, latest first."""
    limit, job_id = call.limit(), job_id_of(call)
    before = decode_cursor(call.query.get("cursor"), JobExecutionPlace)
    rows = await call.context.executions.of_job(call.asker.tenant_id, job_id, before, limit)
    if not rows and before is None:
        await call.context.jobs.get(call.asker.tenant_id, job_id)  # 404 unless it is there
    last = rows[-1] if len(rows) == limit else None
    cursor = None if last is None else encode_cursor((last["fire_at"], last["state"] != "skipped"))
    names = await call.context.jobs.names(call.asker.tenant_id, {job_id})

    def view_of(row: Any) -> Execution:
        return execution_view(row, names.get(job_id))

    return listing(ExecutionPage, rows, view_of, name_of, next_cursor=cursor)


async def view(call: ApiCall, job_id: UUID) -> wire.Job:
    """A job as it stands now."""
    row = await call.context.jobs.get(call.asker.tenant_id, job_id)
    with readable(call, "job"):
        return wire.job_view(row)


def job_id_of(call: ApiCall) -> UUID:
    """The job in the path."""
    return parse_job_text(call.path["job_id"])


async def admit(call: ApiCall, wanted: int = 1) -> int:
    """How many new jobs the tenant may have; refused if none."""
    limit = call.asker.limits.pending_jobs
    admitted = await call.context.pending.admit(call.asker.tenant_id, limit, wanted)
    if wanted and not admitted and limit is not None:
        raise too_many_jobs(limit)
    return admitted


async def _replace(call: ApiCall, job_id: UUID, definition: Definition, version: int | None) -> None:
    await check_calendars(definition, call)
    await check_connection_of(definition.target, call)
    definition = await with_descriptors(definition, call)
    now = call.context.clock.now()
    await call.context.changing.update(call.asker.tenant_id, job_id, definition, now, version=version)


def _tagged(job: wire.Job, status: int | None = None) -> Reply:
    return Reply(job, status, {"etag": f'"{job.version}"'})


def _repeated(first: str) -> Reply:
    """The answer that a key got the first time."""
    job = msgspec.json.decode(first, type=wire.Job)
    return Reply(job, headers={"etag": f'"{job.version}"', "idempotent-replayed": "true"})


def _expected_version(call: ApiCall) -> int | None:
    """The version in If-Match. Anything that is not a version of ours matches nothing."""
    text = call.headers.get("if-match")
    if text is None or text.strip() == "*":
        return None
    digits = text.strip().removeprefix("W/").strip('"')
    return int(digits) if digits.isascii() and digits.isdigit() and len(digits) < 10 else -1


def _idempotency_key(call: ApiCall) -> str | None:
    header, field = call.headers.get("idempotency-key"), call.body.idempotency_key
    if header is not None and field is not None and header != field:
        raise Refused("the header Idempotency-Key has another key", field="idempotency_key")
    key: str | None = field if header is None else header
    check_text(key, "idempotency_key", wire.MAX_IDEMPOTENCY_KEY)
    return key


FILTERS = (
    Parameter("state", "Only jobs in this state", {"type": "string", "enum": list(_STATES)}),
    Parameter("kind", "Only one-offs or recurring jobs", {"type": "string", "enum": ["once", "recurring"]}),
    Parameter("queue", "Only jobs of this queue"),
    Parameter("tag", "Only jobs with these tags, separated by commas"),
    Parameter("tag_match", "Whether all of the tags must be there, or any", {"type": "string", "enum": ["all", "any"]}),
    Parameter("name", "Only jobs whose name contains this, in any case"),
    Parameter("target", "Only jobs with this kind of target", {"type": "string", "enum": list(KINDS)}),
    Parameter("created_from", "Only jobs created at this instant or later", INSTANT),
    Parameter("created_to", "Only jobs created before this instant", INSTANT),
    Parameter("next_fire_from", "Only jobs whose next fire is at this instant or later", INSTANT),
    Parameter("next_fire_to", "Only jobs whose next fire is before this instant", INSTANT),
    Parameter("overdue", "`true`: only recurring jobs whose next fire was due a minute ago and is not planned", BOOLEAN),
)  # fmt: skip
SORT = Parameter(
    "sort", "Newest first, or recurring ones by name or next fire", {"type": "string", "enum": list(SORTS)}
)
_WITH = Parameter(
    "with",
    "Add the schedule in words, the last 20 outcomes and what they say",
    {"type": "string", "enum": ["recent"]},
)
_JOB = "/v1/jobs/{job_id}"
_ETAG = ("ETag",)
_BY_NAME = "/v1/jobs/by-name/{name}"
ENDPOINTS = (
    Endpoint(
        method="POST", path="/v1/jobs", handler=create, summary="Create a job", body=wire.NewJob, answer=wire.Job,
        status=201, other_statuses=(200,), scope=Scope.WRITE, refusals=(409,), answer_headers=(*_ETAG, "Idempotent-Replayed"),
        request_headers={"Idempotency-Key": wire.IdempotencyKey},
    ),
    Endpoint(
        method="GET", path="/v1/jobs", handler=list_jobs, summary="List jobs, newest first", answer=wire.JobPage,
        parameters=(
            LIMIT, CURSOR, *FILTERS, SORT, _WITH,
        ),
    ),
    Endpoint(
        method="GET", path="/v1/jobs/count", handler=count_jobs, summary="How many jobs match", answer=Count,
        parameters=(*FILTERS, CAP),
    ),
    Endpoint(
        method="GET", path=_BY_NAME, handler=show_by_name, summary="Show a recurring job by its name",
        answer=wire.Job, refusals=(404,), answer_headers=_ETAG,
    ),
    Endpoint(
        method="PUT", path=_BY_NAME, handler=put_by_name, body=wire.JobBody, answer=wire.Job,
        summary="Create a recurring job, or make the one of this name what the body says (201 when created)",
        other_statuses=(201,), scope=Scope.WRITE, refusals=(409,), answer_headers=_ETAG,
    ),
    Endpoint(
        method="GET", path=_JOB, handler=show, summary="Show a job", answer=wire.Job, refusals=(404,),
        answer_headers=_ETAG, parameters=(_WITH,),
    ),
    Endpoint(
        method="PATCH", path=_JOB, handler=update, body=wire.JobPatch, answer=wire.Job,
        summary="Change a job in place; what is planned but not started is planned anew",
        scope=Scope.WRITE, refusals=(404, 409, 412), answer_headers=_ETAG,
        request_headers={"If-Match": str},
    ),
    Endpoint(
        method="DELETE", path=_JOB, handler=delete, summary="Delete a job; its history stays",
        answer=CancelAnswer, scope=Scope.WRITE, refusals=(404,),
        parameters=(Parameter("dry_run", "Change nothing; say what would be called off", {"type": "string", "enum": ["true", "false"]}),),
    ),
    Endpoint(
        method="GET", path=_JOB + "/executions", handler=executions, summary="Executions of a job, latest first",
        answer=ExecutionPage, parameters=(LIMIT, CURSOR), refusals=(404,),
    ),
)  # fmt: skip
