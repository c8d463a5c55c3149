"""The OpenAPI document: valid, complete, and true. That every answer fits it is checked on every call; see
`Contract`."""

import re
from typing import Any

import jsonschema
import pytest
from openapi_spec_validator import OpenAPIV31SpecValidator

from tests.support.api import CONTRACT, in_process_api
from tocsin.api.app import ENDPOINTS

DOCUMENT = CONTRACT.document
OPERATIONS = [
    pytest.param(path, method, operation, id=f"{method.upper()} {path}")
    for path, verbs in DOCUMENT["paths"].items()
    for method, operation in verbs.items()
]


def _check(name: str, value: Any) -> None:
    schema = {"$ref": f"#/components/schemas/{name}", "components": DOCUMENT["components"]}
    jsonschema.Draft202012Validator(schema).validate(value)


def test_the_document_is_valid_openapi_3_1() -> None:
    OpenAPIV31SpecValidator(DOCUMENT).validate()


def test_the_served_document_is_this_document(url: str) -> None:
    with in_process_api(url) as api:
        assert api.get("/openapi.json", key=None).json() == DOCUMENT


def test_the_document_and_the_application_have_the_same_routes(url: str) -> None:
    with in_process_api(url) as api:
        served = {(path, method) for path, verbs in api.app.routes.verbs.items() for method in verbs}
    documented = {(path, method.upper()) for path, verbs in DOCUMENT["paths"].items() for method in verbs}
    assert documented == served
    assert {(endpoint.path, endpoint.method) for endpoint in ENDPOINTS} <= served


@pytest.mark.parametrize(("path", "method", "operation"), OPERATIONS)
def test_every_operation_has_a_name_words_and_its_parameters(
    path: str, method: str, operation: dict[str, Any]
) -> None:
    assert operation["summary"]
    assert operation["tags"]
    named = {p["name"] for p in operation.get("parameters", []) if p["in"] == "path"}
    assert named == set(re.findall(r"{(\w+)}", path))
    assert any(status.startswith("2") for status in operation["responses"])
    if path.startswith("/v1/"):
        assert {"401", "403", "422", "503"} <= set(operation["responses"])
    if "requestBody" in operation:
        assert {"400", "413"} <= set(operation["responses"])


def test_operation_ids_are_unique() -> None:
    ids = [parameter.values[2]["operationId"] for parameter in OPERATIONS]  # type: ignore[index]
    assert len(ids) == len(set(ids))


def test_a_batch_promises_its_results_also_where_it_ends_early() -> None:
    """Items may have been written before a line that is too long: then it is 200, and says where it ended."""
    responses = DOCUMENT["paths"]["/v1/jobs:batch"]["post"]["responses"]
    for status in ("200", "422"):
        assert responses[status]["content"]["application/json"]["schema"]["$ref"].endswith("/BatchAnswer")
    assert {"application/json", "application/x-ndjson"} == set(
        DOCUMENT["paths"]["/v1/jobs:batch"]["post"]["requestBody"]["content"]
    )


@pytest.mark.parametrize(
    "job",
    [
        {"schedule": "0 9 * * MON", "target": {"kind": "noop"}},
        {"schedule": {"in": 90}, "target": {"kind": "http", "url": "https://example.com/", "body": [1]}},
        {"schedule": {"every": "5m"}, "target": {"kind": "noop"}, "misfire": "skip", "retry": {"jitter": 0}},
    ],
)
def test_the_schema_of_a_job_accepts_what_the_api_accepts(job: dict[str, Any]) -> None:
    _check("NewJob", job)


@pytest.mark.parametrize(
    "job",
    [
        {},
        {"schedule": "@daily"},
        {"schedule": "@daily", "target": {"kind": "fax"}},
        {"schedule": "@daily", "target": {"kind": "http"}},
        {"schedule": "@daily", "target": {"kind": "noop"}, "colour": "red"},
        {"schedule": "@daily", "target": {"kind": "noop"}, "priority": 10},
        {"schedule": {"never": True}, "target": {"kind": "noop"}},
        {"schedule": {"every": "soon"}, "target": {"kind": "noop"}},
        {"schedule": {"every": 0.5}, "target": {"kind": "noop"}},
        {"schedule": [], "target": {"kind": "noop"}},
        {"schedule": "@daily", "target": {"kind": "http", "url": "ftp://example.com/"}},
        {"schedule": "@daily", "target": {"kind": "http", "url": "http://example.com/", "method": "SHOUT"}},
        {"schedule": "@daily", "target": {"kind": "noop"}, "name": ""},
        {"schedule": "@daily", "target": {"kind": "noop"}, "name": "a\nb"},
        {"schedule": "@daily", "target": {"kind": "noop"}, "queue": "URGENT"},
        {"schedule": "@daily", "target": {"kind": "noop"}, "tags": ["a", "a"]},
        {"schedule": "@daily", "target": {"kind": "noop"}, "timeout": 0},
        {"schedule": "@daily", "target": {"kind": "noop"}, "retry": {"max_attempts": 0}},
        {"schedule": "@daily", "target": {"kind": "noop"}, "retry": {"on": ["sometimes"]}},
    ],
)
def test_the_schema_of_a_job_refuses_what_the_api_refuses(job: dict[str, Any]) -> None:
    with pytest.raises(jsonschema.ValidationError):
        _check("NewJob", job)
