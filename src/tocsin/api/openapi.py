"""The OpenAPI 3.1 document, generated from the table of endpoints and the types it names."""

import re
from collections.abc import Sequence
from typing import Any, Final

import msgspec

import tocsin
from tocsin.api.endpoint import Endpoint
from tocsin.api.problems import Problem
from tocsin.api.wire import Health

_ALWAYS: Final = (401, 403, 422, 503)
_MEANINGS: Final = {
    400: "The body is not JSON",
    401: "No valid API key",
    403: "The key lacks the scope",
    404: "Unknown, or of another tenant",
    409: "The state forbids it",
    413: "The body is too large",
    422: "A field is wrong; the document names it",
    503: "The database is away; try again later",
}


def openapi_document(endpoints: Sequence[Endpoint]) -> dict[str, Any]:
    """The whole document."""
    types = [t for e in endpoints for t in (e.body, e.answer) if t is not None]
    _, components = msgspec.json.schema_components(
        [*types, Problem, Health], ref_template="#/components/schemas/{name}"
    )
    paths: dict[str, dict[str, Any]] = {}
    for endpoint in endpoints:
        paths.setdefault(endpoint.path, {})[endpoint.method.lower()] = _operation(endpoint)
    paths |= {path: {"get": _probe(summary, statuses)} for path, (summary, statuses) in _PROBES.items()}
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


_PROBES: Final = {
    "/healthz": ("The process answers", (200,)),
    "/readyz": ("The process can reach its database", (200, 503)),
}


def _operation(endpoint: Endpoint) -> dict[str, Any]:
    operation: dict[str, Any] = {
        "operationId": endpoint.handler.__module__.rpartition(".")[2] + "_" + endpoint.handler.__name__,
        "summary": endpoint.summary,
        "tags": [endpoint.path.split("/")[2]],
        "description": f"Needs a key with the `{endpoint.scope}` scope.",
        "parameters": [*_path_parameters(endpoint.path), *_query_parameters(endpoint)],
        "responses": {str(endpoint.status): _content("Done", _schema(endpoint.answer))},
    }
    refusals = {*_ALWAYS, *endpoint.refusals}
    if endpoint.body is not None:
        refusals |= {400, 413}
        content = {"application/json": {"schema": _schema(endpoint.body)}}
        operation["requestBody"] = {"required": endpoint.body_required, "content": content}
    for status in sorted(refusals):
        operation["responses"][str(status)] = _content(
            _MEANINGS[status], _schema(Problem), kind="application/problem+json"
        )
    return operation


def _probe(summary: str, statuses: tuple[int, ...]) -> dict[str, Any]:
    return {
        "summary": summary,
        "security": [],
        "responses": {str(status): _content("Health", _schema(Health)) for status in statuses},
    }


def _path_parameters(path: str) -> list[dict[str, Any]]:
    return [
        {"name": name, "in": "path", "required": True, "schema": {"type": "string"}}
        for name in re.findall(r"{(\w+)}", path)
    ]


def _query_parameters(endpoint: Endpoint) -> list[dict[str, Any]]:
    return [
        {"name": p.name, "in": "query", "required": False, "description": p.about, "schema": p.schema}
        for p in endpoint.parameters
    ]


def _schema(kind: Any) -> dict[str, Any]:
    return {"$ref": f"#/components/schemas/{kind.__name__}"}


def _content(words: str, schema: dict[str, Any], kind: str = "application/json") -> dict[str, Any]:
    return {"description": words, "content": {kind: {"schema": schema}}}
