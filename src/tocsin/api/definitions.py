"""From what a user wrote to a checked definition, and from a definition to what the user gets to see."""

from typing import Any

import msgspec
import structlog

from tocsin.api.endpoint import ApiCall
from tocsin.api.wire import jobs as wire
from tocsin.domain import stored_job
from tocsin.domain.addresses import AddressPolicy, parse_target_url
from tocsin.domain.cells import partition_for
from tocsin.domain.errors import Refused, Unavailable, Unreadable
from tocsin.domain.grpc_target import GrpcTarget, grpc_place
from tocsin.domain.http_auth import OAuth2Auth
from tocsin.domain.ids import job_text, new_job_id, shard_of
from tocsin.domain.instant import Instant, format_instant, parse_instant
from tocsin.domain.job import Definition, check_definition
from tocsin.domain.limits import check_interval, check_payload
from tocsin.domain.plain_secrets import check_plain_secrets
from tocsin.domain.policy import Policies
from tocsin.domain.schedule import read_schedule, rule_of
from tocsin.domain.script_target import ScriptTarget, check_rules
from tocsin.domain.target import HttpTarget, Target, check_target
from tocsin.store.calendars import ranges_of
from tocsin.store.jobs import NewJob

_log = structlog.get_logger()


def read_definition(new: wire.JobBody, call: ApiCall, now: Instant) -> Definition:
    """Check everything that can be checked without the database."""
    definition = wire.definition_of(new, read_schedule(new.schedule, now))
    check_plain_secrets(definition.target)
    return _checked(definition, call, now)


def patched(current: Any, patch: wire.JobPatch, call: ApiCall, now: Instant) -> Definition:
    """A stored job's definition with the fields of a patch in place of its own."""
    known = stored_definition(current)
    given = {
        name: value
        for name in patch.__struct_fields__
        if (value := getattr(patch, name)) is not msgspec.UNSET
    }
    if "schedule" in given:
        given["schedule"] = read_schedule(given["schedule"], now)
    if "target" in given:  # one that was stored before this was refused stays as it is
        check_plain_secrets(given["target"])
    if "tags" in given:
        given["tags"] = tuple(given["tags"] or ())
    policies = {name: given.pop(name) for name in Policies.__struct_fields__ if name in given}
    if "misfire" in policies:
        policies["misfire"] = wire.misfire_of(policies["misfire"])
    changed = msgspec.structs.replace(known.policies, **policies)
    return _checked(msgspec.structs.replace(known, policies=changed, **given), call, now)


def stored_definition(row: Any) -> Definition:
    """The definition in a job's row. A definition that this version cannot read may be had from a newer API
    process."""
    try:
        schedule = stored_job.parse_schedule(row["schedule"])
        target = stored_job.read_target(row["target"])
        policies = stored_job.parse_policies(row["policies"])
    except Unreadable as error:
        raise Unavailable(f"{error.detail}; a newer version wrote it") from None
    words = row["name"], row["description"], row["queue"], row["priority"]
    return Definition(schedule, target, *words, tuple(row["tags"]), policies)


async def check_calendars(definition: Definition, call: ApiCall) -> None:
    """Refuse a definition that names a calendar which is not there."""
    names = definition.schedule.calendars
    await ranges_of(call.context.database, call.asker.tenant_id, names, must_exist=True)


def check_callable(target: Target, call: ApiCall) -> None:
    """Refuse a target that no job could have."""
    check_target(target)
    _check_reach(target, call)


def new_job(definition: Definition, call: ApiCall, now: Instant, key: str | None = None) -> NewJob:
    """A job on its way into the database. Its name, if that is unique, or the idempotency key chooses its
    partition."""
    word = definition.name if definition.name is not None and definition.kind == "recurring" else key
    job_id = new_job_id(now, None if word is None else partition_for(word))
    fire_at = _first_fire(definition, now)
    shard = shard_of(job_id, call.context.shard_count)
    origin = None if call.trail is None else call.trail.creates()
    return NewJob(job_id, call.asker.tenant_id, shard, definition, fire_at, max(fire_at, now), origin, now)


def as_created(job: NewJob, now: Instant) -> wire.Job:
    """The answer to a creation, without asking the database for what we just wrote."""
    definition = job.definition
    policies = definition.policies
    late = definition.kind == "once" and job.fire_at < now
    stamp = format_instant(now)
    return wire.Job(
        id=job_text(job.id),
        name=definition.name,
        description=definition.description,
        kind=definition.kind,
        state="active",
        state_reason=None,
        paused_until=None,
        schedule=definition.schedule,
        target=definition.target,
        queue=definition.queue,
        priority=definition.priority,
        tags=list(definition.tags),
        timeout=policies.timeout,
        start_within=policies.start_within,
        retry=wire.retry_view(policies.retry),
        misfire=wire.misfire_view(policies.misfire),
        overlap=policies.overlap,
        limit=policies.limit,
        precision=policies.precision,
        pause_after=policies.pause_after,
        next_fire_at=format_instant(job.fire_at),
        fire_count=0,
        managed_by=None,
        version=1,
        created_at=stamp,
        updated_at=stamp,
        note="the instant has passed; the job is due now" if late else None,
    )


def _checked(definition: Definition, call: ApiCall, now: Instant) -> Definition:
    check_definition(definition)
    check_interval(call.asker.limits, definition.schedule, now)
    _check_reach(definition.target, call)
    return definition


def _check_reach(target: Target, call: ApiCall) -> None:
    """Refuse what the tenant or this installation does not call."""
    check_payload(call.asker.limits, target)
    if isinstance(target, HttpTarget):
        _check_addresses(target, call.context.policy)
    elif isinstance(target, GrpcTarget):
        call.context.policy.check_literal(grpc_place(target), "target.address")
    elif isinstance(target, ScriptTarget):
        check_rules(target, call.context.scripts)


def _check_addresses(target: HttpTarget, policy: AddressPolicy) -> None:
    policy.check_literal(parse_target_url(target.url))
    if isinstance(target.auth, OAuth2Auth):
        field = "target.auth.token_url"
        policy.check_literal(parse_target_url(target.auth.token_url, field), field)


def _first_fire(definition: Definition, now: Instant) -> Instant:
    """A recurring job's first fire lies in the future; a one-off's is what was asked for, even if past."""
    if definition.schedule.at is not None:
        return parse_instant(definition.schedule.at, "schedule.at")
    fire_at = rule_of(definition.schedule).next_fire(now)
    if fire_at is None:
        raise Refused("the schedule never fires", field="schedule")
    return fire_at


def tell_created(call: ApiCall, job: str, kind: str) -> None:
    """A line in the log. One-offs are created by the thousand a second, and a line for each would be most of
    the work: theirs is for debugging."""
    tell = _log.info if kind == "recurring" else _log.debug
    tell("job.created", job=job, tenant=call.asker.tenant_id, request_id=call.request.id)
