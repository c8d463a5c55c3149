"""The HTTP application: from a request to a checked call to an answer, and every error to a problem
document."""

import functools
import random
import re
from collections import defaultdict
from collections.abc import Callable
from typing import Any, Final

import msgspec
import structlog
from starlette.responses import Response

from tocsin.api import (
    alert_channels,
    alert_rules,
    alerts,
    archives,
    audit,
    backfills,
    batch,
    calendar,
    calendars,
    connections,
    control,
    dead_letters,
    declarations,
    echo,
    events,
    executions,
    fleet,
    forecast,
    jobs,
    keys,
    logins,
    metrics,
    operations,
    queues,
    schedules,
    session,
    stats,
    system,
    tallies,
    targets,
    tenants,
    timeline,
    webhook_secret,
    whoami,
    workers,
)
from tocsin.api import secrets as secrets_of_users
from tocsin.api.context import Context
from tocsin.api.endpoint import NOBODY, ApiCall, Endpoint, Reply
from tocsin.api.openapi import openapi_document
from tocsin.api.outage_log import Outage
from tocsin.api.problems import problem, problem_of, refused_by_decoder
from tocsin.api.request import ClientGone, Handle, Request, Routes
from tocsin.api.suggestions import nearest
from tocsin.api.trail import Trail
from tocsin.api.wire.health import Health
from tocsin.db.patience import left, patient_for
from tocsin.db.pool import acting_for, noting_changes
from tocsin.domain.errors import NotFound, OutcomeUnknown, Refused, Unavailable

MAX_BODY: Final = 1024 * 1024
_PATIENCE: Final = 4.5
"""Seconds that a request waits for the database in all; then its caller is told to come back."""
_MODULES: Final = (
    jobs, batch, control, declarations, schedules, targets, executions, dead_letters, operations, backfills, queues, calendars, connections,
    alerts, alert_channels, alert_rules, secrets_of_users,
    webhook_secret, tenants, logins, keys, whoami, session, stats, tallies, timeline, calendar, forecast, events, audit, archives, fleet, workers, system,
)  # fmt: skip
ENDPOINTS: Final[tuple[Endpoint, ...]] = tuple(one for module in _MODULES for one in module.ENDPOINTS)
_PLAIN_ID: Final = re.compile(r"[\w.:-]{1,64}", re.ASCII)
_log = structlog.get_logger()
_encode = msgspec.json.Encoder().encode


Pages = Callable[[Request], Response | None]
"""What answers browsers beside the API; None where it has nothing to say."""


class Application:
    """Answers requests over one context, by the ASGI protocol."""

    def __init__(self, context: Context, pages: Pages | None = None) -> None:
        self._context = context
        self._outage = Outage(context.clock)
        self._pages = pages
        verbs: dict[str, dict[str, Handle]] = defaultdict(dict)
        for endpoint in ENDPOINTS:
            verbs[endpoint.path][endpoint.method] = _serve(endpoint, context)
        verbs["/openapi.json"]["GET"] = _constant(_document())
        verbs["/healthz"]["GET"] = _constant(_encode(Health("ok")))
        verbs["/readyz"]["GET"] = _ready(context, self._outage)
        verbs["/metrics"]["GET"] = metrics.serve(context)
        if context.echo:
            verbs[echo.PATH] = dict.fromkeys(echo.METHODS, echo.echo)
        self.routes = Routes(dict(verbs))

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """One request."""
        request = Request(scope, receive)
        request.id = _request_id(request)
        try:
            with patient_for(_PATIENCE):
                response = await self._handle(request)
        except Refused as error:
            response = problem_of(error)
        except Unavailable as error:
            self._outage.note(error)
            response = problem_of(error, repeatable="idempotency-key" in request.headers)
        except ClientGone:
            response = Response(status_code=499)
        except Exception as error:  # noqa: BLE001 - a defect ends its own request, told and logged, nothing else
            response = _unexpected(request, error)
        response.raw_headers.append((b"x-request-id", request.id.encode()))
        self._context.telemetry.requests.labels(response.status_code).inc()
        await response(scope, receive, send)

    async def _handle(self, request: Request) -> Response:
        found = self.routes.find(request.path)
        if found is None:
            if self._pages is not None and (page := self._pages(request)) is not None:
                return page
            return problem(404, f"no route {request.path[:200]}", hint="GET /openapi.json lists every route")
        verbs, request.parameters = found
        handle = verbs.get("GET" if request.method == "HEAD" else request.method)
        if handle is None:
            allowed = sorted({*verbs, "HEAD"} if "GET" in verbs else verbs)
            return problem(
                405,
                f"{request.method} is not possible here",
                hint=f"possible are {', '.join(allowed)}",
                headers={"allow": ", ".join(allowed)},
            )
        return await handle(request)


def _serve(endpoint: Endpoint, context: Context) -> Handle:
    decode = msgspec.json.Decoder(endpoint.body).decode if endpoint.body is not None else None
    known = frozenset(parameter.name for parameter in endpoint.parameters)

    async def serve(request: Request) -> Response:
        asker = NOBODY if endpoint.keyless else await context.entrance.admit(request, endpoint.scope)
        standing = {} if endpoint.keyless else context.throttle.admit(asker)
        patience = (
            None if endpoint.stream or endpoint.waits else left()
        )  # what a body takes to arrive is not the database's doing
        _check_path(request)
        _check_query(request, known)
        if endpoint.shown_once and "idempotency-key" in request.headers:
            raise Refused(
                "this cannot be repeated under a key: its answer is shown once", field="Idempotency-Key"
            )
        body: Any = request
        if not endpoint.stream:
            raw = await _read_body(request, endpoint.max_body or MAX_BODY)
            nul = endpoint.keeps_nul
            body = _decode(decode, raw, required=endpoint.body_required, nul=nul) if decode else None
        trail = None
        if endpoint.changes:
            trail = Trail(context.audit, asker, endpoint, request.id, request.address)
        call = ApiCall(
            context, asker, request.parameters, request.query, request.headers, body, request, trail
        )
        with acting_for(asker.tenant_id), patient_for(patience):
            answer = await (endpoint.handler(call) if trail is None else _changing(trail, call))
        return answer if isinstance(answer, Response) else _response(endpoint, answer, standing)

    return serve


