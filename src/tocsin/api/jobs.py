"""``/v1/jobs``: create, read, control."""

from uuid import UUID

from tocsin.api import wire
from tocsin.api.endpoint import CURSOR, LIMIT, Call, Endpoint, Parameter
from tocsin.domain.addresses import parse_target_url
from tocsin.domain.errors import Refused
from tocsin.domain.ids import job_text, new_job_id, parse_job_text, shard_of
from tocsin.domain.instant import Instant, format_instant
from tocsin.domain.job import Definition, check_definition
from tocsin.domain.keys import Scope
from tocsin.domain.schedule import read_schedule, rule_of
from tocsin.domain.target import HttpTarget
from tocsin.store.jobs import JobFilter, NewJob

_STATES = ("active", "paused", "completed", "cancelled")


async def create(call: Call) -> wire.Job:
    """Check everything, then write once."""
    context, now = call.context, call.context.clock.now()
    definition = _definition(call.body, call, now)
    fire_at = _first_fire(definition, now)
    job_id = new_job_id(now)
    await context.intake.define(
        NewJob(
            job_id,
            call.caller.tenant_id,
            shard_of(job_id, context.shard_count),
            definition,
            fire_at,
            due_at=max(fire_at, now),
        )
    )
    context.telemetry.created.inc()
    return _as_created(job_id, definition, fire_at, now)


async def list_jobs(call: Call) -> wire.JobPage:
    """A page of jobs."""
    where = JobFilter(
        call.choice("state", _STATES),
        call.choice("kind", ("once", "recurring")),
        call.query.get("queue"),
        call.query.get("tag"),
        call.query.get("name"),
    )
    limit = call.limit()
    before = wire.decode_cursor(call.query.get("cursor"), UUID)
    rows = await call.context.jobs.list(call.caller.tenant_id, where, before, limit)
    cursor = wire.encode_cursor(rows[-1]["id"]) if len(rows) == limit else None
    return wire.JobPage(cursor, [wire.job_view(row) for row in rows])


async def show(call: Call) -> wire.Job:
    """One job."""
    return await _view(call, _job_id(call))


async def delete(call: Call) -> wire.CancelAnswer:
    """Remove a job; its history stays."""
    done = await call.context.control.delete(call.caller.tenant_id, _job_id(call))
    return wire.CancelAnswer(None, done.cancelled, done.asked_to_stop)


async def cancel(call: Call) -> wire.CancelAnswer:
    """End a job: nothing of it starts any more."""
    job_id = _job_id(call)
    done = await call.context.control.cancel(
        call.caller.tenant_id, job_id, call.reason() or "cancelled by a user"
    )
    return wire.CancelAnswer(await _view(call, job_id), done.cancelled, done.asked_to_stop)


async def pause(call: Call) -> wire.PauseAnswer:
    """Hold a job's fires."""
    job_id = _job_id(call)
    held = await call.context.control.pause(call.caller.tenant_id, job_id, call.reason())
    return wire.PauseAnswer(await _view(call, job_id), held)


async def resume(call: Call) -> wire.ResumeAnswer:
    """Let a job fire again."""
    job_id = _job_id(call)
    done = await call.context.control.resume(call.caller.tenant_id, job_id, call.context.clock.now())
    skipped = sum(skip.count for skip in done.skips)
    return wire.ResumeAnswer(await _view(call, job_id), len(done.fires), skipped)


async def run(call: Call) -> wire.Execution:
    """Fire a job now."""
    tenant_id = call.caller.tenant_id
    key = await call.context.control.run(tenant_id, _job_id(call), call.context.clock.now())
    return wire.execution_view(await call.context.executions.get(tenant_id, key))


async def executions(call: Call) -> wire.ExecutionPage:
    """Executions of one job, latest first."""
    limit, job_id = call.limit(), _job_id(call)
    before = wire.decode_cursor(call.query.get("cursor"), wire.CursorInstant)
    rows = await call.context.executions.of_job(call.caller.tenant_id, job_id, before, limit)
    if not rows and before is None:
        await call.context.jobs.get(call.caller.tenant_id, job_id)  # 404 unless it is there
    cursor = wire.encode_cursor(rows[-1]["fire_at"]) if len(rows) == limit else None
    return wire.ExecutionPage(cursor, [wire.execution_view(row) for row in rows])


