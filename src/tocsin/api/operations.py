"""``/v1/operations``: one action on all that match, or on many that are named.

Created with what it acts on fixed, it is carried out in the background by the schedulers. A dry run says how
many it would be, which of them cannot, and shows the first.
"""

from collections import Counter
from functools import partial
from typing import Any, Final

import msgspec

from tocsin.api.endpoint import CURSOR, LIMIT, ApiCall, Endpoint, Parameter, Reply
from tocsin.api.listing import listing
from tocsin.api.repeating import REPEATABLE, carried_out_once
from tocsin.api.selecting import selection_of
from tocsin.api.tenants import origin_of
from tocsin.api.wire import operations as wire
from tocsin.api.wire.actions import Nothing, Reason
from tocsin.api.wire.pages import CursorNumber, decode_cursor, encode_cursor
from tocsin.api.wire.scalars import time_of
from tocsin.domain.errors import NotFound, Refused, Unreadable
from tocsin.domain.ids import ExecutionKey, execution_text, job_text
from tocsin.domain.instant import HOUR, SECOND, format_instant, format_span, parse_span
from tocsin.domain.keys import Scope
from tocsin.domain.operation import (
    AT_A_LOOK,
    LARGEST_STEP,
    MOST_STEPS,
    MOST_WATCHED,
    POSSIBLE,
    Do,
    Of,
    StopAt,
    why_not_execution,
    why_not_job,
)
from tocsin.store.operations import NewOperation, Preview
from tocsin.store.repeats import First, Once

_STATES: Final = ("running", "paused", "completed", "cancelled")


async def create(call: ApiCall) -> Any:
    """Check it, fix what it acts on, and set it going unless it is a dry run."""
    new = _checked(call)
    if call.body.dry_run:
        preview = await call.context.operations.preview(new.selection)
        return Reply(_previewed(new, preview), 200)

    async def act(once: Once | None) -> wire.OperationAnswer:
        now, tenant_id = call.context.clock.now(), call.asker.tenant_id
        made = await call.context.operations.define(tenant_id, new, now, origin_of(call), once=once)
        return await _answer(call, made)

    async def again(first: First) -> wire.OperationAnswer:
        return await _answer(call, int(first.answer or 0))

    return await carried_out_once(call, "operation", act, again)


async def list_operations(call: ApiCall) -> wire.OperationPage:
    """A page, newest first."""
    limit, state = call.limit(), call.choice("state", _STATES)
    before = decode_cursor(call.query.get("cursor"), CursorNumber)
    rows = await call.context.operations.list(call.asker.tenant_id, state, before, limit)
    cursor = encode_cursor(rows[-1]["id"]) if len(rows) == limit else None
    return listing(wire.OperationPage, rows, operation_view, lambda row: str(row["id"]), next_cursor=cursor)


async def show(call: ApiCall) -> wire.Operation:
    """One operation and how far it has come."""
    return await _shown(call, _operation_id(call))


async def pause(call: ApiCall) -> wire.Operation:
    """Hold an operation."""
    operation_id = _operation_id(call)
    await call.context.operations.pause(call.asker.tenant_id, operation_id, call.reason(), origin_of(call))
    return await _shown(call, operation_id)


async def resume(call: ApiCall) -> wire.Operation:
    """Let an operation go on."""
    operation_id = _operation_id(call)
    await call.context.operations.resume(call.asker.tenant_id, operation_id, origin_of(call))
    return await _shown(call, operation_id)


async def cancel(call: ApiCall) -> wire.Operation:
    """Stop an operation for good."""
    operation_id = _operation_id(call)
    await call.context.operations.cancel(call.asker.tenant_id, operation_id, call.reason(), origin_of(call))
    return await _shown(call, operation_id)


def _checked(call: ApiCall) -> NewOperation:
    asked: wire.NewOperation = call.body
    if asked.do not in POSSIBLE[asked.of]:
        possible = ", ".join(POSSIBLE[asked.of])
        raise Refused(f"{asked.do} is not possible for {asked.of}; possible: {possible}", field="do")
    if len(asked.steps) > MOST_STEPS or any(not 1 <= size <= LARGEST_STEP for size in asked.steps):
        raise Refused(f"steps are at most {MOST_STEPS} sizes of 1 to {LARGEST_STEP:,}", field="steps")
    pace = parse_span(asked.pace, "pace")
    if pace > HOUR:
        raise Refused("pace is at most an hour", field="pace")
    return NewOperation(
        do=asked.do,
        of=asked.of,
        filter=None if asked.where is None else msgspec.to_builtins(asked.where),
        selection=selection_of(asked, call.asker.tenant_id),
        reason=call.reason(),
        pace=pace,
        steps=asked.steps,
        stop_at=_brake(asked.stop_at),
    )


def _brake(asked: wire.Brake | None) -> StopAt | None:
    if asked is None:
        return None
    if not 0 < asked.share <= 1:
        raise Refused("share is above 0 and at most 1", field="stop_at.share")
    if not 1 <= asked.of <= MOST_WATCHED:
        raise Refused(f"of lies between 1 and {MOST_WATCHED:,}", field="stop_at.of")
    return StopAt(asked.share, asked.of)


