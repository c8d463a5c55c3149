"""The audit log: every change with who, what, when, from where; nothing that did not happen; pages and
filters."""

import json
from collections.abc import Iterator
from operator import itemgetter
from typing import Any

import pytest

from tests.support.api import CONTRACT, InProcessApi, in_process_api
from tests.support.postgres import Cluster
from tocsin.api.app import ENDPOINTS
from tocsin.domain.instant import format_instant
from tocsin.store import audit
from tocsin.store.audit import AuditStore

NOOP = {"target": {"kind": "noop"}}
HOURLY = NOOP | {"schedule": {"every": "1h"}}


@pytest.fixture(scope="module")
def api(cluster: Cluster) -> Iterator[InProcessApi]:
    url = cluster.new_database()
    with in_process_api(url) as api:
        yield api
    cluster.drop(url)


def entries(api: InProcessApi, **query: Any) -> list[dict[str, Any]]:
    listed: list[dict[str, Any]] = api.get("/v1/audit", **query).json()["items"]
    return listed


def act(api: InProcessApi, method: str, path: str, body: Any = None, **headers: str) -> Any:
    """A change that succeeds; returns the answer and the entry that it left, which must be one."""
    before = len(entries(api, limit=500))
    sent = b"" if body is None else json.dumps(body).encode()
    given = [(name.replace("_", "-").encode(), value.encode()) for name, value in headers.items()]
    answer = api.call(method, path, sent, headers=given)
    assert answer.status < 300, answer
    after = entries(api, limit=500)
    assert len(after) == before + 1, f"{method} {path} left {len(after) - before} entries"
    assert after[0]["request_id"] == answer.headers["x-request-id"]
    assert (after[0]["actor"], after[0]["address"]) == ("bootstrap", "127.0.0.1")
    return answer.json(), after[0]


def test_the_life_of_a_job_is_on_record(api: InProcessApi) -> None:
    job, entry = act(api, "POST", "/v1/jobs", HOURLY | {"name": "recorded"}, x_request_id="my-own.id:1")
    assert (entry["action"], entry["object"], entry["before"]) == ("job.create", job["id"], None)
    assert entry["request_id"] == "my-own.id:1"
    assert (entry["after"]["name"], entry["after"]["schedule"]) == ("recorded", {"every": "1h"})
    path = f"/v1/jobs/{job['id']}"
    _, entry = act(api, "PATCH", path, {"priority": 1})
    assert (entry["action"], entry["object"]) == ("job.update", job["id"])
    assert (entry["before"]["priority"], entry["after"]["priority"]) == (5, 1)
    _, entry = act(api, "POST", path + "/pause", {"reason": "for lunch"})
    assert (entry["before"]["state"], entry["after"]["state"]) == ("active", "paused")
    assert entry["after"]["state_reason"] == "for lunch"
    _, entry = act(api, "POST", path + "/resume")
    assert (entry["before"]["state"], entry["after"]["state"]) == ("paused", "active")
    execution, entry = act(api, "POST", path + "/run")
    assert (entry["action"], entry["after"]) == ("job.run", {"execution": execution["id"]})
    _, entry = act(api, "POST", path + "/skip-next")
    assert entry["action"] == "job.skip_next"
    _, entry = act(api, "POST", f"/v1/executions/{execution['id']}/cancel")
    assert (entry["action"], entry["object"]) == ("execution.cancel", execution["id"])
    assert (entry["before"]["state"], entry["after"]["state"]) == ("queued", "cancelled")
    _, entry = act(api, "POST", f"/v1/executions/{execution['id']}/retry")
    assert (entry["before"]["state"], entry["after"]["state"]) == ("cancelled", "queued")
    _, entry = act(api, "POST", path + "/cancel-queued")
    assert (entry["action"], entry["object"]) == ("job.cancel_queued", job["id"])
    assert entry["after"] == {"cancelled": 1, "not_retried": 0}
    again, entry = act(api, "POST", f"/v1/executions/{execution['id']}/rerun")
    assert (entry["object"], entry["after"]) == (execution["id"], {"execution": again["id"]})
    _, entry = act(api, "POST", path + "/cancel")
    assert entry["after"]["state"] == "cancelled"
    _, entry = act(api, "DELETE", path)
    assert entry["before"]["name"] == "recorded"
    assert entry["after"] is None
    actions = [found["action"] for found in entries(api, object=job["id"])]
    assert actions[0] == "job.delete"
    assert actions[-1] == "job.create", "a creation is found by the object, too"
    assert [
        item["action"] for page in api.pages("/v1/audit", object=job["id"], limit=2) for item in page
    ] == actions