async def _changing(trail: Trail, call: ApiCall) -> Any:
    """The answer of a handler that changes something. One that failed after a commit does not say that
    nothing was done."""
    with noting_changes() as changes:
        try:
            return await trail.follow(call)
        except Unavailable as error:
            if changes.made and not isinstance(error, OutcomeUnknown):
                raise OutcomeUnknown("the database did not answer to the end", why=str(error)) from error
            raise


def _response(endpoint: Endpoint, answer: Any, standing: dict[str, str]) -> Response:
    if not isinstance(answer, Reply):
        return Response(_encode(answer), endpoint.status, standing, media_type="application/json")
    status = answer.status or endpoint.status
    response = Response(
        _encode(answer.body), status, answer.headers | standing, media_type="application/json"
    )
    response.raw_headers += [(b"set-cookie", cookie.encode()) for cookie in answer.cookies]
    return response


def _request_id(request: Request) -> str:
    """The caller's own id for the request if it has a plain one, else one of ours: logs and the audit log
    name it."""
    given = request.headers.get("x-request-id")
    return given if given is not None and _PLAIN_ID.fullmatch(given) else f"{random.getrandbits(64):016x}"


def _check_path(request: Request) -> None:
    """Nothing can be named by text that the database cannot hold."""
    if any("\x00" in part for part in request.parameters.values()):
        raise NotFound("nothing has a name with a NUL character in it")


def _check_query(request: Request, known: frozenset[str]) -> None:
    """Refuse what would be ignored or could not be asked of the database."""
    seen = set()
    for name, value in request.query.multi_items():
        if name not in known:
            raise Refused(
                f"unknown parameter {name[:64]!r}",
                field=name[:64],
                hint=nearest(name, sorted(known), listed=True),
            )
        if name in seen:
            raise Refused("the parameter is given twice", field=name)
        if "\x00" in value:
            raise Refused(_NUL, field=name)
        seen.add(name)


async def _read_body(request: Request, most: int) -> bytes:
    """The body, refused as soon as it is known to be too large."""
    declared = request.headers.get("content-length")
    if declared is not None and declared.isdigit() and int(declared[:18]) > most:
        raise _too_large(most)
    chunks: list[bytes] = []
    size = 0
    async for chunk in request.stream():
        size += len(chunk)
        if size > most:
            raise _too_large(most)
        chunks.append(chunk)
    return b"".join(chunks)


def _decode(decode: Callable[[bytes], Any], raw: bytes, *, required: bool, nul: bool = False) -> Any:
    if not raw:
        if required:
            raise Refused("a JSON body is needed")
        return None
    try:
        body = decode(raw)
        place = _place_of_nul(msgspec.json.decode(raw)) if b"\\u0000" in raw and not nul else None
    except msgspec.ValidationError as error:
        raise refused_by_decoder(error, getattr(getattr(decode, "__self__", None), "type", None)) from None
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise _BadJson(f"the body is not valid JSON: {error}") from None
    except RecursionError:
        raise _BadJson("the body is nested too deeply") from None
    if place is not None:
        raise Refused(_NUL, field=place.lstrip("."))
    return body


def _place_of_nul(value: Any) -> str | None:
    """Where text has a NUL character, which PostgreSQL cannot store. The path is only built on the way
    back."""
    if isinstance(value, str):
        return "" if "\x00" in value else None
    if isinstance(value, list):
        for number, item in enumerate(value):
            if (place := _place_of_nul(item)) is not None:
                return f"[{number}]{place}"
    elif isinstance(value, dict):
        for name, item in value.items():
            place = "" if "\x00" in name else _place_of_nul(item)
            if place is not None:
                return f".{name[:64]}{place}"
    return None


class _BadJson(Refused):
    status = 400


class _TooLarge(Refused):
    status = 413


def _too_large(most: int) -> Refused:
    return _TooLarge(f"the body is larger than {most // 1024} KiB")


_NUL: Final = "text cannot have a NUL character"


@functools.lru_cache(maxsize=1)
def _document() -> bytes:
    """The same for every application of a process, and a tenth of a second's work."""
    return _encode(openapi_document(ENDPOINTS))


def _constant(body: bytes) -> Handle:
    async def constant(_: Request) -> Response:
        return Response(body, media_type="application/json")

    return constant


def _ready(context: Context, outage: Outage) -> Handle:
    async def ready(_: Request) -> Response:
        try:
            await context.readiness.check()
        except Unavailable as error:
            outage.note(error)
            document = _encode(Health("unavailable", error.detail))
            return Response(document, 503, headers={"retry-after": "1"}, media_type="application/json")
        return Response(_encode(Health("ready", context.wall)), media_type="application/json")

    return ready


def _unexpected(request: Request, error: Exception) -> Response:
    """A defect of ours: logged with an id that the caller can quote; nothing of it is shown."""
    _log.error("api.failed", request_id=request.id, method=request.method, path=request.path, exc_info=error)
    return problem(500, "something went wrong on our side; quote the request id", request_id=request.id)
