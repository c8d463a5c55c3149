"""Queues: what is due and runs in them, and pauses that lose nothing and are told."""

from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.api import InProcessApi, in_process_api
from tests.support.postgres import Cluster
from tocsin.domain.ids import parse_job_text

PAST, FUTURE = "2020-01-01T00:00:00Z", "2100-01-01T00:00:00Z"


@pytest.fixture(scope="module")
def shared(cluster: Cluster) -> Iterator[InProcessApi]:
    url = cluster.new_database()
    with in_process_api(url) as api:
        yield api
    cluster.drop(url)


@pytest.fixture
def api(shared: InProcessApi) -> InProcessApi:
    for table in ("executions", "history", "queues", "queue_pauses", "lanes", "jobs", "nodes"):
        shared.fetch(f"DELETE FROM {table}")
    return shared


def claim(api: InProcessApi, job: dict[str, Any], *, started: bool) -> None:
    api.fetch(
        "UPDATE executions SET claim_token = 1, node_id = 1, deadline_at = tocsin_now() + interval '1 minute',"
        " started_at = CASE WHEN $2 THEN tocsin_now() END WHERE job_id = $1",
        parse_job_text(job["id"]),
        started,
    )


def queue(api: InProcessApi, name: str, **query: Any) -> dict[str, Any]:
    answer = api.get(f"/v1/queues/{name}", **query)
    assert answer.status == 200, answer
    shown: dict[str, Any] = answer.json()
    return shown


def test_a_queue_tells_what_is_due_by_priority_what_runs_and_who_serves_it(api: InProcessApi) -> None:
    jobs = [api.create(schedule={"at": PAST}, queue="mail", priority=p) for p in (1, 1, 7)]
    api.create(schedule={"at": FUTURE}, queue="mail")
    claim(api, jobs[0], started=True)
    for served in ([], ["mail", "other"], ["other"]):
        api.fetch(
            "INSERT INTO nodes (name, roles, version, expires_at, queues) VALUES ('n', '{worker}', '', '2100-01-01', $1)",
            served,
        )
    shown = queue(api, "mail")
    assert shown["due"]["count"] == 2
    assert shown["due"]["oldest_ms"] > 0
    assert (shown["running"], shown["workers"], shown["paused"]) == ({"count": 1, "capped": False}, 2, None)
    assert [(lane["priority"], lane["due"]["count"]) for lane in shown["depth"]] == [(1, 1), (7, 1)]
    assert [item["name"] for item in api.get("/v1/queues").json()["items"]] == ["mail"]


def test_what_ended_lately_is_counted_by_the_minute(api: InProcessApi) -> None:
    job = api.create(schedule={"at": PAST}, queue="mail")
    for minutes in (0.5, 0.5, 3.5, 30):
        api.fetch(
            "INSERT INTO history (cell, job_id, fire_at, tenant_id, queue, priority, cause, state, due_at, run_at,"
            " finished_at, attempt) SELECT cell, id, tocsin_now(), tenant_id, queue, 5, 'schedule', 'succeeded',"
            " tocsin_now(), tocsin_now(), tocsin_now() - $2 * interval '1 minute', 1 FROM jobs WHERE id = $1",
            parse_job_text(job["id"]),
            minutes,
        )
    assert queue(api, "mail")["per_minute"] == [0, 0, 0, 0, 0, 0, 1, 0, 0, 2]


def test_pausing_takes_back_what_was_claimed_ahead_and_leaves_what_runs(api: InProcessApi) -> None:
    held, running, elsewhere = (
        api.create(schedule={"at": PAST}, queue=name) for name in ("mail", "mail", "other")
    )
    claim(api, held, started=False)
    claim(api, running, started=True)
    claim(api, elsewhere, started=False)
    done = api.post("/v1/queues/mail/pause", {"reason": "vendor down", "until": FUTURE})
    assert done.status == 200
    assert done.json()["held"] == 1
    assert done.json()["queue"]["paused"]["reason"] == "vendor down"
    assert [api.executions(job)[0]["state"] for job in (held, running, elsewhere)] == [
        "queued",
        "running",
        "claimed",
    ]
    assert api.post("/v1/queues/mail/pause").status == 409
    prolonged = api.post("/v1/queues/mail/pause", {"until": "2998-01-01T00:00:00Z"})
    assert (prolonged.status, prolonged.json()["held"]) == (200, 0)
    now = prolonged.json()["queue"]["paused"]
    assert (now["until"], now["reason"]) == ("2998-01-01T00:00:00Z", "vendor down")
    assert now["since"] == done.json()["queue"]["paused"]["since"]


def test_the_pause_of_a_job_gets_another_end(api: InProcessApi) -> None:
    path = f"/v1/jobs/{api.create(schedule={'every': '1h'})['id']}/pause"
    first = api.post(path, {"reason": "moving", "until": "2998-01-01T00:00:00Z"}).json()["job"]
    assert api.post(path).status == 409
    later = api.post(path, {"until": "2999-01-01T00:00:00Z"}).json()
    assert (later["held"], later["job"]["state_reason"]) == (0, "moving")
    assert later["job"]["paused_until"] == "2999-01-01T00:00:00Z"
    assert later["job"]["version"] == first["version"] + 1
    tried = api.post(path, {"until": "2997-01-01T00:00:00Z", "reason": "sooner", "dry_run": True}).json()
    assert tried["job"]["paused_until"] == "2999-01-01T00:00:00Z"


