"""Every route on its good days: what it answers, what is stored, what it refuses for want of the right
state."""

from collections.abc import Iterator
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests.support.api import InProcessApi, in_process_api
from tests.support.postgres import Cluster
from tocsin.domain.shard import DEFAULT_SHARDS

FIELDS_OF_CREATION = {
    "name": "nightly report",
    "description": "every night,\nfor the board",
    "schedule": {"cron": "0 9 * * MON", "time_zone": "Europe/Berlin"},
    "target": {
        "kind": "http",
        "url": "http://127.0.0.1:9/hook?x=1",
        "method": "PUT",
        "headers": {"X-Team": "Zürich"},
        "body": {"amount": 1},
        "timeout": "5s",
    },
    "queue": "reports",
    "priority": 2,
    "tags": ["board", "night"],
    "timeout": "1m30s",
    "start_within": 600,
    "retry": {
        "max_attempts": 3,
        "initial_backoff": "2s",
        "max_backoff": "1m",
        "multiplier": 3,
        "jitter": 0,
        "on": ["network", 503],
        "max_age": "2h",
    },
    "misfire": "fire_all",
    "overlap": "allow",
}


@pytest.fixture(scope="module")
def api(cluster: Cluster) -> Iterator[InProcessApi]:
    url = cluster.new_database()
    with in_process_api(url) as api:
        yield api
    cluster.drop(url)


def test_every_field_of_a_job_is_kept_and_shown(api: InProcessApi) -> None:
    job = api.create(**FIELDS_OF_CREATION)
    shown = api.job(job)
    for name in set(FIELDS_OF_CREATION) - {"retry", "misfire"}:
        assert job[name] == shown[name] == FIELDS_OF_CREATION[name], name
    assert job["retry"] == shown["retry"] == FIELDS_OF_CREATION["retry"]
    assert job["misfire"]["policy"] == shown["misfire"]["policy"] == "fire_all"
    assert (job["kind"], job["state"], job["version"]) == ("recurring", "active", 1)


def test_the_answer_to_a_creation_is_what_a_look_at_the_job_shows(api: InProcessApi) -> None:
    for schedule in ({"in": "1h"}, {"every": "1h"}, {"at": "2090-01-01T00:00:00.5+01:00"}):
        job = api.create(schedule=schedule)
        apart = {"created_at", "updated_at"}
        assert {k: v for k, v in api.job(job).items() if k not in apart} == {
            k: v for k, v in job.items() if k not in apart
        }


def test_the_answer_to_a_creation_tells_when_the_job_was_created(api: InProcessApi) -> None:
    job = api.create(schedule={"in": "1h"})
    assert api.job(job)["created_at"] == job["created_at"]


@pytest.mark.parametrize(
    ("schedule", "kind"),
    [
        ({"now": True}, "once"),
        ({"in": "90s"}, "once"),
        ({"in": 90}, "once"),
        ({"in": 0.25}, "once"),
        ({"at": "2090-01-01T00:00:00Z"}, "once"),
        ("2090-01-01T00:00:00Z", "once"),
        ({"every": "5m"}, "recurring"),
        ({"every": 3600}, "recurring"),
        ({"cron": "0 9 * * MON", "time_zone": "Europe/Berlin"}, "recurring"),
        ("*/5 * * * *", "recurring"),
        ("@daily", "recurring"),
    ],
)
def test_every_way_to_write_a_schedule_makes_a_job_with_a_next_fire(
    api: InProcessApi, schedule: Any, kind: str
) -> None:
    job = api.create(schedule=schedule)
    assert (job["kind"], job["state"]) == (kind, "active")
    assert job["next_fire_at"]
    assert api.job(job)["next_fire_at"] == job["next_fire_at"]
    assert len(api.executions(job)) == (1 if kind == "once" else 0)


def test_a_delay_of_nothing_is_due_now(api: InProcessApi) -> None:
    assert api.create(schedule={"in": 0})["kind"] == "once"


def test_a_recurring_name_is_unique_and_a_taken_one_writes_nothing(api: InProcessApi) -> None:
    api.create(name="unique", schedule={"every": "1h"})
    before = api.tables()
    answer = api.post("/v1/jobs", {"name": "unique", "schedule": "@daily", "target": {"kind": "noop"}})
    assert (answer.status, answer.problem()["field"]) == (409, "name")
    assert api.tables() == before