async def _answer(call: ApiCall, operation_id: int) -> wire.OperationAnswer:
    shown = await _shown(call, operation_id)
    return wire.OperationAnswer(
        operation=shown,
        count=shown.matched,
        capped=shown.gathering,
        cannot=[],
        oldest_at=None,
        sample=[],
    )


async def _shown(call: ApiCall, operation_id: int) -> wire.Operation:
    return operation_view(await call.context.operations.get(call.asker.tenant_id, operation_id))


def _previewed(new: NewOperation, preview: Preview) -> wire.OperationAnswer:
    count = sum(row["number"] for row in preview.states)
    refusals: Counter[str] = Counter()
    for row in preview.states:
        why = (
            why_not_job(new.do, row["state"])
            if new.of is Of.JOBS
            else why_not_execution(new.do, row["state"], row["job_state"])
        )
        if why is not None:
            refusals[why] += row["number"]
    return wire.OperationAnswer(
        operation=None,
        count=min(count, AT_A_LOOK),
        capped=count > AT_A_LOOK,
        cannot=[wire.Refusal(why, number) for why, number in refusals.most_common()],
        oldest_at=time_of(preview.oldest),
        sample=[wire.Thing(_text(new.of, row), row["name"], row["state"]) for row in preview.sample],
    )


def _text(of: Of, row: Any) -> str:
    if of is Of.JOBS:
        return job_text(row["job_id"])
    return execution_text(ExecutionKey(row["job_id"], row["fire_at"]))


def operation_view(row: Any) -> wire.Operation:
    """An operation from its row. Raises `Unreadable` if only a newer version knows what it does."""
    try:
        do, of = Do(row["action"]), Of(row["things"])
        errors = msgspec.json.decode(row["errors"], type=dict[str, tuple[int, str]])
    except (ValueError, msgspec.DecodeError) as error:
        raise Unreadable(f"this version cannot read the operation {row['id']}: {error}") from None
    ran = (row["updated_at"] - row["created_at"]) / SECOND
    brake = None if row["stop_of"] is None else wire.Brake(row["stop_share"], row["stop_of"])
    return wire.Operation(
        id=row["id"],
        do=do,
        of=of,
        where=None if row["filter"] is None else msgspec.json.decode(row["filter"]),
        state=row["state"],
        state_reason=row["state_reason"],
        reason=row["reason"],
        matched=row["matched"],
        gathering=row["gathering"] is not None,
        done=row["done"],
        cannot=row["position"] - row["done"],
        left=row["matched"] - row["position"],
        under_way=row["under_way"],
        succeeded=row["succeeded"],
        failed=row["failed"],
        step=row["step"] + 1,
        steps=list(row["steps"]),
        stop_at=brake,
        pace=format_span(row["pace"]),
        rate=round(row["position"] / ran, 3) if ran > 0 and row["position"] else None,
        errors=[
            wire.OperationError(error, number, sample)
            for error, (number, sample) in sorted(errors.items(), key=lambda item: -item[1][0])
        ],
        by=row["created_by"],
        created_at=format_instant(row["created_at"]),
        updated_at=format_instant(row["updated_at"]),
        finished_at=time_of(row["finished_at"]),
    )


def _operation_id(call: ApiCall) -> int:
    text = call.path["operation_id"]
    if not (text.isascii() and text.isdigit() and len(text) < 19):
        raise NotFound(f"no operation {text[:40]!r}")
    return int(text)


_OPERATION: Final = "/v1/operations/{operation_id}"
_CHANGE: Final = partial(
    Endpoint,
    method="POST",
    answer=wire.Operation,
    body_required=False,
    scope=Scope.WRITE,
    refusals=(404, 409),
)
ENDPOINTS = (
    Endpoint(
        method="POST", path="/v1/operations", handler=create, body=wire.NewOperation, answer=wire.OperationAnswer, status=202,
        other_statuses=(200,), scope=Scope.WRITE, refusals=(409,), **REPEATABLE,
        summary="Act on all that match, or on many that are named; with dry_run, say on how many and which (200)",
    ),
    Endpoint(
        method="GET", path="/v1/operations", handler=list_operations, answer=wire.OperationPage,
        summary="Operations, newest first",
        parameters=(LIMIT, CURSOR, Parameter("state", "Only operations in this state", {"type": "string", "enum": list(_STATES)})),
    ),
    Endpoint(
        method="GET", path=_OPERATION, handler=show, answer=wire.Operation, refusals=(404, 409),
        summary="Show an operation and how far it has come",
    ),
    _CHANGE(
        path=_OPERATION + "/pause", handler=pause, body=Reason,
        summary="Hold an operation: it acts on nothing more until it is resumed",
    ),
    _CHANGE(
        path=_OPERATION + "/resume", handler=resume, body=Nothing,
        summary="Let a paused operation go on, past a brake or a step that failed",
    ),
    _CHANGE(
        path=_OPERATION + "/cancel", handler=cancel, body=Reason,
        summary="Stop an operation for good; what it has done stays done",
    ),
)  # fmt: skip
