"""Tenants over the API: made, listed, limited, suspended; and limits that hold from one request to the
next."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.api import Answer, InProcessApi, in_process_api
from tests.support.postgres import Cluster

NOOP = {"target": {"kind": "noop"}}


@pytest.fixture(scope="module")
def api(cluster: Cluster) -> Iterator[InProcessApi]:
    url = cluster.new_database()
    with in_process_api(url) as api:
        yield api
    cluster.drop(url)


def make(api: InProcessApi, name: str, **fields: Any) -> dict[str, Any]:
    answer = api.post("/v1/tenants", {"name": name} | fields)
    assert answer.status == 201, answer
    made: dict[str, Any] = answer.json()
    return made


def patch(api: InProcessApi, name: str, **fields: Any) -> Answer:
    return api.call("PATCH", f"/v1/tenants/{name}", json.dumps(fields).encode())


def new_job(api: InProcessApi, key: str, **fields: Any) -> Answer:
    return api.post("/v1/jobs", NOOP | {"schedule": {"in": "1h"}} | fields, key=key)


def test_a_tenant_is_made_shown_changed_and_listed(api: InProcessApi) -> None:
    made = make(api, "acme", weight=4, limits={"in_flight": 10, "min_interval": "30s"})
    assert (made["state"], made["weight"], made["limits"]["in_flight"]) == ("active", 4, 10)
    assert api.get("/v1/tenants/acme").json() == made
    changed = patch(api, "acme", weight=2, limits={"in_flight": None, "fires_per_second": 2.5}).json()
    assert (changed["weight"], changed["limits"]["in_flight"]) == (2, None)
    assert (changed["limits"]["fires_per_second"], changed["limits"]["min_interval"]) == (2.5, "30s")
    assert patch(api, "acme").json()["limits"] == changed["limits"]
    for number in range(5):
        make(api, f"page-{number}")
    names = [item["name"] for page in api.pages("/v1/tenants", limit=2) for item in page]
    assert names == sorted(names)
    assert {"acme", "default", "page-0", "page-4"} <= set(names)


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"name": ""},
        {"name": "Upper"},
        {"name": "a/b"},
        {"name": "x" * 64},
        {"name": "ok", "weight": 0},
        {"name": "ok", "weight": 1001},
        {"name": "ok", "limits": {"in_flight": 0}},
        {"name": "ok", "limits": {"in_flight": "many"}},
        {"name": "ok", "limits": {"unknown": 1}},
        {"name": "ok", "limits": {"min_interval": "soon"}},
        {"name": "ok", "limits": {"min_interval": "9d"}},
        {"name": "ok", "limits": {"history_days": 0}},
        {"name": "ok", "limits": {"history_days": 1.5}},
    ],
)
def test_a_tenant_that_makes_no_sense_is_refused_by_field(api: InProcessApi, body: dict[str, Any]) -> None:
    before = api.fetch("SELECT count(*) AS n FROM tenants")
    answer = api.post("/v1/tenants", body)
    assert answer.status == 422
    assert answer.problem()["field"]
    assert api.fetch("SELECT count(*) AS n FROM tenants") == before


def test_a_name_is_taken_once_and_an_unknown_one_is_not_found(api: InProcessApi) -> None:
    make(api, "twice")
    assert api.post("/v1/tenants", {"name": "twice"}).status == 409
    for path in ("", "/suspend", "/resume"):
        method = "POST" if path else "GET"
        assert api.call(method, f"/v1/tenants/nobody{path}").status == 404
    assert patch(api, "nobody", weight=2).status == 404


def test_a_suspended_tenant_is_refused_at_once_and_goes_on_when_resumed(api: InProcessApi) -> None:
    key = api.new_key("read", "write", tenant="sleeper")
    job = new_job(api, key).json()
    suspended = api.post("/v1/tenants/sleeper/suspend", {"reason": "has not paid"}).json()
    assert (suspended["state"], suspended["state_reason"]) == ("suspended", "has not paid")
    refused = api.get("/v1/jobs", key=key)
    assert (refused.status, "suspended" in refused.problem()["detail"]) == (403, True)
    assert api.post("/v1/tenants/sleeper/suspend").status == 409
    acting = [(b"tocsin-tenant", b"sleeper")]
    assert api.call("GET", f"/v1/jobs/{job['id']}", headers=acting).status == 200, "an operator still sees"
    assert api.post("/v1/tenants/sleeper/resume").json()["state"] == "active"
    assert api.get(f"/v1/jobs/{job['id']}", key=key).status == 200
    assert api.post("/v1/tenants/sleeper/resume").status == 409


def test_only_a_suspended_tenant_is_deleted_and_it_does_not_come_back(api: InProcessApi) -> None:
    key = api.new_key("read", "write", tenant="leaver")
    new_job(api, key)
    assert "suspend it first" in api.delete("/v1/tenants/leaver").problem()["hint"]
    api.post("/v1/tenants/leaver/suspend")
    deleted = api.delete("/v1/tenants/leaver")
    assert (deleted.status, deleted.json()["deleted_at"] is not None) == (202, True)
    assert api.delete("/v1/tenants/leaver").json() == deleted.json()
    assert api.post("/v1/tenants/leaver/resume").status == 409
    assert patch(api, "leaver", weight=2).status == 409
    assert api.get("/v1/jobs", key=key).status == 403
    assert api.delete("/v1/tenants/nobody").status == 404
    assert api.delete("/v1/tenants/default").status == 409
    noted = api.get("/v1/audit", action="tenant.delete").json()["items"]
    assert len(noted) == 1


def test_an_operator_cannot_lock_himself_out(api: InProcessApi) -> None:
    answer = api.post("/v1/tenants/default/suspend")
    assert answer.status == 409
    assert "this key" in answer.problem()["detail"]
    make(api, "other")
    acting = [(b"tocsin-tenant", b"other")]
    assert api.call("POST", "/v1/tenants/default/suspend", headers=acting).status == 409


def test_requests_over_the_rate_are_refused_with_the_time_to_wait(api: InProcessApi) -> None:
    make(api, "hasty", limits={"requests_per_second": 0.5, "request_burst": 3})
    key = api.new_key("read", tenant="hasty")
    answers = [api.get("/v1/jobs", key=key) for _ in range(5)]
    assert [answer.status for answer in answers] == [200, 200, 200, 429, 429]
    assert answers[0].headers["ratelimit-policy"] == '"requests";q=3;w=6'
    assert answers[0].headers["ratelimit"].startswith('"requests";r=2;')
    refusal = answers[3]
    assert 1 <= int(refusal.headers["retry-after"]) <= 2
    assert "requests_per_second" in refusal.problem()["detail"]
    assert patch(api, "hasty", limits={"requests_per_second": None, "request_burst": None}).status == 200
    assert api.get("/v1/jobs", key=key).status == 200, "a lifted limit is lifted at once"
    assert api.get("/v1/jobs", key=api.new_key("read", tenant="calm")).headers.get("ratelimit") is None


@pytest.mark.parametrize("limit", ["requests_per_second", "fires_per_second"])
@pytest.mark.parametrize("rate", [5e-324, 1e-300, 0.0009, 0, -1])
def test_a_rate_that_comes_to_never_is_refused(api: InProcessApi, limit: str, rate: float) -> None:
    refused = api.post("/v1/tenants", {"name": "never", "limits": {limit: rate}})
    assert (refused.status, refused.problem()["field"]) == (422, f"limits.{limit}")
    assert refused.problem()["detail"] == "expected a number of at least 0.001"


def test_jobs_over_the_limit_are_refused_and_fit_again_when_others_end(api: InProcessApi) -> None:
    make(api, "full", limits={"pending_jobs": 5})
    key = api.new_key("read", "write", tenant="full")
    jobs = [new_job(api, key).json() for _ in range(2)]
    jobs += [new_job(api, key, schedule={"every": "1h"}, name=f"n{n}").json() for n in range(3)]
    refused = new_job(api, key)
    assert refused.status == 409
    assert "pending_jobs" in refused.problem()["detail"]
    put = json.dumps(NOOP | {"schedule": {"every": "1h"}}).encode()
    assert api.call("PUT", "/v1/jobs/by-name/another", put, key=key).status == 409
    assert api.call("PUT", "/v1/jobs/by-name/n0", put, key=key).status == 200, "a change is no new job"
    for job in (jobs[0], jobs[4]):
        assert api.post(f"/v1/jobs/{job['id']}/cancel", key=key).status == 200
    _forget_estimates(api)
    assert [new_job(api, key).status for _ in range(3)] == [201, 201, 409]
    assert patch(api, "full", limits={"pending_jobs": 100}).status == 200
    assert new_job(api, key).status == 201


def test_only_what_is_still_to_come_counts_as_pending(api: InProcessApi) -> None:
    key = api.new_key("read", "write", tenant="counted")
    for n in range(3):
        new_job(api, key, schedule={"in": f"{n + 1}h"})
        new_job(api, key, schedule={"in": "1s"})
        new_job(api, key, schedule={"every": "1h"}, queue="other", priority=n)
    paused = new_job(api, key).json()
    api.post(f"/v1/jobs/{paused['id']}/pause", key=key)
    (row,) = api.fetch("SELECT id FROM tenants WHERE name = 'counted'")
    # What a recurring job has planned is its own doing; what is over is over; another tenant's is another's.
    (job,) = api.get("/v1/jobs", key=key, kind="recurring", limit=1).json()["items"]
    api.post(f"/v1/jobs/{job['id']}/run", key=key)
    done = new_job(api, key).json()
    api.post(f"/v1/jobs/{done['id']}/cancel", key=key)
    count = api.context.tenants.pending_jobs
    assert api.run(count(row["id"], 30.0, 1000)) == 10
    assert api.run(count(row["id"], 30.0, 4)) == 4, "counting stops at what is asked for"


def test_a_repetition_is_answered_although_there_is_no_room_for_another(api: InProcessApi) -> None:
    make(api, "repeats", limits={"pending_jobs": 1})
    key = api.new_key("read", "write", tenant="repeats")
    body = json.dumps(NOOP | {"schedule": {"in": "1h"}, "idempotency_key": "once"}).encode()
    first = api.call("POST", "/v1/jobs", body, key=key)
    again = api.call("POST", "/v1/jobs", body, key=key)
    assert (first.status, again.status) == (201, 201)
    assert first.json()["id"] == again.json()["id"]
    assert new_job(api, key, idempotency_key="other").status == 409


def test_of_a_batch_as_many_are_created_as_fit(api: InProcessApi) -> None:
    make(api, "batches", limits={"pending_jobs": 3})
    key = api.new_key("read", "write", tenant="batches")
    items = [NOOP | {"schedule": {"in": "1h"}}] * 5
    refused = api.call("POST", "/v1/jobs:batch?atomic=true", json.dumps(items).encode(), key=key)
    assert refused.status == 422
    assert refused.json()["created"] == 0
    _forget_estimates(api)
    answer = api.post("/v1/jobs:batch", items, key=key).json()
    assert (answer["created"], answer["refused"]) == (3, 2)
    assert "pending_jobs" in answer["items"][3]["problem"]["detail"]


def test_payloads_and_intervals_over_the_limit_are_refused_by_field(api: InProcessApi) -> None:
    make(api, "small", limits={"payload_bytes": 200, "min_interval": "1m"})
    key = api.new_key("read", "write", tenant="small")
    hook = {"kind": "http", "url": "http://127.0.0.1:9/", "body": "x" * 300}
    large = new_job(api, key, target=hook)
    assert (large.status, large.problem()["field"]) == (413, "target")
    often = new_job(api, key, schedule={"every": "59s"})
    assert (often.status, often.problem()["field"]) == (422, "schedule")
    cron = new_job(api, key, schedule={"cron": "*/30 * * * * *"})
    assert (cron.status, cron.problem()["field"]) == (422, "schedule")
    job = new_job(api, key, schedule={"every": "60s"}).json()
    change = json.dumps({"schedule": {"every": "10s"}}).encode()
    assert api.call("PATCH", f"/v1/jobs/{job['id']}", change, key=key).status == 422


def test_an_operator_acting_for_a_tenant_keeps_to_its_limits_but_is_not_throttled(api: InProcessApi) -> None:
    make(api, "helped", limits={"requests_per_second": 1, "min_interval": "1h"})
    acting = [(b"tocsin-tenant", b"helped")]
    body = json.dumps(NOOP | {"schedule": {"every": "1m"}}).encode()
    assert [api.call("POST", "/v1/jobs", body, headers=acting).status for _ in range(5)] == [422] * 5
    body = json.dumps(NOOP | {"schedule": {"every": "1h"}}).encode()
    job = api.call("POST", "/v1/jobs", body, headers=acting).json()
    assert api.get(f"/v1/jobs/{job['id']}").status == 404, "it is the tenant's, not the operator's"
    (entry,) = api.get("/v1/audit", object=job["id"]).json()["items"] or [None]
    assert (entry["tenant"], entry["actor"], entry["action"]) == ("helped", "bootstrap", "job.create")


def _forget_estimates(api: InProcessApi) -> None:
    """As if the seconds had passed for which a count is believed."""
    for estimate in api.context.pending._estimates.values():
        estimate.at = float("-inf")
