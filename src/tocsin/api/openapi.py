"""The OpenAPI 3.1 document, generated from the table of endpoints and the types it names."""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated, Any, Final, get_args, get_origin

import msgspec

import tocsin
from tocsin.api.endpoint import Endpoint
from tocsin.api.problems import Problem
from tocsin.api.wire.health import Health
from tocsin.api.wire.logins import LoginName
from tocsin.api.wire.scalars import Name
from tocsin.domain.ids import ExecutionText, JobText, WorkerText
from tocsin.domain.keys import KeyId
from tocsin.domain.secrets import SecretName
from tocsin.domain.task_target import TASK_NAME
from tocsin.domain.written import WrittenName, described

_ALWAYS: Final = (401, 403, 404, 422, 429, 503)
_MEANINGS: Final = {
    400: "The body is not JSON",
    401: "No valid API key",
    403: "The key lacks the scope",
    404: "Unknown, or of another tenant",
    408: "The request did not arrive in time",
    409: "The state forbids it",
    412: "Another change came first",
    413: "The body is too large",
    422: "A field is wrong; the document names it",
    429: "The tenant asks more often than it may; Retry-After says when to come again",
    503: "The database is away; try again later. Of the type `urn:tocsin:problem:outcome-unknown`: the request may have been carried out",
}
_ACTING_FOR: Final = {
    "name": "Tocsin-Tenant",
    "in": "header",
    "required": False,
    "description": "The tenant to act for; another than the key's own only with the `admin` scope",
    "schema": msgspec.json.schema(WrittenName),
}
# What stands in a path, by its name; a plain `name` by what it is the name of.
_IN_PATHS: Final[Mapping[str, Any]] = {
    "job_id": JobText,
    "execution_id": ExecutionText,
    "worker_id": WorkerText,
    "backfill_id": Annotated[str, described(pattern="^[0-9]{1,18}$")],
    "operation_id": Annotated[str, described(pattern="^[0-9]{1,18}$")],
    "key_id": KeyId,
    "tenant": WrittenName,
    "login": LoginName,
    "queue": WrittenName,
    "owner": Annotated[str, described(pattern=f"^{TASK_NAME}$")],
    "jobs.name": Name,
    "calendars.name": WrittenName,
    "connections.name": WrittenName,
    "alert-channels.name": WrittenName,
    "alert-rules.name": WrittenName,
    "secrets.name": SecretName,
}
_REQUEST_ID: Final = "X-Request-Id"
_HEADERS: Final = {
    _REQUEST_ID: "The request's id, in logs and the audit log: the caller's own if it sent a plain one",
    "ETag": "The job's version, for If-Match",
    "Idempotent-Replayed": "`true` when the key was used before and this is the answer it got",
    "RateLimit": "What is left of the tenant's requests per second, if they are limited",
    "RateLimit-Policy": "The limit itself",
    "Retry-After": "Seconds to wait",
    "WWW-Authenticate": "`Bearer`",
}
_STANDING: Final = ("RateLimit", "RateLimit-Policy")
_HEADERS_OF: Final = {401: ("WWW-Authenticate",), 429: ("Retry-After", *_STANDING), 503: ("Retry-After",)}
_SOMETIMES: Final = ("Idempotent-Replayed", *_STANDING)


def openapi_document(endpoints: Sequence[Endpoint]) -> dict[str, Any]:
    """The whole document."""
    types = [t for e in endpoints for t in (e.body, e.answer) if t not in (None, str)]
    _, components = msgspec.json.schema_components(
        [*types, Problem, Health], ref_template="#/components/schemas/{name}"
    )
    paths: dict[str, dict[str, Any]] = {}
    for endpoint in endpoints:
        paths.setdefault(endpoint.path, {})[endpoint.method.lower()] = _operation(endpoint)
    paths |= {path: {"get": operation} for path, operation in _beside_the_api().items()}
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Tocsin",
            "version": tocsin.__version__,
            "summary": "A distributed job scheduler on PostgreSQL",
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "servers": [{"url": "/"}],
        "security": [{"key": []}],
        "paths": paths,
        "components": {
            "schemas": components,
            "securitySchemes": {"key": {"type": "http", "scheme": "bearer"}},
        },
    }


