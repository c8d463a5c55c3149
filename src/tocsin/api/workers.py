"""``/v1/workers``: the worker protocol (`docs/protocol.md`), and remote workers as people see them."""

import asyncio
from typing import Final

from tocsin.api.endpoint import BOOLEAN, CURSOR, LIMIT, ApiCall, Endpoint, Parameter
from tocsin.api.gateway import Gateway
from tocsin.api.listing import listing
from tocsin.api.request import ClientGone
from tocsin.api.wire import workers as wire
from tocsin.api.wire.actions import Nothing
from tocsin.api.wire.pages import CursorNumber, decode_cursor, encode_cursor
from tocsin.domain import protocol
from tocsin.domain.errors import Unavailable
from tocsin.domain.ids import parse_worker_text, worker_text
from tocsin.domain.keys import Scope

_WORKER: Final = "/v1/workers/{worker_id}"


async def register(call: ApiCall) -> protocol.Registered:
    """A worker introduces itself."""
    return await _gateway(call).register(call.asker.tenant_id, call.asker.key_id, call.body)


async def claim(call: ApiCall) -> protocol.Given:
    """Settle, then wait for work. A worker that went away while its request was parked gets none."""
    gateway, tenant_id, worker = _gateway(call), call.asker.tenant_id, call.path["worker_id"]
    answering = asyncio.ensure_future(gateway.claim(tenant_id, worker, call.body))
    leaving = asyncio.ensure_future(call.request.gone())
    try:
        await asyncio.wait({answering, leaving}, return_when=asyncio.FIRST_COMPLETED)
        if not answering.done():
            await gateway.withdraw(tenant_id, worker, call.body)
            raise ClientGone
        return await answering
    finally:
        leaving.cancel()
        answering.cancel()


async def settle(call: ApiCall) -> protocol.SettledAll:
    """Write down what became of attempts."""
    worker = call.path["worker_id"]
    return protocol.SettledAll(await _gateway(call).settle(call.asker.tenant_id, worker, call.body.settle))


async def heartbeat(call: ApiCall) -> protocol.Heard:
    """A worker is there."""
    return await _gateway(call).heartbeat(call.asker.tenant_id, call.path["worker_id"], call.body)


async def release(call: ApiCall) -> protocol.Released:
    """Give back what was not run."""
    worker = call.path["worker_id"]
    return protocol.Released(await _gateway(call).release(call.asker.tenant_id, worker, call.body.claims))


async def leave(call: ApiCall) -> wire.Gone:
    """A worker is gone."""
    await _gateway(call).leave(call.asker.tenant_id, call.path["worker_id"])
    return wire.Gone(call.path["worker_id"])


async def list_workers(call: ApiCall) -> wire.WorkerPage:
    """The tenant's workers."""
    limit, after = call.limit(), decode_cursor(call.query.get("cursor"), tuple[CursorNumber])
    live = call.choice("all", ("true", "false")) != "true"
    rows = await call.context.workers.list(call.asker.tenant_id, after[0] if after else -1, limit, live=live)
    cursor = encode_cursor((rows[-1]["id"],)) if len(rows) == limit else None
    name = lambda row: worker_text(row["id"])  # noqa: E731
    return listing(wire.WorkerPage, rows, wire.worker_view, name, next_cursor=cursor)


async def show(call: ApiCall) -> wire.Worker:
    """One worker."""
    worker_id = parse_worker_text(call.path["worker_id"])
    return wire.worker_view(await call.context.workers.find(call.asker.tenant_id, worker_id))


async def drain(call: ApiCall) -> wire.Worker:
    """Ask a worker to end what it has and to take no more."""
    worker_id = parse_worker_text(call.path["worker_id"])
    shown = wire.worker_view(await call.context.workers.drain(call.asker.tenant_id, worker_id))
    call.note(after={"state": shown.state})
    return shown


def _gateway(call: ApiCall) -> Gateway:
    if call.context.gateway is None:
        raise Unavailable("this API process has no gateway; another one may have")
    return call.context.gateway


ENDPOINTS = (
    Endpoint(
        method="POST", path="/v1/workers", handler=register, summary="Register a remote worker",
        answer=protocol.Registered, body=protocol.NewWorker, scope=Scope.WORKER, status=201,
    ),
    Endpoint(
        method="GET", path="/v1/workers", handler=list_workers, summary="List remote workers", answer=wire.WorkerPage,
        parameters=(LIMIT, CURSOR, Parameter("all", "Also those that are gone", BOOLEAN)),
    ),
    Endpoint(
        method="GET", path=_WORKER, handler=show, summary="Show a remote worker", answer=wire.Worker, refusals=(404,),
    ),
    Endpoint(
        method="DELETE", path=_WORKER, handler=leave, summary="A remote worker leaves", answer=wire.Gone,
        scope=Scope.WORKER, refusals=(404,),
    ),
    Endpoint(
        method="POST", path=_WORKER + "/claim", handler=claim, answer=protocol.Given, body=protocol.Ask,
        summary="Settle attempts, then wait for work", scope=Scope.WORKER, refusals=(404,),
        waits=True, keeps_nul=True, max_body=protocol.MAX_BODY,
    ),
    Endpoint(
        method="POST", path=_WORKER + "/settle", handler=settle, answer=protocol.SettledAll, body=protocol.Settlements,
        summary="Say what became of attempts", scope=Scope.WORKER, refusals=(404,), keeps_nul=True,
        max_body=protocol.MAX_BODY,
    ),
    Endpoint(
        method="POST", path=_WORKER + "/heartbeat", handler=heartbeat, answer=protocol.Heard, body=protocol.Heartbeat,
        summary="Keep claims, tell progress and logs, hear what should stop", scope=Scope.WORKER, refusals=(404,),
        keeps_nul=True, max_body=protocol.MAX_BODY,
    ),
    Endpoint(
        method="POST", path=_WORKER + "/release", handler=release, answer=protocol.Released, body=protocol.Release,
        summary="Give back claims of which nothing was run", scope=Scope.WORKER, refusals=(404,),
    ),
    Endpoint(
        method="POST", path=_WORKER + "/drain", handler=drain, answer=wire.Worker, body=Nothing, body_required=False,
        summary="Ask a remote worker to end what it has and to take no more", scope=Scope.WRITE, refusals=(404,),
    ),
)  # fmt: skip
