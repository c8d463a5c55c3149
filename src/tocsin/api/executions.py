"""``/v1/executions`` and ``/v1/dead-letters``."""

from typing import Any

import msgspec

from tocsin.api.endpoint import CURSOR, INSTANT, LIMIT, Call, Endpoint, Parameter
from tocsin.api.listing import listing
from tocsin.api.repeating import REPEATABLE, carried_out_once
from tocsin.api.wire import executions as wire
from tocsin.api.wire.actions import Nothing, Reason
from tocsin.api.wire.pages import decode_cursor, encode_cursor
from tocsin.domain.errors import Conflict, NotFound, Unavailable
from tocsin.domain.explain import Surroundings, explain
from tocsin.domain.ids import ExecutionKey, execution_text, parse_execution_text, parse_job_text
from tocsin.domain.instant import parse_span
from tocsin.domain.keys import Scope
from tocsin.domain.lifecycle import FINAL, LIVE, State
from tocsin.domain.written import SpanText
from tocsin.store.executions import ExecutionFilter, Place
from tocsin.store.repeats import First, Once


async def list_executions(call: Call) -> wire.ExecutionPage:
    """Live ones first, then history."""
    state = call.choice("state", tuple(State))
    return await _page(call, State(state) if state else None)


async def dead_letters(call: Call) -> wire.ExecutionPage:
    """Executions that failed for good, latest first, with every attempt."""
    return await _page(call, State.DEAD, attempts=True)


async def show(call: Call) -> wire.Execution:
    """One execution with its attempts."""
    return await _view(call, _key(call))


async def cancel(call: Call) -> wire.CancelledExecution:
    """Call an execution off, or ask it to stop if it is running.

    The answer is what the cancelling transaction did. What is read afterwards only adds the end of an execution that has
    ended by then: one that was called may have been stopped as `cancelled` already.
    """
    key, tenant_id = _key(call), call.caller.tenant_id
    reason = call.reason() or "cancelled by a user"
    done = await call.context.executions.cancel(tenant_id, key, reason)
    ended = done.row if done.row["state"] in FINAL else await _row_now(call, key)
    return wire.cancelled_view(done.row, done.answer, ended)


async def retry(call: Call) -> Any:
    """Give a final execution another round of attempts."""
    key = _key(call)

    async def act(once: Once | None) -> wire.Execution:
        await call.context.executions.retry(call.caller.tenant_id, key, once=once)
        return await _view(call, key)

    return await carried_out_once(call, "retry", act, lambda _: _view(call, key))


async def rerun(call: Call) -> Any:
    """Run a finished execution again, as a new one that remembers where it came from."""
    key, tenant_id = _key(call), call.caller.tenant_id

    async def act(once: Once | None) -> wire.Execution:
        row = await call.context.executions.get(tenant_id, key)
        if row["state"] in LIVE:
            raise Conflict(f"cannot run an execution again that is {row['state']}")
        now = call.context.clock.now()
        again = await call.context.firing.run(tenant_id, key.job_id, now, again=key.fire_at, once=once)
        call.note(after={"execution": execution_text(again)})
        return await _view(call, again)

    async def again(first: First) -> wire.Execution:
        return await _view(call, ExecutionKey(first.job_id, int(first.answer or 0)))

    return await carried_out_once(call, "rerun", act, again)


async def explain_execution(call: Call) -> wire.Explanation:
    """Why it is where it is."""
    executions, tenant_id = call.context.executions, call.caller.tenant_id
    row = await executions.get(tenant_id, _key(call))
    around = Surroundings()
    if row["state"] == State.QUEUED:
        around = await executions.surroundings(tenant_id, row["queue"])
    steps = explain(wire.facts_of(row), around, call.context.clock.now())
    names = await call.context.jobs.names(tenant_id, {row["job_id"]})
    return wire.explanation(row, steps, names.get(row["job_id"]))


async def _page(call: Call, state: State | None, *, attempts: bool = False) -> wire.ExecutionPage:
    limit, job, lag = call.limit(), call.query.get("job"), call.query.get("min_lag")
    where = ExecutionFilter(
        state=state,
        queue=call.query.get("queue"),
        job_id=None if job is None else parse_job_text(job),
        fire_from=call.instant("fire_from"),
        fire_to=call.instant("fire_to"),
        min_lag=None if lag is None else parse_span(lag, "min_lag"),
        error=call.query.get("error"),
    )
    place = decode_cursor(call.query.get("cursor"), wire.ExecutionPlace)
    after = Place(*place) if place else None
    rows = await call.context.executions.list(call.caller.tenant_id, where, after, limit)
    cursor = None
    if len(rows) == limit:
        last = rows[-1]
        cursor = encode_cursor((last["job_id"], last["fire_at"], last["finished_at"]))
    names = await call.context.jobs.names(call.caller.tenant_id, {row["job_id"] for row in rows})

    def view(row: Any) -> wire.Execution:
        return wire.execution_view(row, names.get(row["job_id"]), attempts=attempts)

    return listing(wire.ExecutionPage, rows, view, wire.name_of, next_cursor=cursor)


async def _row_now(call: Call, key: ExecutionKey) -> Any:
    """The execution as it is by now; None if that cannot be told, which is no reason to deny what was done."""
    try:
        return await call.context.executions.get(call.caller.tenant_id, key)
    except (NotFound, Unavailable):
        return None


async def _view(call: Call, key: ExecutionKey) -> wire.Execution:
    row = await call.context.executions.get(call.caller.tenant_id, key)
    names = await call.context.jobs.names(call.caller.tenant_id, {key.job_id})
    return wire.execution_view(row, names.get(key.job_id), attempts=True)


def _key(call: Call) -> ExecutionKey:
    return parse_execution_text(call.path["execution_id"])


_NARROWER = (
    LIMIT,
    CURSOR,
    Parameter("queue", "Only executions of this queue"),
    Parameter("job", "Only executions of this job"),
    Parameter("fire_from", "Only fire times at this instant or later", INSTANT),
    Parameter("fire_to", "Only fire times before this instant", INSTANT),
    Parameter(
        "min_lag", "Only executions that started at least this late: 500ms, 2s", msgspec.json.schema(SpanText)
    ),
    Parameter("error", "Only finished executions whose reason or error contains this, in any case"),
)
_STATE = Parameter(
    "state", "Only executions in this state", {"type": "string", "enum": [str(s) for s in State]}
)
_EXECUTION = "/v1/executions/{execution_id}"
ENDPOINTS = (
    Endpoint(
        method="GET", path="/v1/executions", handler=list_executions,
        summary="List executions: live ones (newest job first), then finished ones (latest first)",
        answer=wire.ExecutionPage, parameters=(*_NARROWER, _STATE),
    ),
    Endpoint(
        method="GET", path=_EXECUTION, handler=show, summary="Show an execution with its attempts",
        answer=wire.Execution, refusals=(404,),
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
    Endpoint(
        method="GET", path="/v1/dead-letters", handler=dead_letters,
        summary="Executions that failed for good, latest first", answer=wire.ExecutionPage,
        parameters=_NARROWER,
    ),
)  # fmt: skip