def test_calendars_backfills_tenants_and_keys_are_on_record(api: InProcessApi) -> None:
    ranges = [{"from": "2030-01-01T00:00:00Z", "to": "2030-01-02T00:00:00Z"}]
    act(api, "PUT", "/v1/calendars/holidays", {"ranges": []})
    _, entry = act(api, "PUT", "/v1/calendars/holidays", {"ranges": ranges})
    assert (entry["action"], entry["object"]) == ("calendar.put", "calendar:holidays")
    assert entry["before"] == {"ranges": []}
    assert len(entry["after"]["ranges"]) == 1
    _, entry = act(api, "DELETE", "/v1/calendars/holidays")
    assert entry["after"] is None
    job, _ = act(api, "PUT", "/v1/jobs/by-name/filled", HOURLY)
    past = {"from": "2026-01-01T00:00:00Z", "to": "2026-01-01T05:00:00Z"}
    answer, entry = act(api, "POST", f"/v1/jobs/{job['id']}/backfills", past)
    assert entry["object"] == f"backfill:{answer['backfill']['id']}"
    assert entry["after"]["job"] == job["id"]
    _, entry = act(api, "POST", f"/v1/backfills/{answer['backfill']['id']}/cancel")
    assert entry["action"] == "backfill.cancel"
    _, entry = act(api, "POST", "/v1/tenants", {"name": "noted", "weight": 2})
    assert (entry["tenant"], entry["object"], entry["after"]["weight"]) == ("noted", "tenant:noted", 2)
    _, entry = act(api, "PATCH", "/v1/tenants/noted", {"limits": {"in_flight": 5}})
    assert (entry["before"]["limits"], entry["after"]["limits"]) == ({}, {"in_flight": 5})
    made, entry = act(api, "POST", "/v1/keys", {"name": "k", "scopes": ["read"], "tenant": "noted"})
    assert (entry["tenant"], entry["object"]) == ("noted", f"key:{made['key']['id']}")
    _, entry = act(api, "POST", f"/v1/keys/{made['key']['id']}/revoke")
    assert "revoked_at" in entry["after"]
    _, entry = act(api, "PUT", "/v1/jobs/by-name/filled", HOURLY | {"priority": 2})
    assert (entry["action"], entry["object"]) == ("job.update", job["id"])


def test_every_endpoint_that_changes_something_leaves_an_entry_or_is_said_not_to() -> None:
    """New endpoints are on record without their author's doing; this only says which are meant."""
    quiet = {f"{e.method} {e.path}" for e in ENDPOINTS if e.method != "GET" and not e.changes}
    logins = {"POST /v1/session", "DELETE /v1/session", "POST /v1/session/tickets"}
    # What workers say of themselves and of their attempts is work, not a change that somebody decided on: it
    # is kept with the worker, which names its key, and with the execution. Draining a worker is such a
    # change.
    protocol = {
        "POST /v1/workers",
        "DELETE /v1/workers/{worker_id}",
        *(f"POST /v1/workers/{{worker_id}}/{call}" for call in ("claim", "settle", "heartbeat", "release")),
    }
    assert quiet == {"POST /v1/schedules/preview", "POST /v1/forecast:fit"} | logins | protocol


