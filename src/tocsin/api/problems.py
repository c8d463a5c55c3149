"""Every error as a problem document (RFC 9457): what is wrong, which field, what to do."""

import re
from typing import Any, Final

import msgspec
from starlette.responses import Response

from tocsin.api.suggestions import for_field, for_value
from tocsin.domain.errors import OutcomeUnknown, Refused, Unavailable


class Problem(msgspec.Struct, frozen=True, omit_defaults=True):
    """An error as callers see it. `code` says which one, for programs, and never changes; `field` is the path
    of the culprit in the request, if there is one."""

    title: str
    status: int
    detail: str
    type: str
    """`code` as a URI."""
    code: str
    field: str | None = None
    hint: str | None = None
    request_id: str | None = None


CODES: Final = {
    400: "bad_request", 401: "unauthorized", 403: "forbidden", 404: "not_found", 405: "method_not_allowed",
    408: "request_timeout", 409: "conflict", 411: "length_required", 412: "stale", 413: "too_large",
    415: "unsupported_media_type", 422: "invalid", 429: "too_many_requests", 431: "head_too_large", 500: "internal",
    503: "unavailable",
}  # fmt: skip
"""What a problem is called if nothing more is known than its status."""
_UNKNOWN_CODE: Final = "outcome_unknown"
OUTCOME_UNKNOWN: Final = "urn:tocsin:problem:outcome-unknown"
"""The type of a 503 that does not say whether the request was carried out."""
MORE_CODES: Final = (
    _UNKNOWN_CODE, "missing_field", "unknown_field", "limit_reached", "name_taken", "managed", "unreadable",
    "idempotency_key_reused", "plain_secret",
)  # fmt: skip
"""What says more than its status."""
_UNKNOWN_OUTCOME: Final = "whether the request was carried out is not known"
_LONGEST: Final = 200  # of what a refusal repeats of the request
_LONGEST_DETAIL: Final = 500
_MISSING: Final = re.compile("Object missing required field `(.*)`", re.DOTALL)
_UNKNOWN: Final = re.compile("Object contains unknown field `(.*?)`?", re.DOTALL)
_EXPECTED: Final = re.compile(
    "Expected `(.*?)`(?: (of length )?(<=|>=|<|>) (\\S+?)(?:\\.0)?)?(?:, got `(.*)`)?"
)
_NO_CHOICE: Final = re.compile("Invalid (?:enum )?value (.*)", re.DOTALL)
_KINDS: Final = {
    "object": "an object",
    "array": "a list",
    "str": "text",
    "int": "a whole number",
    "float": "a number",
    "bool": "true or false",
    "null": "null",
}
_BOUNDS: Final = {"<=": "at most", ">=": "at least", "<": "less than", ">": "more than"}
_TITLES: Final = {
    400: "Bad request",
    401: "Unauthorized",
    403: "Forbidden",
    404: "Not found",
    405: "Method not allowed",
    408: "Request timeout",
    409: "Conflict",
    412: "Precondition failed",
    411: "Length required",
    413: "Content too large",
    415: "Unsupported media type",
    422: "Unprocessable content",
    429: "Too many requests",
    431: "Request header fields too large",
    500: "Internal server error",
    503: "Service unavailable",
}


def document_of(error: Refused | Unavailable) -> Problem:
    """The document for one item of a batch."""
    if isinstance(error, OutcomeUnknown):
        return _document(503, f"{error.detail}; {_UNKNOWN_OUTCOME}", code=_UNKNOWN_CODE)
    if isinstance(error, Unavailable):
        return _document(503, f"{error.detail}; the item was not written")
    return _document(error.status, error.detail, code=error.code, field=error.field, hint=error.hint)


def type_of(code: str) -> str:
    """A code as the URI that RFC 9457 asks for."""
    return f"urn:tocsin:problem:{code.replace('_', '-')}"


def problem(status: int, detail: str, **more: Any) -> Response:
    """A response with a problem document."""
    headers = {"retry-after": str(more.pop("retry_after"))} if "retry_after" in more else {}
    headers |= more.pop("headers", {})
    document = _document(status, detail, **more)
    return Response(
        msgspec.json.encode(document), status, headers=headers, media_type="application/problem+json"
    )


def problem_of(error: Refused | Unavailable, *, repeatable: bool = False) -> Response:
    """The document for an error that was raised on purpose. `repeatable`: the request has an idempotency
    key."""
    if isinstance(error, OutcomeUnknown):
        # Many clients repeat on Retry-After by themselves; without a key that may do it twice.
        again = {"retry_after": error.retry_after} if repeatable else {}
        hint = (
            "repeat it with the same Idempotency-Key"
            if repeatable
            else "look whether it was done before you repeat it"
        )
        return problem(503, f"{error.detail}; {_UNKNOWN_OUTCOME}", code=_UNKNOWN_CODE, hint=hint, **again)
    if isinstance(error, Unavailable):
        return problem(503, error.detail, retry_after=error.retry_after)
    headers = {"www-authenticate": "Bearer"} if error.status == 401 else dict(getattr(error, "headers", {}))
    return problem(
        error.status, error.detail, code=error.code, field=error.field, hint=error.hint, headers=headers
    )


def _document(status: int, detail: str, *, code: str | None = None, **more: Any) -> Problem:
    named = code or CODES.get(status, "error")
    title = _TITLES.get(status, "Error")
    return Problem(title, status, detail[:_LONGEST_DETAIL], type_of(named), named, **more)


def refused_by_decoder(error: msgspec.ValidationError, kind: Any = None) -> Refused:
    """msgspec says ``… - at `$.schedule.every` ``; users want the field's name, and what they may have meant.
    `kind` is the type that the body should have been."""
    reason, _, path = str(error).partition(" - at `")
    field = path.rstrip("`").removeprefix("$").lstrip(".")
    code, hint = "invalid", None
    if missing := _MISSING.fullmatch(reason):
        code, reason = "missing_field", f"{missing[1]!r} is required"
        field = f"{field}.{missing[1]}"
    elif unknown := _UNKNOWN.fullmatch(reason):
        code, reason = "unknown_field", f"unknown field {unknown[1][:64]!r}"
        hint = for_field(kind, field, unknown[1])
        field = f"{field}.{unknown[1]}"
    else:
        wrong = _NO_CHOICE.fullmatch(reason)
        hint = for_value(kind, field, wrong[1].strip("'")) if wrong else None
        reason = _in_plain_words(reason)
    return Refused(reason[:_LONGEST], field=field.lstrip(".")[:_LONGEST] or None, hint=hint, code=code)


def _in_plain_words(reason: str) -> str:
    """What msgspec calls ``Expected `str | null`, got `int` ``. Anything it may say otherwise stays as it
    is."""
    if wrong := _NO_CHOICE.fullmatch(reason):
        return f"{wrong[1][:64]} is not one of the values that are possible here"
    if not (expected := _EXPECTED.fullmatch(reason)):
        return reason
    kinds, length, bound, limit, got = expected.groups()
    words = " or ".join(_KINDS.get(kind, kind) for kind in kinds.split(" | "))
    if length:
        words += f" with {_BOUNDS[bound]} {limit} {'entries' if kinds == 'array' else 'characters'}"
    elif bound:
        words += f" of {_BOUNDS[bound]} {limit}"
    return f"expected {words}" + (f", got {_KINDS.get(got, got)}" if got else "")
