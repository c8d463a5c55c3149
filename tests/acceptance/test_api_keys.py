"""Who may do what: keys, scopes, tenants. What is refused leaves no trace and gives nothing away."""

import re
from collections.abc import Iterator

import pytest

from tests.support.api import ADMIN_KEY, InProcessApi, in_process_api
from tests.support.postgres import Cluster
from tocsin.api.app import ENDPOINTS
from tocsin.api.endpoint import Endpoint
from tocsin.domain.ids import ExecutionKey, execution_text, job_text, new_job_id
from tocsin.domain.keys import Scope, new_key


@pytest.fixture(scope="module")
def api(cluster: Cluster) -> Iterator[InProcessApi]:
    url = cluster.new_database()
    with in_process_api(url) as api:
        yield api
    cluster.drop(url)


def _address(endpoint: Endpoint) -> str:
    job_id = new_job_id(0)
    ids = {"job_id": job_text(job_id), "execution_id": execution_text(ExecutionKey(job_id, 0))}
    return re.sub(r"{(\w+)}", lambda name: ids.get(name[1], "some"), endpoint.path)


ROUTES = [
    pytest.param(endpoint, id=f"{endpoint.method} {endpoint.path}")
    for endpoint in ENDPOINTS
    if not endpoint.keyless
]


@pytest.mark.parametrize("endpoint", ROUTES)
def test_no_route_answers_without_a_key(api: InProcessApi, endpoint: Endpoint) -> None:
    before = api.tables()
    answer = api.call(endpoint.method, _address(endpoint), b"{", key=None)
    assert answer.status == 401
    assert answer.headers["www-authenticate"] == "Bearer"
    answer.problem()
    assert api.tables() == before


@pytest.mark.parametrize("endpoint", ROUTES)
def test_no_route_answers_a_key_without_its_scope(api: InProcessApi, endpoint: Endpoint) -> None:
    others = [scope for scope in Scope if scope not in (endpoint.scope, Scope.ADMIN)]
    answer = api.call(endpoint.method, _address(endpoint), b"{", key=api.new_key(*others))
    assert answer.status == 403
    assert endpoint.scope in answer.problem()["detail"]


def test_metrics_are_for_administrators(api: InProcessApi) -> None:
    assert api.get("/metrics", key=None).status == 401
    assert api.get("/metrics", key=api.new_key("read", "write", "worker")).status == 403


@pytest.mark.parametrize(
    "header",
    [
        b"", b"Bearer", b"Bearer ", b"Basic " + ADMIN_KEY.encode(), ADMIN_KEY.encode(), b"Bearer x",
        b"Bearer " + ADMIN_KEY.encode() + b"x", b"Bearer " + ADMIN_KEY.encode()[:-1], b"Bearer \xff\xfe",
        b"Bearer tocsin_bootstrap_x", b"Bearer tocsin__", b"Bearer tocsin_\xff_aaaaaa", b"Bearer " + b"k" * 5000,
        b"Bearer " + ADMIN_KEY.upper().encode(),
    ],
)  # fmt: skip
def test_a_wrong_key_is_refused_however_it_is_wrong(api: InProcessApi, header: bytes) -> None:
    answer = api.call("GET", "/v1/jobs", key=None, headers=[(b"authorization", header)])
    assert answer.status == 401
    answer.problem()


def test_the_scheme_is_read_in_any_case(api: InProcessApi) -> None:
    header = (b"authorization", b"bearer  " + ADMIN_KEY.encode())
    assert api.call("GET", "/v1/jobs", key=None, headers=[header]).status == 200


def test_a_key_that_was_never_issued_is_refused(api: InProcessApi) -> None:
    assert api.get("/v1/jobs", key=new_key()[1]).status == 401


def test_an_expired_key_is_refused(api: InProcessApi) -> None:
    assert api.get("/v1/jobs", key=api.new_key("read", expired=True)).status == 401


@pytest.mark.parametrize(
    "end",
    [
        "UPDATE api_keys SET revoked_at = tocsin_now()",
        "UPDATE api_keys SET expires_at = tocsin_now()",
    ],
)
def test_a_key_is_refused_once_it_is_revoked_or_expired(url: str, end: str) -> None:
    with in_process_api(url) as api:
        key = api.new_key("read")
        api.fetch(end)
        assert api.get("/v1/jobs", key=key).status == 401


def test_a_suspended_tenants_key_is_told_why_it_is_refused(url: str) -> None:
    with in_process_api(url) as api:
        key = api.new_key("read")
        api.fetch("UPDATE tenants SET state = 'suspended'")
        answer = api.get("/v1/jobs", key=key)
        assert answer.status == 403
        assert "suspended" in answer.problem()["detail"]


def test_a_read_key_reads_and_a_write_key_writes(api: InProcessApi) -> None:
    reader, writer = api.new_key("read"), api.new_key("write")
    body = {"schedule": {"in": "1h"}, "target": {"kind": "noop"}}
    before = api.tables()
    assert api.post("/v1/jobs", body, key=reader).status == 403
    assert api.tables() == before
    job = api.post("/v1/jobs", body, key=writer).json()
    assert api.get(f"/v1/jobs/{job['id']}", key=reader).status == 200
    assert api.get(f"/v1/jobs/{job['id']}", key=writer).status == 403


def test_a_tenant_neither_sees_nor_touches_what_belongs_to_another(api: InProcessApi) -> None:
    job = api.create(schedule={"in": "1h"}, name="mine")
    execution = api.execution(job)
    other = api.new_key("read", "write", "admin", tenant="stranger")
    before = api.tables()
    for path in ("/v1/jobs", "/v1/executions", "/v1/dead-letters"):
        assert api.get(path, key=other).json()["items"] == []
    for path in ("", "/executions"):
        assert api.get(f"/v1/jobs/{job['id']}{path}", key=other).status == 404
    for action in ("cancel", "pause", "resume", "run"):
        assert api.post(f"/v1/jobs/{job['id']}/{action}", key=other).status == 404
    assert api.delete(f"/v1/jobs/{job['id']}", key=other).status == 404
    assert api.get(f"/v1/executions/{execution['id']}", key=other).status == 404
    for action in ("cancel", "retry"):
        assert api.post(f"/v1/executions/{execution['id']}/{action}", key=other).status == 404
    assert api.tables() == before


def test_another_tenants_id_is_refused_in_the_words_of_an_unknown_one(api: InProcessApi) -> None:
    job = api.create(schedule={"in": "1h"})
    unknown = job_text(new_job_id(0))
    other = api.new_key("read", tenant="stranger")
    foreign = api.get(f"/v1/jobs/{job['id']}", key=other).problem()["detail"]
    absent = api.get(f"/v1/jobs/{unknown}", key=other).problem()["detail"]
    assert foreign.replace(job["id"], "") == absent.replace(unknown, "")
