"""What a client does, without doing it: the request of a call, the meaning of an answer, and whether to try
again.

A request that may change something carries an `Idempotency-Key`, made once per call, so repeating it is
harmless. It is repeated when it could not be sent, when its answer was lost, and when the server says that it
is busy: after a random part of a growing pause, or after as long as the server asks for, within the time that
the call has in all.
"""

import os
import random
import secrets
from typing import Any, Final
from urllib.parse import quote, urlencode

import msgspec

from tocsin.domain.errors import (
    Conflict,
    NotFound,
    OutcomeUnknown,
    Refused,
    Stale,
    TocsinError,
    Unauthorized,
    Unavailable,
)

DEFAULT_URL: Final = "http://127.0.0.1:8420"
TRIED_AGAIN: Final = frozenset({429, 502, 503, 504})
_FIRST_PAUSE: Final = 0.1
_LONGEST_PAUSE: Final = 5.0


class Gone(Refused):
    """The server has no more for this caller."""

    status = 410


class TooMany(Refused):
    """A limit on requests: come back later."""

    status = 429


class Request(msgspec.Struct, frozen=True):
    """A call of the API."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes | None = None


class Problem(msgspec.Struct, frozen=True):
    """What a refusal says."""

    detail: str = ""
    title: str = ""
    field: str | None = None
    hint: str | None = None
    code: str | None = None


def place_of(url: str | None, key: str | None) -> tuple[str, str]:
    """Where the API is and with which key: as given, or TOCSIN_URL and TOCSIN_API_KEY."""
    found = (url or os.environ.get("TOCSIN_URL") or DEFAULT_URL).rstrip("/")
    text = key or os.environ.get("TOCSIN_API_KEY")
    if not text:
        raise Unauthorized("no API key: set TOCSIN_API_KEY, or give api_key (--api-key on the command line)")
    return found, text


def request_of(
    method: str,
    *path: str,
    body: Any = None,
    query: dict[str, Any] | None = None,
    idempotency_key: str | None = None,
    if_match: str | None = None,
) -> Request:
    """A request. The parts of a path are a user's words: each stays one part, whatever is in it."""
    text = "/v1/" + "/".join(quote(part, safe=":") for part in path)
    given = {name: _query_text(value) for name, value in (query or {}).items() if value is not None}
    headers = {"accept": "application/json"}
    if method in ("POST", "PATCH", "PUT"):
        headers["idempotency-key"] = idempotency_key or secrets.token_hex(16)
    if if_match is not None:
        headers["if-match"] = if_match
    encoded = None
    if body is not None:
        headers["content-type"] = "application/json"
        encoded = msgspec.json.encode(body)
    return Request(method, text + ("?" + urlencode(given) if given else ""), headers, encoded)


def _query_text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def without_key(request: Request) -> Request:
    """The same request without an idempotency key: of calls that have a proof of their own."""
    headers = {name: value for name, value in request.headers.items() if name != "idempotency-key"}
    return Request(request.method, request.path, headers, request.body)


def answer_of(status: int, body: bytes) -> Any:
    """What an answer says; a refusal is raised."""
    if status < 400:
        return msgspec.json.decode(body) if body else None
    raise error_of(status, body)


def error_of(status: int, body: bytes) -> TocsinError:
    """The error that an answer means, of the server's own families."""
    try:
        problem = msgspec.json.decode(body, type=Problem)
    except msgspec.MsgspecError:
        problem = Problem(f"the server answered {status}")
    detail = problem.detail or problem.title or f"the server answered {status}"
    if status >= 500:
        return Unavailable(detail)
    if status in (401, 403):
        return Unauthorized(detail, status=status)
    kinds: dict[int, type[Refused]] = {404: NotFound, 409: Conflict, 410: Gone, 412: Stale, 429: TooMany}
    kind = kinds.get(status, Refused)
    refused = kind(detail, field=problem.field, hint=problem.hint, code=problem.code)
    for name in ("field", "hint"):  # seen where it is not caught
        if words := getattr(problem, name):
            refused.add_note(f"{name}: {words}")
    return refused


def lost(detail: str) -> Unavailable:
    """The error of a request that had no answer."""
    return OutcomeUnknown(detail)


def pause_before(attempt: int, left: float, retry_after: str | None) -> float | None:
    """Seconds until the next try, after `attempt` of them; None: give up."""
    pause = min(_FIRST_PAUSE * 2 ** (attempt - 1), _LONGEST_PAUSE) * random.random()
    pause = max(pause, seconds_of(retry_after))
    return pause if pause < left else None


def seconds_of(retry_after: str | None) -> float:
    """How long a `Retry-After` asks to wait; 0 if it does not, or in words that are no number."""
    if retry_after is not None and retry_after.isascii() and retry_after.isdigit():
        return float(retry_after[:6])
    return 0.0