def test_draining_a_worker_is_on_record(api: InProcessApi) -> None:
    new = {"name": "loader", "tasks": [{"name": "load"}]}
    worker = api.post("/v1/workers", new, key=api.new_key("worker")).json()["worker"]
    _, entry = act(api, "POST", f"/v1/workers/{worker}/drain")
    assert (entry["action"], entry["object"]) == ("worker.drain", worker)
    assert entry["after"] == {"state": "draining"}


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("POST", "/v1/jobs", {"schedule": {"every": "1h"}}),
        ("POST", "/v1/jobs/{job}/resume", None),
        ("POST", "/v1/jobs/{job}/pause", {"until": "2020-01-01T00:00:00Z"}),
        ("PATCH", "/v1/jobs/{job}", {"priority": 99}),
        ("DELETE", "/v1/calendars/nothing", None),
        ("POST", "/v1/tenants", {"name": "default"}),
        ("POST", "/v1/keys/bootstrap/revoke", None),
        ("PUT", "/v1/jobs/by-name/unchanged", HOURLY),
    ],
)
def test_what_is_refused_or_changes_nothing_leaves_nothing(
    api: InProcessApi, method: str, path: str, body: Any
) -> None:
    api.call("PUT", "/v1/jobs/by-name/unchanged", json.dumps(HOURLY).encode())
    job = api.get("/v1/jobs/by-name/unchanged").json()["id"]
    before = api.fetch("SELECT count(*) AS n FROM audit")
    api.call(method, path.format(job=job), b"" if body is None else json.dumps(body).encode())
    assert api.fetch("SELECT count(*) AS n FROM audit") == before


def test_a_dry_run_and_a_repetition_leave_nothing(api: InProcessApi) -> None:
    job = api.create(schedule={"every": "1h"})
    path = f"/v1/jobs/{job['id']}"
    api.post(path + "/pause")
    key = {"idempotency_key": "only once"}
    api.post("/v1/jobs", HOURLY | key)
    before = api.fetch("SELECT count(*) AS n FROM audit")
    assert api.post(path + "/resume", {"dry_run": True}).status == 200
    past = {"from": "2026-01-01T00:00:00Z", "to": "2026-01-01T05:00:00Z", "dry_run": True}
    assert api.post(path + "/backfills", past).status == 200
    assert api.post("/v1/jobs", HOURLY | key).status == 201
    assert api.fetch("SELECT count(*) AS n FROM audit") == before


def test_a_batch_is_one_entry_that_lists_what_was_created(api: InProcessApi) -> None:
    items = [HOURLY | {"name": f"batch {n % 8}"} for n in range(10)]
    answer = api.post("/v1/jobs:batch", items).json()
    created = {item["id"] for item in answer["items"] if item.get("id")}
    assert len(created) == 8
    (entry,) = entries(api, action="job.create_batch")
    assert (entry["actor"], entry["object"], entry["after"]["created"]) == ("bootstrap", "jobs", 8)
    assert set(entry["after"]["jobs"]) == created
    for job in created:
        assert entries(api, object=job) == [entry], "each of them finds it"
    refused = next(item["problem"] for item in answer["items"] if "problem" in item)
    assert refused["status"] == 409


@pytest.mark.parametrize("query", ["", "?atomic=true"])
def test_a_batch_that_creates_nothing_leaves_nothing(api: InProcessApi, query: str) -> None:
    api.post("/v1/jobs", HOURLY | {"name": "taken"})
    before = api.fetch("SELECT count(*) AS n FROM audit")
    for items in ([], [{}], [HOURLY | {"name": ""}], [HOURLY | {"name": "taken"}]):
        assert api.post(f"/v1/jobs:batch{query}", items).json()["created"] == 0
    assert api.fetch("SELECT count(*) AS n FROM audit") == before
    assert api.get("/v1/audit").status == 200


