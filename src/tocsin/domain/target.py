"""What an execution calls. One tagged value per kind; the worker has one runner for each."""

import re
from collections.abc import Iterable
from typing import Annotated, Any, Final

import msgspec

from tocsin.domain.errors import Refused
from tocsin.domain.http_auth import Auth, Value, check_auth
from tocsin.domain.instant import HOUR, SECOND, Span, parse_span
from tocsin.domain.secrets import SecretRef, check_secret_name
from tocsin.domain.statuses import MAX_PATTERNS, check_statuses, matches
from tocsin.domain.written import WrittenStatus, WrittenTimeout, WrittenUrl, at_most, described

DEFAULT_TIMEOUT: Final = 30 * SECOND
MAX_TIMEOUT: Final = 24 * HOUR
MAX_BODY: Final = 256 * 1024
MAX_DEPTH: Final = 64
MAX_HEADERS: Final = 64
_METHODS: Final = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE")
_HEADER_NAME: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]{1,128}")
_HEADER_VALUE: Final = re.compile(r"[\t\x20-\x7e\x80-\xff]{0,4096}")
# Set by the client for every request; a user's value would break framing, retries or the signature.
_OURS: Final = frozenset(
    {
        "host", "content-length", "transfer-encoding", "connection", "keep-alive", "proxy-connection", "expect",
        "te", "trailer", "upgrade", "idempotency-key", "traceparent",
    }
)  # fmt: skip
_OUR_PREFIXES: Final = ("tocsin-", "webhook-")
_SUCCESS: Final[tuple[int | str, ...]] = ("2xx",)


class ClientTls(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How a target knows the caller by TLS: a secret with a certificate chain and its private key, as PEM text."""

    client_certificate: SecretRef


class HttpTarget(
    msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True, tag_field="kind", tag="http"
):
    """An HTTP request. A JSON body that is not a string is sent as application/json."""

    url: WrittenUrl
    method: Annotated[str, described(enum=list(_METHODS))] = "POST"
    headers: Annotated[
        dict[Annotated[str, described(pattern=f"^{_HEADER_NAME.pattern}$")], Value],
        described(maxProperties=MAX_HEADERS),
    ] = {}
    body: Any = None
    timeout: WrittenTimeout | None = None
    auth: Auth | None = None
    expect: Annotated[tuple[WrittenStatus, ...], at_most(MAX_PATTERNS, minItems=1)] = _SUCCESS
    """The statuses that count as success."""
    tls: ClientTls | None = None


class NoopTarget(
    msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True, tag_field="kind", tag="noop"
):
    """Succeeds at once: for trying things out and for measuring everything but the call."""


Target = HttpTarget | NoopTarget


def check_target(target: Target) -> None:
    """Refuse what could never be delivered. The address itself is judged again at every delivery."""
    if isinstance(target, HttpTarget):
        _check_http(target)


def timeout_of(target: Target, of_job: str | float | None = None) -> Span:
    """How long one call may take in all: what the target or the job says, the shorter if both do."""
    of_target = target.timeout if isinstance(target, HttpTarget) else None
    given = [parse_span(value, "timeout") for value in (of_target, of_job) if value is not None]
    return min(given, default=DEFAULT_TIMEOUT)


def is_expected(target: HttpTarget, status: int) -> bool:
    """Whether an answer with this status is a success."""
    return matches(target.expect, status)


def body_of(target: HttpTarget) -> tuple[bytes, str | None]:
    """The bytes to send and the content type that goes with them unless the user names another."""
    match target.body:
        case None:
            return b"", None
        case str() as text:
            return text.encode(), "text/plain; charset=utf-8"
        case value:
            return msgspec.json.encode(value), "application/json"


def _check_http(target: HttpTarget) -> None:
    if target.method not in _METHODS:
        raise Refused(f"{target.method[:20]!r} is not one of {', '.join(_METHODS)}", field="target.method")
    if target.headers:
        _check_headers(target.headers)
    if target.timeout is not None:
        timeout = parse_span(target.timeout, "target.timeout")
        if not SECOND // 10 <= timeout <= MAX_TIMEOUT:
            raise Refused("a timeout lies between 0.1s and 24h", field="target.timeout")
    if target.expect is not _SUCCESS:
        _check_expected(target.expect)
    _check_auth(target)
    _check_tls(target)
    _check_body(target)


def _check_expected(statuses: tuple[int | str, ...]) -> None:
    if not statuses:
        raise Refused("at least one status must count as success", field="target.expect")
    check_statuses(statuses, "target.expect")


def _check_body(target: HttpTarget) -> None:
    try:
        body, _ = body_of(target)
    except RecursionError:
        raise _too_deep() from None
    if len(body) > MAX_BODY:
        raise Refused(f"the body is larger than {MAX_BODY // 1024} KiB", field="target.body")
    # Without that many brackets there cannot be that many levels.
    if body.count(b"{") + body.count(b"[") > MAX_DEPTH and _is_deeper(target.body, MAX_DEPTH):
        raise _too_deep()


def _too_deep() -> Refused:
    return Refused(f"the body is nested deeper than {MAX_DEPTH} levels", field="target.body")


def _check_auth(target: HttpTarget) -> None:
    if target.auth is None:
        return
    if any(name.lower() == "authorization" for name in target.headers):
        raise Refused("the header Authorization is given too", field="target.auth")
    check_auth(target.auth)


def _check_tls(target: HttpTarget) -> None:
    if target.tls is None:
        return
    check_secret_name(target.tls.client_certificate.secret, "target.tls.client_certificate")
    if not target.url.lower().startswith("https:"):
        raise Refused("a client certificate needs a URL that begins with https", field="target.tls")


def _check_headers(headers: dict[str, Value]) -> None:
    if len(headers) > MAX_HEADERS:
        raise Refused(f"at most {MAX_HEADERS} headers", field="target.headers")
    for name, value in headers.items():
        _check_header(name, value)
    if len({name.lower() for name in headers}) != len(headers):
        raise Refused("a header is given twice", field="target.headers")


def _check_header(name: str, value: Value) -> None:
    field = f"target.headers.{name[:64]}"
    if not _HEADER_NAME.fullmatch(name):
        raise Refused("not a valid header name", field=field)
    if name.lower() in _OURS or name.lower().startswith(_OUR_PREFIXES):
        raise Refused("this header is set by Tocsin", field=field)
    if isinstance(value, SecretRef):
        check_secret_name(value.secret, field)
    elif not _HEADER_VALUE.fullmatch(value):
        raise Refused("a header value has at most 4096 Latin-1 characters, none of them control", field=field)


def _is_deeper(value: Any, levels: int) -> bool:
    """Whether lists and objects lie in each other more than `levels` deep. Level by level, not by recursion."""
    inside = [value]
    for _ in range(levels + 1):
        inside = [item for outer in inside for item in _items(outer)]
        if not inside:
            return False
    return True


def _items(value: Any) -> Iterable[Any]:
    if isinstance(value, dict):
        return value.values()
    return value if isinstance(value, list) else ()
