"""``/v1/declarations``: all recurring jobs of an owner at once, as a program or a file declares them.

A declaration is compared with what is there first: what would be created, changed, removed and refused, and
what that does to the fires of the next days. If anything is refused, nothing is written. Then it is carried
out job by job; `store.declaring` sees to it that two owners never change each other's jobs, and that an older
revision does not undo a newer one.
"""

import asyncio
from collections import Counter
from collections.abc import Sequence
from operator import itemgetter
from typing import Any, Final
from uuid import UUID

import msgspec
from msgspec.structs import replace

from tocsin.api.connections import check_connection_of
from tocsin.api.definitions import check_calendars, new_job, read_definition, stored_definition, tell_created
from tocsin.api.endpoint import ApiCall, Endpoint
from tocsin.api.grpc_targets import with_descriptors
from tocsin.api.listing import listing
from tocsin.api.problems import document_of
from tocsin.api.quota import too_many_jobs
from tocsin.api.wire import declarations as wire
from tocsin.api.wire.jobs import JobBody
from tocsin.domain.errors import Conflict, NotFound, Refused, Stale
from tocsin.domain.expected import expected
from tocsin.domain.fires_changed import fires_changed
from tocsin.domain.ids import job_text
from tocsin.domain.instant import DAY, Instant, format_instant
from tocsin.domain.job import Definition
from tocsin.domain.keys import Scope
from tocsin.domain.schedule import Schedule, rule_of
from tocsin.domain.task_target import NAME as OWNER
from tocsin.store.calendars import ranges_of
from tocsin.store.control.locked_job import managed
from tocsin.store.declaring import Overtaken, Round

_NO_JOB: Final = UUID(int=0)
_MOST_FIRES: Final = 500
_BEYOND: Final = DAY  # by how much more fires are compared, for those that move across the end
_SHOWN: Final = 5
_MAX_BODY: Final = 8 * 1024 * 1024
_WRITES: Final = ("created", "revived", "changed", "removed")


class _Step(msgspec.Struct, frozen=True):
    """What is to be done about one job: the row that is there, if one is, and what it shall become."""

    shown: wire.DeclaredJob
    row: Any = None
    definition: Definition | None = None


async def declare(call: ApiCall) -> wire.Declared:
    """Compare, and unless something is refused make it so."""
    owner, body, now = _owner(call), call.body, call.context.clock.now()
    known = await call.context.declaring.revision(call.asker.tenant_id, owner)
    if known is not None and body.revision is None:
        raise Conflict(f"{owner} was declared with revision {known}: give a revision", field="revision")
    if known is not None and body.revision < known:
        call.changed_nothing()
        return _answer(call, known, [], superseded=True)
    steps = await _steps(call, owner, now)
    if body.dry_run or any(step.shown.action == "refused" for step in steps):
        call.changed_nothing()
        return _answer(call, known, [step.shown for step in steps])
    await _admit(call, sum(step.shown.action == "created" for step in steps))
    round_ = await call.context.declaring.accept(call.asker.tenant_id, owner, body.revision)
    if round_ is None:
        call.changed_nothing()
        return _answer(
            call, await call.context.declaring.revision(call.asker.tenant_id, owner), [], superseded=True
        )
    # An older declaration may have written until just now; from here on none does.
    steps = await _steps(call, owner, now)
    try:
        shown = await _carry_out(call, round_, steps, now)
    except Overtaken:
        raise Conflict(f"a newer declaration of {owner} came meanwhile; what it says stands") from None
    answer = _answer(call, body.revision, shown)
    if call.trail is not None and any(answer.counts.get(action) for action in _WRITES):
        call.trail.summarise(f"declaration:{owner}", {"revision": body.revision, "jobs": answer.counts})
    else:
        call.changed_nothing()
    return answer


async def list_owners(call: ApiCall) -> wire.Owners:
    """Who declares jobs."""
    rows = await call.context.declaring.owners(call.asker.tenant_id)
    return listing(wire.Owners, rows, _owner_view, itemgetter("owner"))


async def release(call: ApiCall) -> wire.Disowned:
    """Forget an owner; its jobs stay as they are and have none."""
    owner = _owner(call)
    released = await call.context.declaring.release(call.asker.tenant_id, owner)
    if released is None:
        raise NotFound(f"no jobs are declared as {owner}")
    call.note(after={"released": released})
    return wire.Disowned(released)


def _owner_view(row: Any) -> wire.Owner:
    return wire.Owner(row["owner"], row["revision"], row["jobs"], format_instant(row["declared_at"]))


def _owner(call: ApiCall) -> str:
    owner = call.path["owner"]
    if not OWNER.fullmatch(owner):
        raise Refused(
            "an owner has 1 to 128 of A-Z a-z 0-9 _ . : - and begins with a letter, a digit or _",
            field="owner",
        )
    return owner