def test_filters_and_pages_hold_everything_once_in_order(api: InProcessApi) -> None:
    for number in range(12):
        api.create(schedule={"every": "1h"}, name=f"paged {number}")
    whole = [entry for page in api.pages("/v1/audit", limit=500) for entry in page]
    assert [entry for page in api.pages("/v1/audit", limit=5) for entry in page] == whole
    assert [e["at"] for e in whole] == sorted((e["at"] for e in whole), reverse=True)
    middle = whole[len(whole) // 2]["at"]
    early = entries(api, to=middle, limit=500)
    late = entries(api, limit=500, **{"from": middle})
    assert late + early == whole
    assert {e["action"] for e in entries(api, action="job.create")} == {"job.create"}
    assert entries(api, actor="nobody") == []
    assert {e["actor"] for e in entries(api, actor="bootstrap")} == {"bootstrap"}


def test_a_tenant_sees_its_own_entries_and_an_operator_all(api: InProcessApi) -> None:
    key = api.new_key("read", "write", tenant="narrow")
    api.post("/v1/jobs", HOURLY, key=key)
    api.create(schedule={"every": "1h"})
    own = api.get("/v1/audit", key=key).json()["items"]
    assert [(e["tenant"], e["action"]) for e in own] == [("narrow", "job.create")]
    assert {"narrow", "default"} <= {e["tenant"] for e in entries(api, limit=500)}


def test_who_did_what_is_found_over_several_walks_by_a_tenant_and_by_an_operator(
    api: InProcessApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(audit, "WALK", 3)
    monkeypatch.setattr(audit, "WALK_OF_EACH", 3)
    key = api.new_key("read", "write", tenant="walked")
    jobs = []
    for number in range(12):
        jobs.append(api.post("/v1/jobs", HOURLY | {"name": f"walked-{number}"}, key=key).json()["id"])
        if number % 5 == 0:
            api.post(f"/v1/jobs/{jobs[-1]}/pause", key=key)
        api.create(schedule={"every": "1h"})
    paused = [jobs[number] for number in (10, 5, 0)]
    for found in (
        _walked(api, key=key, action="job.pause", limit=2),
        _walked(api, key=key, actor=key.split("_")[1], action="job.pause", limit=1),
        [entry for entry in _walked(api, action="job.pause", limit=2) if entry["tenant"] == "walked"],
    ):
        assert [entry["object"] for entry in found] == paused
    assert _walked(api, key=key, action="job.nothing", limit=2) == []
    created = _walked(api, action="job.create", limit=4)
    assert sum(entry["tenant"] == "walked" for entry in created) == 12
    assert created == sorted(created, key=itemgetter("at"), reverse=True)


def _walked(api: InProcessApi, **asked: Any) -> list[dict[str, Any]]:
    """All pages. Some are empty: nothing matched in what was looked at."""
    found, cursor = [], None
    for _ in range(500):
        page = api.get("/v1/audit", **asked, **({"cursor": cursor} if cursor else {})).json()
        assert len(page["items"]) <= asked["limit"]
        found += page["items"]
        cursor = page["next_cursor"]
        if cursor is None:
            return found
    raise AssertionError("it never ends")


def test_what_the_system_does_by_itself_is_on_record(api: InProcessApi) -> None:
    store = AuditStore(api.database)
    api.run(store.system("shard.take_over", "shard:7", after={"owner": 3}))
    (row,) = api.fetch("SELECT id FROM tenants WHERE name = 'default'")
    api.run(
        store.system("job.auto_pause", "job:unknown-object", tenant_id=row["id"], before={"state": "active"})
    )
    (taken,) = entries(api, action="shard.take_over")
    assert (taken["actor"], taken["tenant"], taken["after"]) == ("system", None, {"owner": 3})
    reader = api.get("/v1/audit", key=api.new_key("read"), actor="system").json()["items"]
    assert [entry["action"] for entry in reader] == ["job.auto_pause"], (
        "what concerns no tenant is for operators"
    )


def test_the_entry_of_a_change_is_written_with_it_or_not_at_all(api: InProcessApi) -> None:
    job = api.create(schedule={"every": "1h"}, name="all or nothing")
    (before,) = api.fetch("SELECT version FROM jobs WHERE name = 'all or nothing'")
    api.fetch("ALTER TABLE audit ADD CONSTRAINT nothing_more CHECK (action <> 'job.pause') NOT VALID")
    try:
        with pytest.raises(AssertionError, match="answered 500"):  # which no document promises
            api.post(f"/v1/jobs/{job['id']}/pause")
    finally:
        api.fetch("ALTER TABLE audit DROP CONSTRAINT nothing_more")
    assert api.fetch("SELECT version FROM jobs WHERE name = 'all or nothing'") == [before]
    assert api.job(job)["state"] == "active"


def test_the_log_lies_in_daily_partitions(api: InProcessApi) -> None:
    api.create(schedule={"every": "1h"})
    rows = api.fetch("SELECT DISTINCT tableoid::regclass::text AS name FROM audit")
    today = format_instant(api.context.clock.now())[:10].replace("-", "")
    assert f"audit_{today}" in {row["name"] for row in rows}
    assert "audit_default" not in {row["name"] for row in rows}


def test_the_document_names_the_headers_that_callers_may_send() -> None:
    for path, verbs in CONTRACT.document["paths"].items():
        for operation in verbs.values():
            if path.startswith("/v1/"):
                assert "Tocsin-Tenant" in {p["name"] for p in operation["parameters"] if p["in"] == "header"}
                assert "429" in operation["responses"]
