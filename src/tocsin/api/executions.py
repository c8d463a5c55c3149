"""``/v1/executions``."""

from typing import Any, Final
from uuid import UUID

import msgspec

from tocsin.api.counting import CAP, cap_of
from tocsin.api.endpoint import BOOLEAN, CURSOR, INSTANT, LIMIT, ApiCall, Endpoint, Parameter
from tocsin.api.listing import listing
from tocsin.api.readable import readable
from tocsin.api.repeating import REPEATABLE, carried_out_once
from tocsin.api.step_links import link_of
from tocsin.api.wire import executions as wire
from tocsin.api.wire.actions import Nothing, Reason
from tocsin.api.wire.pages import CursorNumber, decode_cursor, encode_cursor
from tocsin.api.wire.stats import Count
from tocsin.db.patience import patient_for
from tocsin.domain.errors import Conflict, NotFound, Refused, Unavailable
from tocsin.domain.explain import Surroundings, explain
from tocsin.domain.ids import ExecutionKey, execution_text, parse_execution_text, parse_job_text
from tocsin.domain.instant import DAY, SECOND, parse_span
from tocsin.domain.keys import Scope
from tocsin.domain.lifecycle import FINAL, LIVE, State
from tocsin.domain.waits import LATE, Held
from tocsin.domain.waits import Reason as Waits
from tocsin.domain.written import SpanText
from tocsin.store.execution_filter import ExecutionFilter, Place
from tocsin.store.job_listing import JobFilter
from tocsin.store.repeats import First, Once

_MOST_JOBS: Final = 1000
_SEARCHED: Final = 7 * DAY
_LONGEST_WAIT: Final = 30
_PATIENCE: Final = 4.5
_CAUSES: Final = ("schedule", "catch_up", "manual", "backfill", "rerun")


async def list_executions(call: ApiCall) -> wire.ExecutionPage:
    """Live ones first, then history."""
    state = call.choice("state", tuple(State))
    return await page(call, State(state) if state else None)


async def count_executions(call: ApiCall) -> Count:
    """How many executions match."""
    state = call.choice("state", tuple(State))
    where = await filter_of(call, State(state) if state else None)
    number, capped = await call.context.execution_listing.count(call.asker.tenant_id, where, cap_of(call))
    return Count(number, capped)


async def show(call: ApiCall) -> wire.Execution:
    """One execution with its attempts; with `wait`, once it is over or that time has passed."""
    key = key_of(call)
    wait = call.query.get("wait")
    if wait is None:
        return await view(call, key)
    seconds = parse_span(wait, "wait") / SECOND
    if not 0 <= seconds <= _LONGEST_WAIT:
        raise Refused(f"wait is at most {_LONGEST_WAIT}s", field="wait")
    await found(call, key)
    await call.context.ends.wait(key, seconds)
    with patient_for(_PATIENCE):
        return await view(call, key)


async def logs(call: ApiCall) -> wire.LogPage:
    """What its attempts logged, in order."""
    key, limit = key_of(call), call.limit()
    await found(call, key)
    after = decode_cursor(call.query.get("cursor"), tuple[CursorNumber, CursorNumber]) or (0, 0)
    rows = await call.context.logs.read(
        call.asker.tenant_id, key, (min(after[0], 32767), min(after[1], 2**31 - 1)), limit
    )
    cursor = encode_cursor((rows[-1]["attempt"], rows[-1]["seq"])) if len(rows) == limit else None
    return listing(wire.LogPage, rows, wire.log_view, lambda row: str(row["seq"]), next_cursor=cursor)


async def cancel(call: ApiCall) -> wire.CancelledExecution:
    """Call an execution off, or ask it to stop if it is running.

    The answer is what the cancelling transaction did. A read afterwards only adds the end of an execution
    that has ended by then: one that was called may have been stopped as `cancelled` already.
    """
    key, tenant_id = key_of(call), call.asker.tenant_id
    reason = call.reason() or "cancelled by a user"
    try:
        done = await call.context.executions.cancel(tenant_id, key, reason)
    except NotFound:
        await _refuse_archived(call, key, "cancelled")
        raise
    ended = done.row if done.row["state"] in FINAL else await _row_now(call, key)
    with readable(call, "execution"):
        return wire.cancelled_view(done.row, done.answer, ended)


async def retry(call: ApiCall) -> Any:
    """Give a final execution another round of attempts."""
    key = key_of(call)

    async def act(once: Once | None) -> wire.Execution:
        try:
            await call.context.executions.retry(call.asker.tenant_id, key, once=once)
        except NotFound:
            await _refuse_archived(call, key, "retried")
            raise
        return await view(call, key)

    return await carried_out_once(call, "retry", act, lambda _: view(call, key))


