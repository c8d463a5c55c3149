"""Every route against a catalogue of hostile values, one at a time: refused or served, never a defect."""

import json
import re
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

import pytest

from tests.support.api import CONTRACT, InProcessApi, in_process_api
from tests.support.postgres import Cluster
from tocsin.api.app import ENDPOINTS
from tocsin.api.endpoint import Endpoint

TEXTS = [
    "", " ", "\0", "a\0", "\n", "\x1b[2J", "\ufffd", "é" * 300, "x" * 9000, "../..", "%", "%00", "'\"\\;--", "-1", "0",
    "999999999999999999999999", "1e308", "NaN", "null", "true", "job_" + "0" * 26, "exec_" + "z" * 39,
    "0001-01-01T00:00:00Z", "9999-12-31T23:59:59Z", "infinity", "W10", "[[[[", ",", ",,a,",
]  # fmt: skip
VALUES: list[Any] = [
    None, True, False, 0, -1, 1, 10**19, 10**400, 0.5, -1e300, [], {}, [None], [[]], [[[[[[]]]]]], {"": None},
    {"x": {"y": {"z": []}}}, ["a"] * 2000, *TEXTS[:10], "x" * 300_000,
]  # fmt: skip
BODIES = [
    b"",
    b"{}",
    b"[]",
    b"null",
    b"0",
    b'"x"',
    b"{",
    b"[{}]",
    b"[" * 5000,
    b"\xff",
    b"\x00",
    b'{"a":1}\n{"b":2}',
]
EXAMPLES: dict[str, Any] = {
    "NewJob": {"schedule": {"every": "1h"}, "target": {"kind": "noop"}},
    "JobBody": {"schedule": {"every": "1h"}, "target": {"kind": "noop"}},
    "PreviewRequest": {"schedule": {"every": "1h"}},
    "CalendarRanges": {"ranges": []},
}


@pytest.fixture(scope="module")
def api(cluster: Cluster) -> Iterator[InProcessApi]:
    url = cluster.new_database()
    with in_process_api(url) as api:
        yield api
    cluster.drop(url)


@pytest.fixture(scope="module")
def ids(api: InProcessApi) -> dict[str, str]:
    """Things that are there, so that requests come as far as possible."""
    job = api.create(schedule={"in": "1h"})
    return {"job_id": job["id"], "execution_id": api.execution(job)["id"], "name": "some"}


def _address(endpoint: Endpoint, ids: dict[str, str], **changed: str) -> str:
    return re.sub(r"{(\w+)}", lambda m: quote((ids | changed).get(m[1], "1"), safe=""), endpoint.path)


def _call(api: InProcessApi, method: str, path: str, body: bytes = b"") -> None:
    """Anything but a defect will do; the contract is checked on the way."""
    answer = api.call(method, path, body)
    assert answer.status < 500, f"{method} {path[:200]} {body[:200]!r} {answer}"


ROUTES = [pytest.param(endpoint, id=f"{endpoint.method} {endpoint.path}") for endpoint in ENDPOINTS]


@pytest.mark.parametrize("endpoint", [r for r in ROUTES if "{" in r.values[0].path])  # type: ignore[union-attr]
def test_no_route_fails_for_what_stands_in_its_path(
    api: InProcessApi, ids: dict[str, str], endpoint: Endpoint
) -> None:
    for name in re.findall(r"{(\w+)}", endpoint.path):
        for text in TEXTS:
            _call(api, endpoint.method, _address(endpoint, ids, **{name: text}))


@pytest.mark.parametrize("endpoint", [r for r in ROUTES if r.values[0].parameters])  # type: ignore[union-attr]
def test_no_route_fails_for_what_stands_in_its_query(
    api: InProcessApi, ids: dict[str, str], endpoint: Endpoint
) -> None:
    for parameter in endpoint.parameters:
        for text in TEXTS:
            _call(api, endpoint.method, f"{_address(endpoint, ids)}?{parameter.name}={quote(text, safe='')}")


@pytest.mark.parametrize("endpoint", [r for r in ROUTES if r.values[0].body is not None])  # type: ignore[union-attr]
def test_no_route_fails_for_what_stands_in_its_body(
    api: InProcessApi, ids: dict[str, str], endpoint: Endpoint
) -> None:
    for body in BODIES:
        _call(api, endpoint.method, _address(endpoint, ids), body)
    kind = getattr(endpoint.body, "__name__", "")
    schema = CONTRACT.document["components"]["schemas"].get(kind, {})
    for name in schema.get("properties", ()):
        for value in VALUES:
            changed = EXAMPLES.get(kind, {}) | {name: value}
            _call(api, endpoint.method, _address(endpoint, ids), json.dumps(changed).encode())


@pytest.mark.parametrize("part", ["Schedule", "Retry", "Misfire", "HttpTarget"])
def test_no_job_fails_for_what_stands_in_its_parts(api: InProcessApi, part: str) -> None:
    field = {"HttpTarget": "target"}.get(part, part.lower())
    start = {"HttpTarget": {"kind": "http", "url": "http://127.0.0.1/"}, "Schedule": {"every": "1h"}}.get(
        part, {}
    )
    for name in CONTRACT.document["components"]["schemas"][part]["properties"]:
        for value in VALUES:
            whole = start if name not in ("at", "in", "now", "cron", "any_of") else {}
            body = EXAMPLES["NewJob"] | {field: whole | {name: value}}
            _call(api, "POST", "/v1/jobs", json.dumps(body).encode())


def test_whatever_was_accepted_on_the_way_can_be_listed_and_shown(api: InProcessApi) -> None:
    for path in ("/v1/jobs", "/v1/executions", "/v1/dead-letters"):
        for page in api.pages(path, limit=100):
            for item in page:
                kind = path.rpartition("/")[2].replace("dead-letters", "executions")
                assert api.get(f"/v1/{kind}/{item['id']}").status == 200
