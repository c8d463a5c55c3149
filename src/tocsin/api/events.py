"""``/v1/events``: what happens, as it happens, by server-sent events.

A stream is a tenant's; an operator's tells of the fleet, too. It ends when the process stops, when the
browser goes, and when the key or session that opened it is not good any more: that is asked every few
seconds, by the same check that every request passes.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Iterator
from typing import Any, Final

import msgspec
from starlette.responses import StreamingResponse

from tocsin.api.endpoint import ApiCall, Endpoint
from tocsin.api.operations import operation_view
from tocsin.api.pulse import Beat, FleetNews, Listener
from tocsin.domain.errors import Refused, Unavailable, Unreadable
from tocsin.domain.fleet_changes import NodeChange
from tocsin.domain.ids import ExecutionKey, execution_text, job_text
from tocsin.domain.instant import MILLISECOND, format_instant
from tocsin.domain.keys import Scope

_CHECKED_EVERY: Final = 5  # pulses between two looks whether the asker still may
_PATIENCE: Final = 10.0  # seconds without a pulse, after which a comment keeps the connection open
_MOST_TOLD: Final = 50
_encode = msgspec.json.Encoder().encode


class EndedEvent(msgspec.Struct, frozen=True):
    """An execution that ended."""

    id: str
    job_id: str
    name: str | None
    state: str
    reason: str | None
    late_ms: float | None
    run_ms: float | None
    attempt: int
    at: str


class NodeEvent(msgspec.Struct, frozen=True):
    """A node joined, left, is gone without leaving, or is back."""

    id: int
    name: str
    roles: list[str]
    what: str
    seen_at: str
    at: str


class LeaseMove(msgspec.Struct, frozen=True, rename={"before": "from", "after": "to"}):
    """A shard that has another owner."""

    shard: int
    before: int | None
    after: int | None
    epoch: int


class LeaseEvent(msgspec.Struct, frozen=True):
    """Shards that have other owners since the look before, and the names of these nodes as far as they are
    known."""

    at: str
    moves: list[LeaseMove]
    names: dict[str, str]


async def events(call: ApiCall) -> StreamingResponse:
    """The stream."""
    listener = call.context.pulse.listen(call.asker.tenant_id, operator=call.asker.operator)
    headers = {"cache-control": "no-store", "x-accel-buffering": "no"}
    return StreamingResponse(_stream(call, listener), headers=headers, media_type="text/event-stream")


async def _stream(call: ApiCall, listener: Listener) -> AsyncIterator[bytes]:
    number = 0
    try:
        yield b"retry: 2000\n\n"
        while True:
            try:
                beat = await asyncio.wait_for(listener.beats.get(), _PATIENCE)
            except TimeoutError:
                yield b": still here\n\n"
                continue
            number += 1
            if beat is None or (number % _CHECKED_EVERY == 0 and not await _still_may(call)):
                return
            for kind, told in _events(beat):
                yield _event(kind, number, told)
    finally:
        call.context.pulse.leave(listener)


async def _still_may(call: ApiCall) -> bool:
    with contextlib.suppress(Unavailable):
        try:
            await call.context.entrance.admit(call.request, Scope.READ)
        except Refused:
            return False
    return True


def _events(beat: Beat) -> Iterator[tuple[str, Any]]:
    """What a pulse becomes: itself, then what moved."""
    ended = [_ended(row) for row in beat.ended[-_MOST_TOLD:]]
    yield "pulse", {"now": format_instant(beat.now), "ended": ended, "more": len(beat.ended) > _MOST_TOLD}
    for row in beat.operations:
        with contextlib.suppress(Unreadable):
            yield "operation", operation_view(row)
    if beat.fleet is not None:
        for change in beat.fleet.nodes:
            yield "node", _node(change, beat.fleet)
        if beat.fleet.moved:
            yield "lease", _leases(beat.fleet)


def _node(change: NodeChange, news: FleetNews) -> NodeEvent:
    node = change.node
    at, seen = format_instant(news.at), format_instant(node.seen_at)
    return NodeEvent(change.id, node.name, node.roles, change.what, seen, at)


def _leases(news: FleetNews) -> LeaseEvent:
    moves = [LeaseMove(one.shard, one.before, one.after, one.epoch) for one in news.moved]
    about = {node for one in news.moved for node in (one.before, one.after) if node is not None}
    names = {str(node): name for node, name in news.names.items() if node in about}
    return LeaseEvent(format_instant(news.at), moves, names)


def _ended(row: Any) -> EndedEvent:
    started, attempt = row["started_at"], row["attempt"]
    # The start of a first attempt tells lateness; that of a later one, the wait between attempts.
    late = None if started is None or attempt > 1 else (started - row["due_at"]) / MILLISECOND
    ran = None if started is None else (row["finished_at"] - started) / MILLISECOND
    return EndedEvent(
        execution_text(ExecutionKey(row["job_id"], row["fire_at"])),
        job_text(row["job_id"]),
        row["name"],
        row["state"],
        row["reason"],
        late,
        ran,
        attempt,
        format_instant(row["finished_at"]),
    )


def _event(kind: str, number: int, data: Any) -> bytes:
    return b"event: %b\nid: %d\ndata: %b\n\n" % (kind.encode(), number, _encode(data))


ENDPOINTS = (
    Endpoint(
        method="GET", path="/v1/events", handler=events, answer=str, answer_kind="text/event-stream",
        summary="What happens, as it happens: a pulse a second with what ended",
    ),
)  # fmt: skip