def test_explain_names_the_pause_that_holds_an_execution_back_and_the_one_that_did(api: InProcessApi) -> None:
    job = api.create(schedule={"now": True}, queue="mail")
    api.post("/v1/queues/mail/pause", {"reason": "vendor down"})
    key = api.get("/v1/whoami").json()["key_id"]
    execution = api.executions(job)[0]["id"]
    last = api.get(f"/v1/executions/{execution}/explain").json()["steps"][-1]
    assert last["kind"] == "queue_paused"
    assert last["from"] == queue(api, "mail")["paused"]["since"]
    assert f"by {key} (vendor down)" in last["words"]

    api.fetch("UPDATE queues SET paused_at = paused_at - interval '2 hours'")
    api.fetch(
        "UPDATE executions SET due_at = due_at - interval '1 hour', run_at = run_at - interval '1 hour'"
    )
    assert api.post("/v1/queues/mail/resume").status == 200
    claim(api, job, started=True)
    api.fetch("UPDATE executions SET late_for = 'place'")
    told = api.get(f"/v1/executions/{execution}/explain").json()["steps"]
    (pause,) = [step for step in told if step["kind"] == "queue_paused"]
    assert pause["words"].startswith("For 1h")
    assert f"its queue was paused by {key} (vendor down)" in pause["words"]
    assert pause["from"] == api.executions(job)[0]["due_at"]


def test_resuming_says_what_starts_and_what_was_missed_first(api: InProcessApi) -> None:
    api.create(schedule={"at": PAST}, queue="mail")
    api.create(schedule={"at": PAST}, queue="mail")
    api.fetch(
        "UPDATE executions SET missed_after = tocsin_now() - interval '1 s' WHERE job_id = (SELECT max(id::text)::uuid FROM jobs)"
    )
    api.post("/v1/queues/mail/pause")
    said = api.post("/v1/queues/mail/resume", {"dry_run": True}).json()
    assert (said["ready"]["count"], said["missed"]["count"]) == (1, 1)
    assert said["queue"]["paused"] is not None
    done = api.post("/v1/queues/mail/resume").json()
    assert (done["ready"], done["missed"], done["queue"]["paused"]) == (said["ready"], said["missed"], None)
    assert api.post("/v1/queues/mail/resume").status == 409
    assert api.post("/v1/queues/mail/resume", {"dry_run": True}).status == 409


def test_both_are_in_the_audit_log_with_who_and_why(api: InProcessApi) -> None:
    api.fetch("DELETE FROM audit")
    api.post("/v1/queues/mail/pause", {"reason": "vendor down"})
    api.post("/v1/queues/mail/resume", {"dry_run": True})
    api.post("/v1/queues/mail/resume")
    entries = api.get("/v1/audit", object="queue:mail").json()["items"]
    assert [entry["action"] for entry in entries] == ["queue.resume", "queue.pause"]
    assert entries[1]["after"]["reason"] == "vendor down"


@pytest.mark.parametrize(
    ("body", "field"), [({"until": PAST}, "until"), ({"until": "soon"}, "until"), ({"reason": ""}, "reason")]
)
def test_a_pause_that_makes_no_sense_is_refused(api: InProcessApi, body: Any, field: str) -> None:
    answer = api.post("/v1/queues/mail/pause", body)
    assert answer.status == 422
    assert answer.problem()["field"] == field
    assert api.fetch("SELECT FROM queues") == []


def test_a_queue_that_nobody_uses_is_unknown_until_it_is_paused(api: InProcessApi) -> None:
    assert api.get("/v1/queues/mail").status == 404
    assert api.post("/v1/queues/mail/resume").status == 404
    assert api.post("/v1/queues/No Good/pause".replace(" ", "%20")).status == 422
    assert api.post("/v1/queues/mail/pause").status == 200
    assert queue(api, "mail")["due"]["count"] == 0
    assert queue(api, "default")["paused"] is None


def test_only_an_operator_sees_the_queues_of_all_tenants(api: InProcessApi) -> None:
    theirs = api.new_key("read", "write", tenant="theirs")
    api.create(schedule={"at": PAST}, queue="mail")
    made = b'{"schedule": {"at": "%s"}, "target": {"kind": "noop"}, "queue": "mail"}' % PAST.encode()
    assert api.call("POST", "/v1/jobs", made, key=theirs).status == 201
    own = api.get("/v1/queues", key=theirs, group="tenant").json()["items"]
    assert [(item["tenant"], item["due"]["count"]) for item in own] == [("theirs", 1)]
    assert queue(api, "mail")["due"]["count"] == 1
    both = queue(api, "mail", group="tenant")
    assert both["due"]["count"] == 2
    assert {lane["tenant"] for lane in both["depth"]} == {"default", "theirs"}
    listed = api.get("/v1/queues", group="tenant").json()["items"]
    assert [(item["tenant"], item["due"]["count"]) for item in listed] == [("default", 1), ("theirs", 1)]
