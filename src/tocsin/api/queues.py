"""``/v1/queues``: how deep queues are, who serves them, and holding them.

A queue is listed while something used it within the last hour, while executions of it ended lately, and from
its first pause on. A key sees its tenant's part of a queue. An operator may ask for the parts of all tenants
(`group=tenant`).
"""

from collections.abc import Iterable
from typing import Any, Final

import msgspec

from tocsin.api.endpoint import ApiCall, Endpoint, Parameter
from tocsin.api.pauses import end_of_pause
from tocsin.api.tenants import origin_of
from tocsin.api.wire import queues as wire
from tocsin.api.wire.scalars import time_of
from tocsin.api.wire.stats import Count, Due
from tocsin.domain.errors import Conflict, NotFound
from tocsin.domain.instant import MILLISECOND, Instant, format_instant
from tocsin.domain.job import check_name
from tocsin.domain.keys import Scope
from tocsin.store.queues import MINUTES, MOST_RUNNING, Queues, serving

Place = tuple[int, str]
"""A tenant's id and the name of its queue."""


class _View(msgspec.Struct, frozen=True):
    """What a look has shown, ready to be told."""

    found: Queues
    now: Instant
    tenants: dict[int, str]
    limits: wire.QueueLimits

    def places(self) -> set[Place]:
        """Every tenant's queue that is known."""
        rows = (*self.found.depths, *self.found.ended, *self.found.running)
        return {(row["tenant_id"], row["queue"]) for row in rows} | {
            (row["tenant_id"], row["name"]) for row in self.found.kept
        }

    def queue(self, name: str, tenants: Iterable[int], pausing: int) -> dict[str, Any]:
        """A queue as far as it is these tenants', with the pause that one of them made."""
        of, found = frozenset(tenants), self.found
        kept = [row for row in found.kept if (row["tenant_id"], row["name"]) == (pausing, name)]
        running = [row for row in found.running if row["queue"] == name and row["tenant_id"] in of]
        ended = [row for row in found.ended if row["queue"] == name and row["tenant_id"] in of]
        per_minute = [0] * MINUTES
        for row in ended:
            per_minute[MINUTES - 1 - min(row["minute"], MINUTES - 1)] += row["number"]
        return {
            "name": name,
            "tenant": self.tenants.get(pausing, ""),
            "paused": next(map(_pause, kept), None),
            "due": self.due([row for row in found.depths if row["queue"] == name and row["tenant_id"] in of]),
            "running": Count(
                sum(row["running"] for row in running), any(row["read"] >= MOST_RUNNING for row in running)
            ),
            "per_minute": per_minute,
            "workers": serving(found.served, name),
            "limits": self.limits,
        }

    def depth(self, name: str) -> list[wire.QueueDepth]:
        """What is due in each lane of a queue that has something."""
        return [
            wire.QueueDepth(row["priority"], self.tenants.get(row["tenant_id"], ""), self.due([row]))
            for row in self.found.depths
            if row["queue"] == name and row["due"]
        ]

    def due(self, lanes: list[Any]) -> Due:
        """What is due in some lanes together."""
        oldest = min((lane["oldest"] for lane in lanes if lane["oldest"] is not None), default=None)
        waited = None if oldest is None else max(0, self.now - oldest) / MILLISECOND
        return Due(sum(lane["due"] for lane in lanes), any(lane["capped"] for lane in lanes), waited)


async def list_queues(call: ApiCall) -> wire.QueueList:
    """Queues by name."""
    view = await _look(call, None)
    places = sorted(view.places(), key=lambda place: (place[1], view.tenants.get(place[0], "")))
    return wire.QueueList(
        items=[wire.Queue(**view.queue(name, [tenant_id], tenant_id)) for tenant_id, name in places]
    )


