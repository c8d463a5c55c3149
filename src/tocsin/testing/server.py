"""`tocsin sandbox`: a fleet on virtual time behind a socket, for tests in other languages.

Workers and clients of any language use it as they use a real one, in real time. What waits for an instant
waits until a test moves the clock: then time goes from instant to instant, and at each of them it stands
still until the workers have done all that is due.
"""

import asyncio
from collections.abc import Mapping
from time import monotonic
from typing import Any, Final
from urllib.parse import parse_qsl, urlencode

import msgspec

from tocsin.domain.errors import Refused, TocsinError
from tocsin.domain.instant import format_instant, parse_span
from tocsin.testing.attempts import LoopThread
from tocsin.testing.database import cache_directory, drop_database, new_database, start_server
from tocsin.testing.faults import instant_of
from tocsin.testing.fleet import Answer, Fleet, SteadyClock
from tocsin.testing.ledger import OVER, entry_of
from tocsin.testing.virtual_time import START, VirtualLoop

PATIENCE: Final = 30.0
"""Real seconds that workers may take at one instant."""
_LOOK: Final = 0.02
_JSON: Final = [(b"content-type", b"application/json")]
_RUNNING: Final = "SELECT count(*) AS number FROM executions WHERE claim_token IS NOT NULL"


class Clock(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How far time goes on: by a span, or to an instant."""

    advance: str | float | None = None
    to: str | None = None


class Fault(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The next attempts at a task fail, before any worker sees them."""

    task: str
    times: int = 1
    error: str = "as the test wants it"
    kind: str = "Fault"


class SandboxServer:
    """An ASGI application: the API as it is, and ``/sandbox``."""

    def __init__(self, fleet: Fleet, loop: LoopThread) -> None:
        self._fleet = fleet
        self._loop = loop
        self._faults: dict[str, Fault] = {}
        self._moving = asyncio.Lock()

    async def __call__(self, scope: Mapping[str, Any], receive: Any, send: Any) -> None:
        """One request."""
        if scope["type"] != "http":
            return
        body = b""
        while (message := await receive())["type"] == "http.request":
            body += message.get("body", b"")
            if not message.get("more_body"):
                break
        gone = asyncio.create_task(receive())
        try:
            answer = await self._answer(scope, body, gone)
        except TocsinError as error:
            answer = _problem(error)
        finally:
            gone.cancel()
        await send({"type": "http.response.start", "status": answer.status, "headers": answer.headers})
        await send({"type": "http.response.body", "body": answer.body})

    async def _answer(self, scope: Mapping[str, Any], body: bytes, gone: "asyncio.Task[Any]") -> Answer:
        method, path = scope["method"], scope["path"]
        match method, path:
            case "GET", "/sandbox/clock":
                return _written(self._clock())
            case "POST", "/sandbox/clock":
                return _written(await self._move(_read(body, Clock)))
            case "POST", "/sandbox/faults":
                return _written(self._fail(_read(body, Fault)))
            case "GET", "/sandbox/ledger":
                return _written(await self._ledger())
            case "POST", "/sandbox/reset":
                return _written(await self._reset())
        query = parse_qsl(scope["query_string"].decode(), keep_blank_values=True)
        if method == "GET" and path.startswith("/v1/executions/") and "wait" in dict(query):
            return await self._wait(scope, query)
        if method == "POST" and path.startswith("/v1/workers/") and path.endswith("/claim"):
            return await self._claim(scope, body, gone)
        return await self._ask(scope, path, query, body)

    # The API

    async def _ask(
        self, scope: Mapping[str, Any], path: str, query: list[tuple[str, str]], body: bytes
    ) -> Answer:
        written = path + ("?" + urlencode(query) if query else "")
        asked = self._fleet.ask(scope["method"], written, scope["headers"], body)
        answer: Answer = await asyncio.wrap_future(self._loop.submit(asked))
        return answer

    async def _wait(self, scope: Mapping[str, Any], query: list[tuple[str, str]]) -> Answer:
        """The end of an execution, waited for in real time."""
        until = monotonic() + parse_span(dict(query)["wait"], "wait") / 1e6
        others = [(name, value) for name, value in query if name != "wait"]
        while True:
            answer = await self._ask(scope, scope["path"], others, b"")
            if b'"finished_at":null' not in answer.body or monotonic() >= until:
                return answer
            await asyncio.sleep(_LOOK)

    async def _claim(self, scope: Mapping[str, Any], body: bytes, gone: "asyncio.Task[Any]") -> Answer:
        """A long poll, whose wait is real. What is to fail is not handed out."""
        wait = _read(body, dict).get("wait_ms", 0)
        asking = asyncio.create_task(self._ask(scope, scope["path"], [], body))
        done, _ = await asyncio.wait(
            (asking, gone),
            timeout=wait / 1000 if isinstance(wait, int) else 0,
            return_when=asyncio.FIRST_COMPLETED,
        )
        if asking not in done:
            await asyncio.wrap_future(self._loop.submit(self._fleet.let_go()))
        return await self._without_faulty(scope, await asking)

    async def _without_faulty(self, scope: Mapping[str, Any], answer: Answer) -> Answer:
        given = msgspec.json.decode(answer.body) if answer.status == 200 else {}
        failing = [claim for claim in given.get("claims", ()) if self._fails(claim["task"])]
        if not failing:
            return answer
        told = [
            {
                "id": claim["id"],
                "token": claim["token"],
                "verdict": "failed",
                "error": self._spend(claim["task"]),
            }
            for claim in failing
        ]
        settle = scope["path"].removesuffix("claim") + "settle"
        await self._ask(scope, settle, [], msgspec.json.encode({"settle": told}))
        given["claims"] = [claim for claim in given["claims"] if claim not in failing]
        return _written(given)

    # What only a sandbox has

    def _clock(self) -> dict[str, str]:
        return {"now": format_instant(self._fleet.clock.now())}

    def _fail(self, fault: Fault) -> dict[str, Any]:
        if fault.times < 0:
            raise Refused("it is 0 or more", field="times")
        self._faults[fault.task] = fault
        return {"items": [one for one in self._faults.values() if one.times]}

    def _fails(self, task: str) -> bool:
        return task in self._faults and self._faults[task].times > 0

    def _spend(self, task: str) -> dict[str, str]:
        fault = self._faults[task]
        self._faults[task] = msgspec.structs.replace(fault, times=fault.times - 1)
        return {"kind": fault.kind, "message": fault.error}

    async def _ledger(self) -> dict[str, Any]:
        rows = await self._there(self._fleet.fetch(OVER, 0))
        return {"items": [entry_of(row) for row in rows]}

    async def _reset(self) -> dict[str, str]:
        async with self._moving:
            await self._there(self._fleet.let_go())
            await self._there(self._fleet.reset())
            self._faults = {}
        return self._clock()

    async def _move(self, asked: Clock) -> dict[str, str]:
        """Let time pass, from one instant at which something is due to the next."""
        if (asked.advance is None) == (asked.to is None):
            raise Refused("give `advance` or `to`", field="advance")
        async with self._moving:
            now = self._fleet.clock.now()
            until = (
                instant_of(asked.to, now, "to")
                if asked.to
                else now + parse_span(asked.advance or 0, "advance")
            )
            if until < now:
                raise Refused("time does not go back", field="to")
            while (next_at := await self._become_quiet()) is not None and next_at <= until:
                await self._there(self._fleet.move(next_at))
            await self._there(self._fleet.move(until))
            return self._clock()

    async def _become_quiet(self) -> int | None:
        """Wait until the workers have done all that is due. Returns when something is due next."""
        give_up = monotonic() + PATIENCE
        while True:
            quiet, next_at = await self._there(self._turn())
            if quiet:
                return None if next_at is None else int(next_at)
            if monotonic() > give_up:
                raise Refused(f"the workers are not done after {PATIENCE:.0f} s at {self._clock()['now']}")
            await asyncio.sleep(_LOOK)

    async def _turn(self) -> tuple[bool, int | None]:
        fleet, now = self._fleet, self._fleet.clock.now()
        look = await fleet.look()
        done = await fleet.tidy(look)
        await fleet.attend()
        running = (await fleet.fetch(_RUNNING))[0]["number"]
        served = fleet.served()
        due = any(at <= now and lane in served for lane, at in look.lanes.items())
        return not (done or running or due), look.next_after(now)

    async def _there(self, work: Any) -> Any:
        return await asyncio.wrap_future(self._loop.submit(work))


async def serve(host: str, port: int, stop: asyncio.Event, ready: Any) -> None:
    """Answer requests until `stop`, over a database in the user's cache directory. `ready` is called when it
    listens."""
    from tocsin.api.server import serve as serve_http  # noqa: PLC0415 - a test takes the application alone

    clock = SteadyClock(START)
    base, loop = LoopThread(name="tocsin database"), LoopThread(VirtualLoop(clock), "tocsin sandbox")
    server = base.run(start_server(cache_directory()))
    url = loop.run(new_database(server.url))
    fleet: Fleet = loop.run(Fleet.open(url, clock))
    try:
        ready()
        await serve_http(SandboxServer(fleet, loop), host, port, stop)
    finally:
        loop.run(fleet.close())
        loop.run(drop_database(server.url, url))
        base.run(server.stop())


def _read(body: bytes, kind: Any) -> Any:
    try:
        return msgspec.json.decode(body or b"{}", type=kind)
    except msgspec.MsgspecError as error:
        raise Refused(str(error)) from None


def _written(value: Any) -> Answer:
    return Answer(200, _JSON, msgspec.json.encode(value))


def _problem(error: TocsinError) -> Answer:
    status = 422 if isinstance(error, Refused) else 503
    document = {"title": type(error).__name__, "status": status, "detail": str(error)}
    if isinstance(error, Refused) and error.field:
        document["field"] = error.field
    return Answer(status, [(b"content-type", b"application/problem+json")], msgspec.json.encode(document))