def _operation(endpoint: Endpoint) -> dict[str, Any]:
    operation: dict[str, Any] = {
        "operationId": endpoint.handler.__module__.rpartition(".")[2] + "_" + endpoint.handler.__name__,
        "summary": endpoint.summary,
        "tags": [_tag(endpoint)],
        "description": "Needs no key."
        if endpoint.keyless
        else f"Needs a key with the `{endpoint.scope}` scope.",
        "parameters": [
            *_path_parameters(endpoint),
            *_query_parameters(endpoint),
            *_request_headers(endpoint),
        ],
        "responses": {},
    }
    if endpoint.keyless:
        operation["security"] = []
    refusals = {*_ALWAYS, *endpoint.refusals}
    if endpoint.body is not None:
        refusals |= {400, 413}
        content: dict[str, Any] = {"application/json": {"schema": _schema(endpoint.body)}}
        content |= {kind: {"schema": {"type": "string"}} for kind in endpoint.body_kinds}
        operation["requestBody"] = {"required": endpoint.body_required, "content": content}
    operation["responses"] |= _refusals(refusals)
    for status in (endpoint.status, *endpoint.other_statuses):
        headers = (*endpoint.answer_headers, *_STANDING)
        done = _content("Done", _schema(endpoint.answer), endpoint.answer_kind, headers)
        refused = operation["responses"].get(str(status), {"content": {}})
        operation["responses"][str(status)] = {
            **done,
            **refused,
            "content": done["content"] | refused["content"],
        }
    return operation


def _refusals(statuses: Iterable[int]) -> dict[str, Any]:
    return {
        str(status): _content(
            _MEANINGS[status],
            _schema(Problem),
            kind="application/problem+json",
            headers=_HEADERS_OF.get(status, ()),
            sometimes=(*_SOMETIMES, "Retry-After") if status == 503 else _SOMETIMES,
        )
        for status in sorted(statuses)
    }


def _beside_the_api() -> dict[str, dict[str, Any]]:
    """Routes for machines that watch the process rather than use it."""
    well, ill = _content("Well", _schema(Health)), _content("Not now", _schema(Health))
    samples = _content("Samples of the whole fleet", {"type": "string"}, kind="text/plain")
    document = _content("OpenAPI 3.1", {"type": "object"})
    return {
        "/healthz": _probe("health", "The process answers", {"200": well}),
        "/readyz": _probe(
            "ready",
            "The process can do its work: its database is there, fits and is writable",
            {"200": well, "503": ill},
        ),
        "/openapi.json": _probe("openapi", "This document", {"200": document}),
        "/metrics": {
            "operationId": "metrics",
            "summary": "Prometheus metrics of all live nodes",
            "tags": ["process"],
            "description": "Needs a key with the `admin` scope.",
            "responses": {"200": samples} | _refusals((401, 403, 503)),
        },
    }


def _probe(name: str, summary: str, responses: dict[str, Any]) -> dict[str, Any]:
    return {
        "operationId": name,
        "summary": summary,
        "tags": ["process"],
        "security": [],
        "responses": responses,
    }


def _path_parameters(endpoint: Endpoint) -> list[dict[str, Any]]:
    tag = _tag(endpoint)
    return [
        {"name": name, "in": "path", "required": True, "schema": msgspec.json.schema(kind)}
        for name in re.findall(r"{(\w+)}", endpoint.path)
        for kind in (_IN_PATHS[f"{tag}.name" if name == "name" else name],)
    ]


def _query_parameters(endpoint: Endpoint) -> list[dict[str, Any]]:
    return [
        {"name": p.name, "in": "query", "required": False, "description": p.about, "schema": p.schema}
        for p in endpoint.parameters
    ]


def _request_headers(endpoint: Endpoint) -> list[dict[str, Any]]:
    own = [
        {"name": name, "in": "header", "required": False, "schema": msgspec.json.schema(kind)}
        for name, kind in endpoint.request_headers.items()
    ]
    return [*own, _ACTING_FOR]


def _tag(endpoint: Endpoint) -> str:
    return endpoint.path.split("/")[2]


def _schema(kind: Any) -> dict[str, Any]:
    if kind is str:
        return {"type": "string"}
    if get_origin(kind) is list:
        return {"type": "array", "items": _schema(get_args(kind)[0])}
    return {"$ref": f"#/components/schemas/{kind.__name__}"}


def _content(
    words: str,
    schema: dict[str, Any],
    kind: str = "application/json",
    headers: Sequence[str] = (),
    sometimes: Sequence[str] = _SOMETIMES,
) -> dict[str, Any]:
    return {
        "description": words,
        "headers": {
            name: {
                "description": _HEADERS[name],
                "required": name not in sometimes,
                "schema": {"type": "string"},
            }
            for name in (_REQUEST_ID, *headers)
        },
        "content": {kind: {"schema": schema}},
    }
