"""``/v1/jobs/{job_id}/backfills`` and ``/v1/backfills``: run a past range."""

from collections.abc import Sequence
from functools import partial
from typing import Any, Final

from tocsin.api.endpoint import CURSOR, LIMIT, ApiCall, Endpoint, Parameter, Reply
from tocsin.api.jobs import job_id_of, view
from tocsin.api.listing import listing
from tocsin.api.repeating import REPEATABLE, carried_out_once
from tocsin.api.wire import backfills as wire
from tocsin.api.wire.actions import Nothing
from tocsin.api.wire.pages import CursorNumber, decode_cursor, encode_cursor
from tocsin.api.wire.scalars import time_of
from tocsin.domain.backfill import Mode, fires_of
from tocsin.domain.errors import NotFound, Refused
from tocsin.domain.ids import job_text
from tocsin.domain.instant import HOUR, format_instant, format_span, parse_instant, parse_span
from tocsin.domain.keys import Scope
from tocsin.store.backfills import NewBackfill
from tocsin.store.calendars import blackouts_of
from tocsin.store.repeats import First, Once

_STATES: Final = ("running", "completed", "cancelled")


async def create(call: ApiCall) -> Any:
    """Check the range, count its fire times, and set it going unless it is a dry run."""
    if call.body.dry_run:
        return await _create(call, None)

    async def again(first: First) -> wire.BackfillAnswer:
        made = await _view(call, int(first.answer or 0))
        return wire.BackfillAnswer(made, made.total, [])

    return await carried_out_once(call, "backfill", partial(_create, call), again)


async def _create(call: ApiCall, once: Once | None) -> Reply:
    job_id, asked = job_id_of(call), call.body
    job = await view(call, job_id)
    if job.kind != "recurring":
        raise Refused("a one-off has no range of fire times to backfill", field="job_id")
    if job.state == "cancelled":
        raise Refused("the job is cancelled", field="job_id")
    start, end = parse_instant(asked.from_, "from"), parse_instant(asked.to, "to")
    if end <= start:
        raise Refused("the range ends after it begins", field="to")
    if end > call.context.clock.now():
        raise Refused("a backfill is for the past; the schedule itself sees to the future", field="to")
    pace = parse_span(asked.pace, "pace")
    if pace > HOUR:
        raise Refused("pace is at most an hour", field="pace")
    blackouts = await blackouts_of(call.context.database, call.asker.tenant_id, job.schedule)
    fires = fires_of(job.schedule, start, end, asked.order, blackouts)
    if asked.dry_run and asked.mode is Mode.MISSING:
        fires = await call.context.backfills.missing(job_id, fires)
    sample = [format_instant(fire) for fire in fires[:100]]
    if asked.dry_run:
        return Reply(wire.BackfillAnswer(None, len(fires), sample), 200)
    new = NewBackfill(start, end, asked.mode, asked.order, pace, asked.max_parallel)
    backfill_id = await call.context.backfills.define(
        call.asker.tenant_id, job_id, new, len(fires), once=once
    )
    asked_for = {"job": job.id, "from": asked.from_, "to": asked.to, "mode": asked.mode, "total": len(fires)}
    call.note(f"backfill:{backfill_id}", after=asked_for)
    return Reply(wire.BackfillAnswer(await _view(call, backfill_id), len(fires), sample))


async def of_job(call: ApiCall) -> wire.BackfillPage:
    """Backfills of a job, newest first."""
    limit, job_id = call.limit(), job_id_of(call)
    before = decode_cursor(call.query.get("cursor"), CursorNumber)
    await view(call, job_id)
    return _page(await call.context.backfills.of_job(call.asker.tenant_id, job_id, before, limit), limit)


async def of_tenant(call: ApiCall) -> wire.BackfillPage:
    """Backfills of all jobs, newest first."""
    limit, state = call.limit(), call.choice("state", _STATES)
    before = decode_cursor(call.query.get("cursor"), CursorNumber)
    return _page(await call.context.backfills.of_tenant(call.asker.tenant_id, state, before, limit), limit)


def _page(rows: Sequence[Any], limit: int) -> wire.BackfillPage:
    cursor = encode_cursor(rows[-1]["id"]) if len(rows) == limit else None
    return listing(wire.BackfillPage, rows, _shown, lambda row: str(row["id"]), next_cursor=cursor)


async def show(call: ApiCall) -> wire.Backfill:
    """One backfill and how far it has come."""
    return await _view(call, _backfill_id(call))


async def cancel(call: ApiCall) -> wire.Backfill:
    """Stop a backfill; what has started goes on."""
    backfill_id = _backfill_id(call)
    await call.context.backfills.cancel(call.asker.tenant_id, backfill_id)
    call.note(after={"state": "cancelled"})
    return await _view(call, backfill_id)


async def _view(call: ApiCall, backfill_id: int) -> wire.Backfill:
    return _shown(await call.context.backfills.get(call.asker.tenant_id, backfill_id))


def _shown(row: Any) -> wire.Backfill:
    return wire.Backfill(
        id=row["id"],
        job_id=job_text(row["job_id"]),
        job_name=row["job_name"],
        state=row["state"],
        from_=format_instant(row["range_from"]),
        to=format_instant(row["range_to"]),
        mode=row["mode"],
        order=row["direction"],
        pace=format_span(row["pace"]),
        max_parallel=row["max_parallel"],
        total=row["total"],
        queued=row["planned"],
        left_out=row["left_out"],
        live=row["live"],
        finished=row["planned"] - row["live"],
        created_at=format_instant(row["created_at"]),
        finished_at=time_of(row["finished_at"]),
    )


def _backfill_id(call: ApiCall) -> int:
    text = call.path["backfill_id"]
    if not (text.isascii() and text.isdigit() and len(text) < 19):
        raise NotFound(f"no backfill {text[:40]!r}")
    return int(text)


_OF_JOB = "/v1/jobs/{job_id}/backfills"
_BACKFILL = "/v1/backfills/{backfill_id}"
ENDPOINTS = (
    Endpoint(
        method="POST", path=_OF_JOB, handler=create, body=wire.NewBackfill, answer=wire.BackfillAnswer, status=202,
        other_statuses=(200,),
        summary="Run the fire times of a past range; with dry_run, say which (200)", scope=Scope.WRITE, refusals=(404,),
        **REPEATABLE,
    ),
    Endpoint(
        method="GET", path=_OF_JOB, handler=of_job, answer=wire.BackfillPage, parameters=(LIMIT, CURSOR),
        summary="Backfills of a job, newest first", refusals=(404,),
    ),
    Endpoint(
        method="GET", path="/v1/backfills", handler=of_tenant, answer=wire.BackfillPage,
        summary="Backfills of all jobs, newest first",
        parameters=(LIMIT, CURSOR, Parameter("state", "Only backfills in this state", {"type": "string", "enum": list(_STATES)})),
    ),
    Endpoint(
        method="GET", path=_BACKFILL, handler=show, answer=wire.Backfill, refusals=(404,),
        summary="Show a backfill and how far it has come",
    ),
    Endpoint(
        method="POST", path=_BACKFILL + "/cancel", handler=cancel, answer=wire.Backfill, body=Nothing,
        body_required=False, summary="Stop a backfill; what has started goes on", scope=Scope.WRITE,
        refusals=(404, 409),
    ),
)  # fmt: skip