def _answer(
    call: ApiCall, revision: int | None, jobs: list[wire.DeclaredJob], *, superseded: bool = False
) -> wire.Declared:
    counts: Counter[str] = Counter(job.action for job in jobs)
    dry_run = call.body.dry_run
    return wire.Declared(
        owner=call.path["owner"],
        revision=revision,
        applied=not (superseded or dry_run or counts["refused"]),
        superseded=superseded,
        dry_run=dry_run,
        counts=dict(counts),
        jobs=jobs,
    )


async def _steps(call: ApiCall, owner: str, now: Instant) -> list[_Step]:
    """What each declared job, and each job that is not declared any more, comes to."""
    body: wire.Declaration = call.body
    names = [job.name for job in body.jobs if job.name is not None]
    rows = await call.context.declaring.known(call.asker.tenant_id, owner, names)
    there = {row["name"]: row for row in rows if row["managed_by"] == owner}
    others = {row["name"]: row for row in rows if row["managed_by"] != owner}
    twice = {name for name, number in Counter(names).items() if number > 1}
    steps = []
    for place, job in enumerate(body.jobs):
        try:
            if job.name in twice:
                raise Refused(f"the name {job.name!r} is declared twice", field=f"jobs[{place}].name")
            row = others.get(job.name or "") or there.get(job.name or "")
            definition = await _definition(call, job, place, now if row is None else row["created_at"])
            steps.append(await _step(call, owner, row, definition, now))
        except Refused as refused:
            shown = wire.DeclaredJob(job.name or f"jobs[{place}]", "refused", problem=document_of(refused))
            steps.append(_Step(shown))
        await asyncio.sleep(0)  # a thousand schedules are worth a second; others have their turn
    for name, row in there.items():
        if name not in names and row["state"] in ("active", "paused"):
            steps.append(await _not_declared(call, row, now))
    return steps


async def _definition(call: ApiCall, job: JobBody, place: int, as_of: Instant) -> Definition:
    """What is declared, checked as of when the job was created: a schedule that has come to its end since
    then is still the one that was declared."""
    if job.name is None:
        raise Refused("a declared job has a name", field=f"jobs[{place}].name")
    definition = read_definition(job, call, as_of)
    if definition.kind != "recurring":
        raise Refused("only recurring jobs are declared", field=f"jobs[{place}].schedule")
    await check_calendars(definition, call)
    await check_connection_of(definition.target, call)
    return await with_descriptors(definition, call)


async def _step(call: ApiCall, owner: str, row: Any, definition: Definition, now: Instant) -> _Step:
    name, body = definition.name or "", call.body
    if row is None:
        fires = await _fires(call, None, definition.schedule, now)
        return _Step(wire.DeclaredJob(name, "created", fires=fires), None, definition)
    fields = _fields(stored_definition(row), definition)
    shown = wire.DeclaredJob(
        name, "unchanged", job_text(row["id"]), paused=row["state"] == "paused", fields=fields
    )
    if row["managed_by"] != owner:
        if row["managed_by"] is not None:
            raise managed(row["managed_by"])
        if not body.adopt:
            raise Conflict(
                f"a job named {name!r} exists that has no owner",
                field="name",
                hint="adopt takes it over; or give one of them another name",
            )
        shown = replace(shown, fields=[*fields, wire.FieldChange("managed_by", None, owner)])
    if row["state"] == "completed" and rule_of(definition.schedule).next_fire(now) is None:
        return _Step(replace(shown, fields=[]), row)
    if row["state"] == "cancelled" or (row["state"] == "completed" and fields):
        fires = await _fires(call, None, definition.schedule, now, row)
        return _Step(replace(shown, action="revived", fires=fires), row, definition)
    if not shown.fields:
        return _Step(shown, row)
    if not body.update:
        return _Step(replace(shown, action="differs"), row)
    was = stored_definition(row).schedule
    if was != definition.schedule:
        shown = replace(shown, fires=await _fires(call, was, definition.schedule, now, row))
    return _Step(replace(shown, action="changed"), row, definition)


async def _not_declared(call: ApiCall, row: Any, now: Instant) -> _Step:
    paused = row["state"] == "paused"
    if not call.body.prune:
        return _Step(wire.DeclaredJob(row["name"], "undeclared", job_text(row["id"]), paused=paused), row)
    fires = await _fires(call, stored_definition(row).schedule, None, now, row)
    shown = wire.DeclaredJob(row["name"], "removed", job_text(row["id"]), paused=paused, fires=fires)
    return _Step(shown, row)


def _fields(before: Definition, after: Definition) -> list[wire.FieldChange]:
    old, new = _said(before), _said(after)
    return [
        wire.FieldChange(name, msgspec.to_builtins(old[name]), msgspec.to_builtins(new[name]))
        for name in sorted(old)
        if old[name] != new[name]
    ]


def _said(definition: Definition) -> dict[str, Any]:
    """A definition by the fields that a user writes: policies stand beside the rest. Values are compared and
    not their text, which says a default or leaves it out."""
    said = msgspec.structs.asdict(definition)
    said.update(msgspec.structs.asdict(said.pop("policies")))
    return said