@pytest.mark.parametrize(
    "end",
    [
        lambda api, job: api.post(f"/v1/jobs/{job['id']}/cancel"),
        lambda api, job: api.delete(f"/v1/jobs/{job['id']}"),
    ],
)
def test_the_name_of_a_job_that_is_over_is_free(api: InProcessApi, end: Any) -> None:
    first = api.create(name="freed", schedule={"every": "1h"})
    assert end(api, first).status in (200, 204)
    second = api.create(name="freed", schedule={"every": "1h"})
    assert second["id"] != first["id"]
    assert api.delete(f"/v1/jobs/{second['id']}").status in (200, 204)


def test_one_offs_may_share_a_name_even_with_a_recurring_job(api: InProcessApi) -> None:
    api.create(name="shared", schedule={"every": "1h"})
    first, second = (api.create(name="shared", schedule={"in": "1h"}) for _ in range(2))
    assert first["id"] != second["id"]


def test_the_same_name_belongs_to_every_tenant_for_itself(api: InProcessApi) -> None:
    body = {"name": "common", "schedule": {"every": "1h"}, "target": {"kind": "noop"}}
    for tenant in ("name-a", "name-b"):
        assert api.post("/v1/jobs", body, key=api.new_key("write", tenant=tenant)).status == 201


def test_pausing_takes_the_execution_back_and_resuming_brings_it_again(api: InProcessApi) -> None:
    job = api.create(schedule={"in": "1h"})
    paused = api.post(f"/v1/jobs/{job['id']}/pause", {"reason": "holidays"}).json()
    assert paused["held"] == 1
    assert (paused["job"]["state"], paused["job"]["state_reason"]) == ("paused", "holidays")
    assert paused["job"]["next_fire_at"] == job["next_fire_at"]
    assert api.executions(job) == []
    resumed = api.post(f"/v1/jobs/{job['id']}/resume").json()
    assert resumed["job"]["state"] == "active"
    assert resumed["job"]["state_reason"] is None
    assert api.execution(job)["fire_at"] == job["next_fire_at"]


def test_cancelling_a_job_calls_its_executions_off_and_leaves_a_record(api: InProcessApi) -> None:
    job = api.create(schedule={"in": "1h"})
    done = api.post(f"/v1/jobs/{job['id']}/cancel", {"reason": "not needed"}).json()
    assert (done["cancelled"], done["asked_to_stop"]) == (1, 0)
    assert (done["job"]["state"], done["job"]["next_fire_at"]) == ("cancelled", None)
    execution = api.execution(job)
    assert (execution["state"], execution["reason"], execution["attempts"]) == ("cancelled", "not needed", [])


def test_cancelling_an_execution_leaves_a_record_and_completes_the_one_off(api: InProcessApi) -> None:
    job = api.create(schedule={"in": "1h"})
    execution = api.execution(job)
    cancelled = api.post(f"/v1/executions/{execution['id']}/cancel").json()
    assert (cancelled["id"], cancelled["state"]) == (execution["id"], "cancelled")
    assert cancelled["finished_at"]
    assert api.job(job)["state"] == "completed"


def test_a_cancelled_execution_can_be_brought_back_under_its_own_identity(api: InProcessApi) -> None:
    job = api.create(schedule={"in": "1h"})
    execution = api.execution(job)
    api.post(f"/v1/executions/{execution['id']}/cancel")
    answer = api.post(f"/v1/executions/{execution['id']}/retry")
    assert answer.status == 202
    revived = answer.json()
    assert (revived["id"], revived["state"], revived["attempt"]) == (execution["id"], "queued", 1)


def test_running_a_job_adds_an_execution_beside_its_schedule(api: InProcessApi) -> None:
    job = api.create(schedule={"every": "1h"})
    first, second = (api.post(f"/v1/jobs/{job['id']}/run") for _ in range(2))
    assert (first.status, second.status) == (202, 202)
    assert first.json()["cause"] == "manual"
    assert first.json()["id"] != second.json()["id"]
    assert len(api.executions(job)) == 2