async def rerun(call: ApiCall) -> Any:
    """Run a finished execution again, as a new one that remembers where it came from."""
    key, tenant_id = key_of(call), call.asker.tenant_id

    async def act(once: Once | None) -> wire.Execution:
        row = await found(call, key)
        if row["state"] in LIVE:
            raise Conflict(f"cannot run an execution again that is {row['state']}")
        now = call.context.clock.now()
        again = await call.context.firing.run(tenant_id, key.job_id, now, again=key.fire_at, once=once)
        call.note(after={"execution": execution_text(again)})
        return await view(call, again)

    async def again(first: First) -> wire.Execution:
        return await view(call, ExecutionKey(first.job_id, int(first.answer or 0)))

    return await carried_out_once(call, "rerun", act, again)


async def explain_execution(call: ApiCall) -> wire.Explanation:
    """Why it is where it is."""
    executions, tenant_id = call.context.executions, call.asker.tenant_id
    row = await found(call, key_of(call))
    around = Surroundings()
    if row["state"] == State.QUEUED:
        around = await executions.surroundings(tenant_id, row["queue"], row["route"])
    with readable(call, "execution"):
        facts, now = wire.facts_of(row), call.context.clock.now()
    begun = facts.first_start or facts.finished_at or now
    pauses: list[Held] = []
    if begun - facts.due_at >= LATE:
        pauses = await call.context.queues.pauses(tenant_id, row["queue"], facts.due_at, begun)
    steps = explain(facts, around, now, pauses)
    held_by = await executions.turn_held_by(row["job_id"]) if facts.waits_for == Waits.TURN else None
    links = [link_of(step, row, call.asker.tenant, held_by) for step in steps]
    names = await call.context.jobs.names(tenant_id, {row["job_id"]})
    with readable(call, "execution"):
        return wire.explanation(row, steps, links, names.get(row["job_id"]))


async def page(call: ApiCall, state: State | None, *, dead_letters: bool = False) -> wire.ExecutionPage:
    """A page of executions in a state; of dead letters, those that were not discarded, with their
    attempts."""
    limit, where = call.limit(), await filter_of(call, state, kept_only=dead_letters)
    place = decode_cursor(call.query.get("cursor"), wire.ExecutionPlace)
    after = Place(*place) if place else None
    listed = await call.context.execution_listing.page(call.asker.tenant_id, where, after, limit)
    rows, cursor = listed.rows, None if listed.next is None else encode_cursor(listed.next)
    names = await call.context.jobs.names(call.asker.tenant_id, {row["job_id"] for row in rows})

    def view(row: Any) -> wire.Execution:
        return wire.execution_view(row, names.get(row["job_id"]), attempts=dead_letters)

    return listing(wire.ExecutionPage, rows, view, wire.name_of, next_cursor=cursor)


async def filter_of(call: ApiCall, state: State | None, *, kept_only: bool = False) -> ExecutionFilter:
    """What the listing's parameters narrow it to. Filters without an index search the last week, if no range
    is given."""
    job, lag, node = call.query.get("job"), call.query.get("min_lag"), call.query.get("node")
    finished_from, finished_to = call.instant("finished_from"), call.instant("finished_to")
    where = ExecutionFilter(
        state=state,
        queue=call.query.get("queue"),
        job_id=None if job is None else parse_job_text(job),
        fire_from=call.instant("fire_from"),
        fire_to=call.instant("fire_to"),
        min_lag=None if lag is None else parse_span(lag, "min_lag"),
        error=call.query.get("error"),
        job_ids=await _jobs_named(call),
        node_id=None if node is None else _node_id(node),
        fingerprint=call.query.get("fingerprint"),
        cause=call.choice("cause", _CAUSES),
        finished_from=finished_from,
        finished_to=finished_to,
        over=call.choice("over", ("true", "false")) == "true" or (finished_from, finished_to) != (None, None),
        kept_only=kept_only,
    )
    searched = (where.error, where.min_lag, where.node_id, where.cause, where.job_ids)
    bounded = (where.fire_from, finished_from, where.job_id) != (None, None, None)
    if not bounded and any(one is not None for one in searched):
        return msgspec.structs.replace(where, finished_from=call.context.clock.now() - _SEARCHED)
    return where


async def _jobs_named(call: ApiCall) -> tuple[UUID, ...] | None:
    """The jobs that a part of a name, or tags, mean; None if neither was given."""
    name, tags = call.query.get("job_name"), call.words("tag")
    if name is None and not tags:
        return None
    field = "tag" if name is None else "job_name"
    found = await call.context.job_listing.ids(
        call.asker.tenant_id, JobFilter(name=name, tags=tags), _MOST_JOBS + 1
    )
    if len(found) > _MOST_JOBS:
        raise Refused(
            f"more than {_MOST_JOBS} jobs match; say more of the name, or name the job", field=field
        )
    return tuple(found)


def _node_id(text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) < 19):
        raise Refused("a node is named by its number; see `tocsin nodes`", field="node")
    return int(text)


async def _row_now(call: ApiCall, key: ExecutionKey) -> Any:
    """The execution as it is by now; None if that cannot be told, which is no reason to deny what was
    done."""
    try:
        return await call.context.executions.get(call.asker.tenant_id, key)
    except (NotFound, Unavailable):
        return None


