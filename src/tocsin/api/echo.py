"""``/v1/echo``: a target to try things with. It answers what it received, or fails as it is told to.

`status`, from 400 to 599, is what it fails with, `delay` how many seconds it takes, `fail_first` how many
attempts of an execution fail before one succeeds. It keeps nothing, needs no key and shows nothing that the
caller did not send; it answers only where the operator switched it on, which `tocsin serve` does with its own
database on a loopback address.
"""

import asyncio
from typing import Any, Final

import msgspec
from starlette.responses import Response

from tocsin.api.problems import problem
from tocsin.api.request import Request

PATH: Final = "/v1/echo"
METHODS: Final = ("GET", "POST", "PUT", "PATCH", "DELETE")
_MOST_SHOWN: Final = 16 * 1024
_LONGEST_DELAY: Final = 60.0
_HIDDEN: Final = frozenset(("authorization", "cookie", "proxy-authorization"))


async def echo(request: Request) -> Response:
    """What was received, under the status that was asked for."""
    status, delay, fail_first = (_number(request, name) for name in ("status", "delay", "fail_first"))
    body = b""
    async for chunk in request.stream():
        body = (body + chunk)[:_MOST_SHOWN]
    if delay:
        await asyncio.sleep(min(delay, _LONGEST_DELAY))
    attempt = request.headers.get("tocsin-attempt", "1")
    failing = fail_first is not None and attempt.isdigit() and int(attempt) <= fail_first
    failure = int(status) if status is not None and 400 <= status <= 599 else None
    if failing or (failure is not None and fail_first is None):
        return problem(failure or 503, f"the echo was told to fail attempt {attempt[:9]}")
    return Response(msgspec.json.encode(_received(request, body)), media_type="application/json")


def _received(request: Request, body: bytes) -> dict[str, Any]:
    shown = {name: value for name, value in request.headers.items() if name not in _HIDDEN}
    return {"method": request.method, "headers": shown, "body": body.decode(errors="replace")}


def _number(request: Request, name: str) -> float | None:
    text = request.query.get(name, "")
    return float(text) if text.isascii() and text.replace(".", "", 1).isdigit() and len(text) < 10 else None