async def show(call: ApiCall) -> wire.QueueDetail:
    """One queue."""
    queue, tenant_id = _queue(call), call.asker.tenant_id
    view = await _look(call, queue)
    known = {tenant for tenant, name in view.places() if name == queue}
    if not known and not await call.context.queues.is_used(tenant_id, queue):
        raise _unknown()
    return wire.QueueDetail(**view.queue(queue, known, tenant_id), depth=view.depth(queue))


async def pause(call: ApiCall) -> wire.QueuePaused:
    """Hold a queue."""
    queue, until = _queue(call), end_of_pause(call)
    check_name(queue, "queue")
    held = await call.context.queues.pause(call.asker.tenant_id, queue, call.reason(), until, origin_of(call))
    return wire.QueuePaused(await show(call), held)


async def resume(call: ApiCall) -> wire.QueueResumed:
    """Let a queue go on, or say what that would start."""
    queue, tenant_id, dry_run = (
        _queue(call),
        call.asker.tenant_id,
        call.body is not None and call.body.dry_run,
    )
    shown = await show(call)
    if dry_run and shown.paused is None:
        raise Conflict("cannot resume: the queue is not paused")
    waiting = await call.context.queues.look(tenant_id, queue, call.context.clock.now())
    if not dry_run:
        await call.context.queues.resume(tenant_id, queue, origin_of(call))
    due, capped = sum(row["due"] for row in waiting.depths), any(row["capped"] for row in waiting.depths)
    missed = sum(row["missed"] for row in waiting.depths)
    return wire.QueueResumed(await show(call), dry_run, Count(due - missed, capped), Count(missed, capped))


async def _look(call: ApiCall, queue: str | None) -> _View:
    context, asker, now = call.context, call.asker, call.context.clock.now()
    limits = wire.QueueLimits(asker.limits.in_flight, asker.limits.fires_per_second)
    if call.choice("group", ("tenant",)) is None or not asker.operator:
        found = await context.queues.look(asker.tenant_id, queue, now)
        return _View(found, now, {asker.tenant_id: asker.tenant}, limits)
    found = await context.all_queues.look(None, queue, now)
    view = _View(found, now, {}, wire.QueueLimits(None, None))
    names = await context.tenants.names(sorted({tenant_id for tenant_id, _ in view.places()}))
    return msgspec.structs.replace(view, tenants=names | {asker.tenant_id: asker.tenant})


def _pause(row: Any) -> wire.QueuePause | None:
    if row["paused_at"] is None:
        return None
    return wire.QueuePause(
        format_instant(row["paused_at"]),
        row["paused_by"] or "system",
        row["reason"],
        time_of(row["paused_until"]),
    )


def _queue(call: ApiCall) -> str:
    return call.path["queue"]


def _unknown() -> NotFound:
    return NotFound("no queue of this name: nothing uses it, and it was never paused")


_GROUP: Final = Parameter(
    "group",
    "The queues of all tenants that the key may see: for operators' keys, all",
    {"type": "string", "enum": ["tenant"]},
)
_QUEUE: Final = "/v1/queues/{queue}"
ENDPOINTS = (
    Endpoint(
        method="GET", path="/v1/queues", handler=list_queues, answer=wire.QueueList, parameters=(_GROUP,),
        summary="Queues: what is due and runs, who serves them, whether they are paused",
    ),
    Endpoint(
        method="GET", path=_QUEUE, handler=show, answer=wire.QueueDetail, parameters=(_GROUP,), refusals=(404,),
        summary="Show a queue with what is due by priority",
    ),
    Endpoint(
        method="POST", path=_QUEUE + "/pause", handler=pause, answer=wire.QueuePaused, body=wire.PauseQueue,
        body_required=False, scope=Scope.WRITE, refusals=(409,),
        summary="Hold a queue, for good or until an instant; nothing in it is lost",
    ),
    Endpoint(
        method="POST", path=_QUEUE + "/resume", handler=resume, answer=wire.QueueResumed, body=wire.ResumeQueue,
        body_required=False, scope=Scope.WRITE, refusals=(404, 409),
        summary="Let a paused queue go on; with dry_run, say what that would start",
    ),
)  # fmt: skip