async def _fires(
    call: ApiCall, before: Schedule | None, after: Schedule | None, now: Instant, row: Any = None
) -> wire.ChangedFires:
    """What becomes of the fires of the next days."""
    until = now + call.body.days * DAY
    old, old_until = await _coming(call, before, now, until + _BEYOND, row)
    new, new_until = await _coming(call, after, now, until + _BEYOND, row)
    if after is not None and rule_of(after).next_fire(now) is None:
        raise Refused("the schedule never fires again", field="schedule", hint="check ends_at and the dates")
    end = min(old_until, new_until)  # beyond it one of them was not looked at
    until = min(until, end)
    changed = fires_changed([at for at in old if at < end], [at for at in new if at < end], until)
    return wire.ChangedFires(
        len(changed.gained),
        len(changed.lost),
        len(changed.moved),
        changed.kept,
        [format_instant(at) for at in changed.gained[:_SHOWN]],
        [format_instant(at) for at in changed.lost[:_SHOWN]],
        [wire.MovedFire(format_instant(one), format_instant(other)) for one, other in changed.moved[:_SHOWN]],
        format_instant(until),
    )


async def _coming(
    call: ApiCall, schedule: Schedule | None, now: Instant, until: Instant, row: Any
) -> tuple[Sequence[Instant], Instant]:
    """The fires of a schedule, and up to which instant these are all."""
    cursor = None if schedule is None else rule_of(schedule).next_fire(now)
    if schedule is None or cursor is None:
        return [], until
    calendars = await ranges_of(call.context.database, call.asker.tenant_id, schedule.calendars)
    job_id, fired = (_NO_JOB, 0) if row is None else (row["id"], row["fire_count"])
    return expected(schedule, job_id, fired, cursor, until, _MOST_FIRES, calendars)


async def _carry_out(
    call: ApiCall, round_: Round, steps: Sequence[_Step], now: Instant
) -> list[wire.DeclaredJob]:
    """Do what the steps say. A step that is refused now, because of a change meanwhile, is told with its
    job."""
    created = await _create(call, round_, [step for step in steps if step.shown.action == "created"], now)
    done = []
    for step in steps:
        shown = step.shown
        if shown.action == "created":
            done.append(created[shown.name])
            continue
        try:
            if shown.action in ("changed", "revived") and step.definition is not None:
                with call.noting_job(step.row["id"], "job.update"):
                    await call.context.declaring.change(round_, step.row["id"], step.definition, now)
            elif shown.action == "removed":
                with call.noting_job(step.row["id"], "job.cancel"):
                    await call.context.declaring.remove(round_, step.row["id"], _reason(call))
        except (Conflict, NotFound, Stale) as refused:
            shown = wire.DeclaredJob(shown.name, "refused", shown.id, problem=document_of(refused))
        done.append(shown)
    return done


async def _admit(call: ApiCall, wanted: int) -> None:
    limit = call.asker.limits.pending_jobs
    if await call.context.pending.admit(call.asker.tenant_id, limit, wanted) < wanted:
        raise too_many_jobs(limit or 0)


async def _create(
    call: ApiCall, round_: Round, steps: Sequence[_Step], now: Instant
) -> dict[str, wire.DeclaredJob]:
    if not steps:
        return {}
    jobs = [new_job(step.definition, call, now) for step in steps if step.definition is not None]
    refused = await call.context.declaring.create(round_, jobs, now)
    done = {}
    for step, job in zip(steps, jobs, strict=True):
        name = step.shown.name
        if job.id in refused:
            taken = document_of(
                Conflict(f"a job named {name!r} was created meanwhile", field="name", code="name_taken")
            )
            done[name] = wire.DeclaredJob(name, "refused", problem=taken)
        else:
            done[name] = replace(step.shown, id=job_text(job.id))
            tell_created(call, job_text(job.id), "recurring")
    call.context.telemetry.created.inc(len(jobs) - len(refused))
    return done


def _reason(call: ApiCall) -> str:
    revision = call.body.revision
    return f"not declared by {call.path['owner']}" + ("" if revision is None else f"@{revision}")


_OWNER = "/v1/declarations/{owner}"
ENDPOINTS = (
    Endpoint(
        method="PUT", path=_OWNER, handler=declare, body=wire.Declaration, answer=wire.Declared, scope=Scope.WRITE,
        summary="Declare all recurring jobs of an owner; with dry_run, say what that does to fields and fires",
        refusals=(409,), waits=True, max_body=_MAX_BODY,
    ),
    Endpoint(
        method="GET", path="/v1/declarations", handler=list_owners, answer=wire.Owners,
        summary="Who declares jobs, and the revision of each",
    ),
    Endpoint(
        method="DELETE", path=_OWNER, handler=release, answer=wire.Disowned, scope=Scope.WRITE, refusals=(404,),
        summary="Forget an owner; its jobs stay",
    ),
)  # fmt: skip