async def view(call: ApiCall, key: ExecutionKey) -> wire.Execution:
    """An execution with its attempts, as it stands now."""
    row = await found(call, key)
    names = await call.context.jobs.names(call.asker.tenant_id, {key.job_id})
    result = row.get("result")
    if row["has_result"] and result is None:
        result = await call.context.executions.result(call.asker.tenant_id, key)
    with readable(call, "execution"):
        return wire.execution_view(row, names.get(key.job_id), attempts=True, result=result)


async def found(call: ApiCall, key: ExecutionKey) -> Any:
    """An execution, in the database or in the archive."""
    tenant_id, archived = call.asker.tenant_id, call.context.archived
    try:
        return await call.context.executions.get(tenant_id, key)
    except NotFound:
        row = None if archived is None else await archived.get(tenant_id, key)
        if row is None:
            raise
        return row


async def _refuse_archived(call: ApiCall, key: ExecutionKey, done: str) -> None:
    """An execution that left the database can be seen, and nothing else."""
    archived = call.context.archived
    if archived is not None and await archived.get(call.asker.tenant_id, key) is not None:
        raise Conflict(f"an archived execution cannot be {done}; it can be run again as a new one")


def key_of(call: ApiCall) -> ExecutionKey:
    """The execution in the path."""
    return parse_execution_text(call.path["execution_id"])


NARROWER = (
    Parameter("queue", "Only executions of this queue"),
    Parameter("job", "Only executions of this job"),
    Parameter("fire_from", "Only fire times at this instant or later", INSTANT),
    Parameter("fire_to", "Only fire times before this instant", INSTANT),
    Parameter("finished_from", "Only executions that ended at this instant or later", INSTANT),
    Parameter("finished_to", "Only executions that ended before this instant", INSTANT),
    Parameter(
        "min_lag", "Only executions that started at least this late: 500ms, 2s", msgspec.json.schema(SpanText)
    ),
    Parameter("error", "Only finished executions whose reason or error contains this, in any case"),
    Parameter("job_name", "Only executions of jobs whose name contains this, in any case"),
    Parameter("tag", "Only executions of jobs with these tags, separated by commas"),
    Parameter("node", "Only executions whose last attempt this node made", {"type": "integer", "minimum": 0}),
    Parameter("fingerprint", "Only dead letters of this kind of error"),
    Parameter(
        "cause", "Only executions that came about like this", {"type": "string", "enum": list(_CAUSES)}
    ),
)
_STATE = Parameter(
    "state", "Only executions in this state", {"type": "string", "enum": [str(s) for s in State]}
)
_OVER = Parameter("over", "`true`: only finished executions, the latest first", BOOLEAN)
_WAIT = Parameter(
    "wait", "Answer when it is over, or after this long: 20s, at most 30s", msgspec.json.schema(SpanText)
)
_EXECUTION = "/v1/executions/{execution_id}"
ENDPOINTS = (
    Endpoint(
        method="GET", path="/v1/executions", handler=list_executions,
        summary="List executions: live ones (newest job first), then finished ones (latest first)",
        answer=wire.ExecutionPage, parameters=(LIMIT, CURSOR, *NARROWER, _STATE, _OVER),
    ),
    Endpoint(
        method="GET", path="/v1/executions/count", handler=count_executions, summary="How many executions match",
        answer=Count, parameters=(*NARROWER, _STATE, _OVER, CAP),
    ),
    Endpoint(
        method="GET", path=_EXECUTION, handler=show, summary="Show an execution with its attempts",
        answer=wire.Execution, refusals=(404,), parameters=(_WAIT,), waits=True,
    ),
    Endpoint(
        method="GET", path=_EXECUTION + "/logs", handler=logs, summary="What the attempts at an execution logged",
        answer=wire.LogPage, refusals=(404,), parameters=(LIMIT, CURSOR),
    ),
    Endpoint(
        method="POST", path=_EXECUTION + "/cancel", handler=cancel,
        summary="Cancel an execution; a running one is asked to stop", answer=wire.CancelledExecution, body=Reason,
        body_required=False, scope=Scope.WRITE, refusals=(404, 409),
    ),
    Endpoint(
        method="POST", path=_EXECUTION + "/retry", handler=retry,
        summary="Retry a dead, expired or cancelled execution under the same identity", answer=wire.Execution,
        status=202, body=Nothing, body_required=False, scope=Scope.WRITE, refusals=(404, 409), **REPEATABLE,
    ),
    Endpoint(
        method="POST", path=_EXECUTION + "/rerun", handler=rerun, status=202, answer=wire.Execution,
        summary="Run a finished execution again, under a new identity", body=Nothing, body_required=False,
        scope=Scope.WRITE, refusals=(404, 409), **REPEATABLE,
    ),
    Endpoint(
        method="GET", path=_EXECUTION + "/explain", handler=explain_execution, answer=wire.Explanation,
        summary="Why an execution waited, was late, was skipped, or is where it is", refusals=(404,),
    ),
)  # fmt: skip
