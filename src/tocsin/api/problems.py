"""Every error as a problem document (RFC 9457): what is wrong, which field, what to do."""

from typing import Any

import msgspec
from starlette.responses import Response

from tocsin.domain.errors import Refused, Unavailable


class Problem(msgspec.Struct, frozen=True, omit_defaults=True):
    """An error as callers see it. `field` is the path of the culprit in the request, if there is one."""

    title: str
    status: int
    detail: str
    type: str = "about:blank"
    field: str | None = None
    hint: str | None = None
    request_id: str | None = None


_TITLES = {
    400: "Bad request",
    401: "Unauthorized",
    403: "Forbidden",
    404: "Not found",
    405: "Method not allowed",
    409: "Conflict",
    411: "Length required",
    413: "Content too large",
    415: "Unsupported media type",
    422: "Unprocessable content",
    429: "Too many requests",
    500: "Internal server error",
    503: "Service unavailable",
}


def problem(status: int, detail: str, **more: Any) -> Response:
    """A response with a problem document."""
    headers = {"retry-after": str(more.pop("retry_after"))} if "retry_after" in more else {}
    headers |= more.pop("headers", {})
    document = Problem(_TITLES.get(status, "Error"), status, detail, **more)
    return Response(
        msgspec.json.encode(document), status, headers=headers, media_type="application/problem+json"
    )


def problem_of(error: Refused | Unavailable) -> Response:
    """The document for an error that was raised on purpose."""
    if isinstance(error, Unavailable):
        return problem(503, error.detail, retry_after=error.retry_after)
    headers = {"www-authenticate": "Bearer"} if error.status == 401 else {}
    return problem(error.status, error.detail, field=error.field, hint=error.hint, headers=headers)


def refused_by_decoder(error: msgspec.ValidationError) -> Refused:
    """msgspec says ``… - at `$.schedule.every` ``; users want the field's name."""
    reason, _, path = str(error).partition(" - at `")
    field = path.rstrip("`").removeprefix("$").lstrip(".") or None
    if "unknown field" in reason:
        unknown = reason.rpartition("`")[0].rpartition("`")[2]
        field = f"{field}.{unknown}" if field else unknown
        reason = f"unknown field {unknown!r}"
    elif "missing required field" in reason:
        missing = reason.rpartition("`")[0].rpartition("`")[2]
        field = f"{field}.{missing}" if field else missing
        reason = f"{missing!r} is required"
    return Refused(reason, field=field)
