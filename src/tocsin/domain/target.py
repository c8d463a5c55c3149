"""What an execution calls. One tagged value per kind; `targets/` has one folder for each.

A kind says two things beside its fields. Its *route* is who can run it: workers announce the routes that they
serve. And it may *answer at once*: then its calls take no place on a worker, as long as a crowd of them waits
for its instant or runs.
"""

import re
from typing import Annotated, Any, ClassVar, Final

import msgspec

from tocsin.domain.errors import Refused
from tocsin.domain.grpc_target import GrpcTarget, check_grpc
from tocsin.domain.http_auth import Auth, Value, check_auth
from tocsin.domain.instant import HOUR, SECOND, Span, parse_span
from tocsin.domain.message_target import (
    KafkaTarget,
    MessageTarget,
    NatsTarget,
    RabbitTarget,
    RedisTarget,
    SmtpTarget,
    SqsTarget,
    bytes_of,
    check_message,
    parts_of_message,
)
from tocsin.domain.nesting import check_depth, too_deep
from tocsin.domain.script_target import ScriptTarget, check_script, script_timeout
from tocsin.domain.secrets import SecretRef, check_secret_name
from tocsin.domain.statuses import MAX_PATTERNS, check_statuses, matches
from tocsin.domain.task_target import TaskTarget, check_task, task_route
from tocsin.domain.template import places_of
from tocsin.domain.written import WrittenStatus, WrittenTimeout, WrittenUrl, at_most, described, line

ENGINE_ROUTES: Final = ("http", "noop")
"""What every engine can run. Tasks are run by remote workers, which say which ones they know; scripts by
engines that were told to, and other kinds by engines that have what it takes: gRPC and the clients of
brokers are extras."""
DEFAULT_TIMEOUT: Final = 30 * SECOND
MAX_TIMEOUT: Final = 24 * HOUR
MAX_BODY: Final = 256 * 1024
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
MAX_KEY: Final = 255
KEY_PLACES: Final = ("job", "name", "fire_at")
"""What an idempotency key is made of: the same for every attempt at an execution."""
_KEY_PLACES_SHOWN: Final = ", ".join(f"{{{place}}}" for place in KEY_PLACES)
_KEY: Final = re.compile(r"[\x20-\x7e]+")
_SUCCESS: Final[tuple[int | str, ...]] = ("2xx",)


class ClientTls(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How a target knows the caller by TLS: a secret with a certificate chain and its private key, as PEM
    text."""

    client_certificate: SecretRef


class HttpTarget(
    msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True, tag_field="kind", tag="http"
):
    """An HTTP request. A JSON body that is not a string is sent as application/json."""

    answers_at_once: ClassVar[bool] = False
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
    template: bool = False
    """Whether ``{fire_at}`` and the like are filled in, in the path, the query and the body."""
    path_secret: SecretRef | None = None
    """A secret that ends the path, for services whose addresses are credentials themselves."""
    idempotency_key: Annotated[str, line(MAX_KEY)] | None = None
    """What is sent as `Idempotency-Key`, with ``{job}``, ``{name}`` and ``{fire_at}`` filled in: the same
    over retries. Without it the execution's id is."""


class NoopTarget(
    msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True, tag_field="kind", tag="noop"
):
    """Succeeds at once: for trying things out and for measuring everything but the call."""

    answers_at_once: ClassVar[bool] = True


Target = (
    HttpTarget
    | NoopTarget
    | TaskTarget
    | ScriptTarget
    | GrpcTarget
    | KafkaTarget
    | NatsTarget
    | RabbitTarget
    | RedisTarget
    | SqsTarget
    | SmtpTarget
)


def route_of(target: Target) -> str:
    """Who can run it. The function `route_of` of the schema is the same."""
    if isinstance(target, TaskTarget):
        return task_route(target.task)
    return str(target.__struct_config__.tag)


def check_target(target: Target) -> None:
    """Refuse what could never be delivered. The address itself is judged again at every delivery."""
    if isinstance(target, HttpTarget):
        _check_http(target)
    elif isinstance(target, TaskTarget):
        check_task(target)
    elif isinstance(target, ScriptTarget):
        check_script(target)
    elif isinstance(target, GrpcTarget):
        check_grpc(target)
    elif isinstance(target, MessageTarget):
        check_message(target)


def template_parts(target: Target) -> dict[str, Any]:
    """The parts of a target that are filled in, by field; none unless it asks for that. A key is always
    filled in."""
    if isinstance(target, HttpTarget):
        key = {} if target.idempotency_key is None else {"target.idempotency_key": target.idempotency_key}
        return {"target.url": target.url, "target.body": target.body, **key} if target.template else key
    if isinstance(target, GrpcTarget) and target.template:
        return {"target.body": target.body}
    if isinstance(target, MessageTarget) and target.template:
        return parts_of_message(target)
    return {}


def check_name_is_there(target: Target, name: str | None) -> None:
    """Refuse a target that wants the name of a job without one."""
    parts = template_parts(target)
    if parts and name is None and "name" in places_of(parts):
        raise Refused("the target fills in {name}, and the job has none", field="name")


def timeout_of(target: Target, of_job: str | float | None = None) -> Span:
    """How long one call may take in all: what the target or the job says, the shorter if both do."""
    if isinstance(target, ScriptTarget):
        return script_timeout(target, of_job)
    of_target = target.timeout if isinstance(target, HttpTarget | GrpcTarget) else None
    given = [parse_span(value, "timeout") for value in (of_target, of_job) if value is not None]
    return min(given, default=DEFAULT_TIMEOUT)


def is_expected(target: HttpTarget, status: int) -> bool:
    """Whether an answer with this status is a success."""
    return matches(target.expect, status)


def body_of(target: HttpTarget) -> tuple[bytes, str | None]:
    """The bytes to send and the content type that goes with them unless the user names another."""
    return bytes_of(target.body)


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
    if target.path_secret is not None:
        _check_path_secret(target.url, target.path_secret)
    _check_body(target)
    if target.template:
        _check_places(target)
    if target.idempotency_key is not None:
        _check_key(target.idempotency_key)


def _check_key(key: str) -> None:
    field = "target.idempotency_key"
    if not 1 <= len(key) <= MAX_KEY or not _KEY.fullmatch(key):
        raise Refused(f"a key has 1 to {MAX_KEY} printable ASCII characters", field=field)
    for place in places_of({field: key}):
        if place not in KEY_PLACES:
            raise Refused(
                f"{{{place}}} is no part of a key", field=field, hint=f"a key may have {_KEY_PLACES_SHOWN}"
            )


def _check_expected(statuses: tuple[int | str, ...]) -> None:
    if not statuses:
        raise Refused("at least one status must count as success", field="target.expect")
    check_statuses(statuses, "target.expect")


def _check_body(target: HttpTarget) -> None:
    try:
        body, _ = body_of(target)
    except RecursionError:
        raise too_deep("the body", "target.body") from None
    if len(body) > MAX_BODY:
        raise Refused(f"the body is larger than {MAX_BODY // 1024} KiB", field="target.body")
    check_depth(target.body, body, "the body", "target.body")


def _check_places(target: HttpTarget) -> None:
    authority = target.url.partition("://")[2].replace("?", "/").partition("/")[0]
    if "{" in authority or "}" in authority:
        raise Refused("the host is not filled in, only path and query are", field="target.url")
    places_of(template_parts(target))


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


def _check_path_secret(url: str, secret: SecretRef) -> None:
    check_secret_name(secret.secret, "target.path_secret")
    if "?" in url:
        raise Refused("a URL that a secret ends has no query", field="target.url")


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