def _definition(new: wire.NewJob, call: Call, now: Instant) -> Definition:
    definition = wire.definition_of(new, read_schedule(new.schedule, now))
    check_definition(definition)
    if isinstance(definition.target, HttpTarget):
        call.context.policy.check_literal(parse_target_url(definition.target.url))
    return definition


def _first_fire(definition: Definition, now: Instant) -> Instant:
    """A recurring job's first fire lies in the future; a one-off's is what was asked for, even if past."""
    after = now if definition.schedule.recurring else -(1 << 62)
    fire_at = rule_of(definition.schedule).next_fire(after)
    if fire_at is None:
        raise Refused("the schedule never fires", field="schedule")
    return fire_at


def _as_created(job_id: UUID, definition: Definition, fire_at: Instant, now: Instant) -> wire.Job:
    """The answer to a creation, without asking the database for what we just wrote."""
    policies = definition.policies
    late = definition.kind == "once" and fire_at < now
    stamp = format_instant(now)
    return wire.Job(
        id=job_text(job_id),
        name=definition.name,
        description=definition.description,
        kind=definition.kind,
        state="active",
        state_reason=None,
        schedule=definition.schedule,
        target=definition.target,
        queue=definition.queue,
        priority=definition.priority,
        tags=list(definition.tags),
        timeout=policies.timeout,
        start_within=policies.start_within,
        retry=policies.retry,
        misfire=policies.misfire,
        overlap=policies.overlap,
        next_fire_at=format_instant(fire_at),
        version=1,
        created_at=stamp,
        updated_at=stamp,
        note="the instant has passed; the job is due now" if late else None,
    )


async def _view(call: Call, job_id: UUID) -> wire.Job:
    return wire.job_view(await call.context.jobs.get(call.caller.tenant_id, job_id))


def _job_id(call: Call) -> UUID:
    return parse_job_text(call.path["job_id"])


_JOB = "/v1/jobs/{job_id}"
ENDPOINTS = (
    Endpoint(
        method="POST", path="/v1/jobs", handler=create, summary="Create a job", body=wire.NewJob, answer=wire.Job,
        status=201, scope=Scope.WRITE, refusals=(409,),
    ),
    Endpoint(
        method="GET", path="/v1/jobs", handler=list_jobs, summary="List jobs, newest first", answer=wire.JobPage,
        parameters=(
            LIMIT, CURSOR,
            Parameter("state", "Only jobs in this state", {"type": "string", "enum": list(_STATES)}),
            Parameter("kind", "Only one-offs or recurring jobs", {"type": "string", "enum": ["once", "recurring"]}),
            Parameter("queue", "Only jobs of this queue"),
            Parameter("tag", "Only jobs with this tag"),
            Parameter("name", "Only jobs whose name contains this, in any case"),
        ),
    ),
    Endpoint(method="GET", path=_JOB, handler=show, summary="Show a job", answer=wire.Job, refusals=(404,)),
    Endpoint(
        method="DELETE", path=_JOB, handler=delete, summary="Delete a job; its history stays",
        answer=wire.CancelAnswer, scope=Scope.WRITE, refusals=(404,),
    ),
    Endpoint(
        method="POST", path=_JOB + "/cancel", handler=cancel, summary="End a job: nothing of it starts any more",
        answer=wire.CancelAnswer, body=wire.Reason, body_required=False, scope=Scope.WRITE, refusals=(404, 409),
    ),
    Endpoint(
        method="POST", path=_JOB + "/pause", handler=pause, summary="Hold a job's fires", answer=wire.PauseAnswer,
        body=wire.Reason, body_required=False, scope=Scope.WRITE, refusals=(404, 409),
    ),
    Endpoint(
        method="POST", path=_JOB + "/resume", handler=resume, summary="Let a paused job fire again",
        answer=wire.ResumeAnswer, body=wire.Nothing, body_required=False, scope=Scope.WRITE, refusals=(404, 409),
    ),
    Endpoint(
        method="POST", path=_JOB + "/run", handler=run, summary="Fire a job now", answer=wire.Execution, status=202,
        body=wire.Nothing, body_required=False, scope=Scope.WRITE, refusals=(404, 409),
    ),
    Endpoint(
        method="GET", path=_JOB + "/executions", handler=executions, summary="Executions of a job, latest first",
        answer=wire.ExecutionPage, parameters=(LIMIT, CURSOR), refusals=(404,),
    ),
)  # fmt: skip