def test_deleting_a_job_calls_off_what_is_queued_and_keeps_its_history(api: InProcessApi) -> None:
    job = api.create(schedule={"in": "1h"})
    answer = api.delete(f"/v1/jobs/{job['id']}").json()
    assert answer == {"job": None, "cancelled": 1, "asked_to_stop": 0, "not_retried": 0, "dry_run": False}
    assert api.get(f"/v1/jobs/{job['id']}").status == 404
    assert api.delete(f"/v1/jobs/{job['id']}").status == 404
    execution = api.execution(job)
    assert (execution["state"], execution["reason"]) == ("cancelled", "job deleted")
    answer = api.post(f"/v1/executions/{execution['id']}/retry")
    assert answer.status == 409
    assert "deleted" in answer.problem()["detail"]


@pytest.mark.parametrize(
    ("prepare", "action"),
    [
        ([], "resume"),
        (["pause"], "pause"),
        (["cancel"], "cancel"),
        (["cancel"], "pause"),
        (["cancel"], "resume"),
        (["cancel"], "run"),
        (["pause", "cancel"], "resume"),
    ],
)
@pytest.mark.parametrize("schedule", [{"in": "1h"}, {"every": "1h"}])
def test_an_action_that_the_state_forbids_is_a_conflict_and_changes_nothing(
    api: InProcessApi, schedule: dict[str, Any], prepare: list[str], action: str
) -> None:
    job = api.create(schedule=schedule)
    for step in prepare:
        assert api.post(f"/v1/jobs/{job['id']}/{step}").status == 200
    before = api.tables()
    answer = api.post(f"/v1/jobs/{job['id']}/{action}")
    assert answer.status == 409
    assert action in answer.problem()["detail"]
    assert api.tables() == before


@pytest.mark.parametrize("action", ["cancel", "pause"])
def test_a_one_off_that_is_over_can_be_neither_cancelled_nor_paused(api: InProcessApi, action: str) -> None:
    job = api.create(schedule={"in": "1h"})
    api.post(f"/v1/executions/{api.execution(job)['id']}/cancel")
    before = api.tables()
    assert api.post(f"/v1/jobs/{job['id']}/{action}").status == 409
    assert api.tables() == before


def test_an_execution_that_is_over_cannot_be_cancelled_and_a_queued_one_not_retried(
    api: InProcessApi,
) -> None:
    execution = api.execution(api.create(schedule={"in": "1h"}))
    queued = api.post(f"/v1/executions/{execution['id']}/retry")
    assert (queued.status, "queued" in queued.problem()["detail"]) == (409, True)
    api.post(f"/v1/executions/{execution['id']}/cancel")
    before = api.tables()
    over = api.post(f"/v1/executions/{execution['id']}/cancel")
    assert (over.status, "cancelled" in over.problem()["detail"]) == (409, True)
    assert api.tables() == before


def test_the_process_tells_that_it_is_well_without_a_key(api: InProcessApi) -> None:
    assert api.get("/healthz", key=None).json()["status"] == "ok"
    assert api.get("/readyz", key=None).json()["status"] == "ready"
    assert api.get("/openapi.json", key=None).json()["openapi"] == "3.1.0"


def test_a_head_request_is_answered_like_the_get_it_stands_for(api: InProcessApi) -> None:
    assert api.call("HEAD", "/healthz", key=None).status == 200


def test_the_fleet_shows_its_shards_and_nodes(api: InProcessApi) -> None:
    api.fetch(
        "INSERT INTO nodes (name, roles, version, expires_at) VALUES ('n', ARRAY['worker'], '1', tocsin_now() + '1 h')"
    )
    shards = api.get("/v1/shards").json()["items"]
    assert [shard["shard"] for shard in shards] == list(range(DEFAULT_SHARDS))
    nodes = {node["name"]: node for node in api.get("/v1/nodes").json()["items"]}
    shown = {name: (node["roles"], node["alive"], node["shards"]) for name, node in nodes.items()}
    assert shown == {"n": (["worker"], True, 0), "api under test": (["api"], True, 0)}


def test_metrics_can_be_read_by_prometheus(api: InProcessApi) -> None:
    answer = api.get("/metrics")
    assert answer.kind == "text/plain"
    list(text_string_to_metric_families(answer.body.decode()))
