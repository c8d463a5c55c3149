"""Trying a target once: the call is made and shown, nothing is stored, and no wall is lower than for a job.
Templates: what a real engine sends."""

import json
from collections.abc import Iterator
from typing import Any

import pytest
from click.testing import CliRunner

from tests.acceptance.receiver import Place, running
from tests.support.api import ADMIN_KEY, in_process_api
from tests.support.postgres import Cluster
from tocsin.cli.main import cli
from tocsin.domain.sealing import new_master_key

REFUSED_ADDRESS = "http://169.254.169.254/latest/meta-data"


@pytest.fixture(scope="module")
def place(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    logs = tmp_path_factory.mktemp("trials")
    with running(cluster.new_database(), logs, secret_key=new_master_key()) as place:
        yield place


def attempt(place: Place, target: dict[str, Any], **more: Any) -> Any:
    answer = place.api.post("/v1/targets/test", {"target": target} | more)
    assert answer.status == 200, answer
    return answer.json()


def counts(place: Place) -> tuple[int, int]:
    found = [place.api.get(f"/v1/{what}").json()["items"] for what in ("jobs", "executions")]
    return len(found[0]), len(found[1])


def test_a_trial_calls_the_target_shows_the_outcome_and_stores_nothing(place: Place) -> None:
    before = counts(place)
    shown = attempt(place, {"kind": "http", "url": f"{place.receiver.url}/status/418/once", "body": {"a": 1}})
    assert (shown["called"], shown["verdict"], shown["detail"]["status"]) == (True, "rejected", 418)
    (received,) = place.receiver.of("/status/418/once")
    assert received.headers["tocsin-execution"] == shown["execution"]
    assert "webhook-signature" in received.headers
    assert counts(place) == before
    (entry,) = place.api.get("/v1/audit", action="target.test").json()["items"][:1]
    assert entry["object"] == "target:http"
    assert place.receiver.url not in json.dumps(entry), "an address may be confidential"


def test_an_address_that_jobs_may_not_call_is_refused_before_anything_is_sent(place: Place) -> None:
    answer = place.api.post("/v1/targets/test", {"target": {"kind": "http", "url": REFUSED_ADDRESS}})
    assert (answer.status, answer.problem()["field"]) == (422, "target.url")


def test_an_outcome_is_an_answer_also_when_nobody_listens(place: Place) -> None:
    shown = attempt(place, {"kind": "http", "url": "http://127.0.0.1:9/"}, timeout="5s")
    assert (shown["verdict"], shown["detail"]) == ("failed", None)
    assert shown["error"]


def test_a_trial_needs_a_key_that_may_write(place: Place) -> None:
    key = place.api.post("/v1/keys", {"name": "reader", "scopes": ["read"]}).json()["text"]
    body = {"target": {"kind": "noop"}}
    assert place.api.post("/v1/targets/test", body, key=key).status == 403
    assert place.api.post("/v1/targets/test", body, key=None).status == 401


def test_a_task_cannot_be_tried(place: Place) -> None:
    answer = place.api.post("/v1/targets/test", {"target": {"kind": "task", "task": "a.b"}})
    assert (answer.status, answer.problem()["field"]) == (422, "target.kind")


@pytest.mark.parametrize("timeout", [86401, "2d", "10ms"])
def test_a_timeout_has_the_bounds_of_a_jobs(place: Place, timeout: Any) -> None:
    answer = place.api.post("/v1/targets/test", {"target": {"kind": "noop"}, "timeout": timeout})
    assert (answer.status, answer.problem()["field"]) == (422, "timeout")


def test_each_tenant_may_try_only_so_often(cluster: Cluster) -> None:
    with in_process_api(cluster.new_database()) as api:
        one, other = api.new_key("write", tenant="one"), api.new_key("write", tenant="other")
        body = {"target": {"kind": "noop"}}
        statuses = [api.post("/v1/targets/test", body, key=one).status for _ in range(12)]
        assert statuses[:10] == [200] * 10
        assert 429 in statuses[10:]
        assert api.post("/v1/targets/test", body, key=other).status == 200


def test_try_shows_the_outcome_and_fails_if_the_call_did(place: Place) -> None:
    def run(*arguments: str) -> Any:
        return CliRunner().invoke(cli, ["try", "--url", place.api.url, "--key", ADMIN_KEY, *arguments])

    done = run("--target-url", f"{place.receiver.url}/status/200/cli/{{name}}", "--template", "--name", "a/b")
    assert done.exit_code == 0, done.output
    assert "succeeded" in done.output
    assert place.receiver.of("/status/200/cli/a%2Fb")
    failed = run("--target", json.dumps({"kind": "http", "url": f"{place.receiver.url}/status/503"}))
    assert failed.exit_code == 1
    assert "503" in failed.output


def test_an_engine_fills_in_what_belongs_to_the_attempt(place: Place) -> None:
    target = {
        "kind": "http",
        "url": f"{place.receiver.url}/flaky/{{name}}?at={{fire_at}}",
        "body": {"run": "{execution}", "try": "{attempt}", "job": "{job}", "is": 'the "{name}" {{}}'},
        "template": True,
        "idempotency_key": "{name} {fire_at}",
    }
    name = 'Zoë "&/?'
    job = place.api.create(schedule={"at": "2026-01-01T00:00:00Z"}, target=target, name=name,
                           retry={"initial_backoff": "10ms"})  # fmt: skip
    done = place.api.wait_for(job, "succeeded", "dead")
    assert done["state"] == "succeeded", done
    path = "/flaky/Zo%C3%AB%20%22%26%2F%3F?at=2026-01-01T00%3A00%3A00Z"
    keys = {received.headers["idempotency-key"] for received in place.receiver.of(path)}
    assert keys == {'Zo%C3%AB "&/? 2026-01-01T00:00:00Z'}
    bodies = [json.loads(received.body) for received in place.receiver.of(path)]
    assert bodies == [
        {"run": done["id"], "try": number, "job": job["id"], "is": f'the "{name}" {{}}'} for number in "12"
    ]


def test_a_template_that_cannot_be_filled_in_is_refused_at_creation(place: Place) -> None:
    target = {"kind": "http", "url": f"{place.receiver.url}/", "body": {"x": "{when}"}, "template": True}
    answer = place.api.post("/v1/jobs", {"schedule": "@daily", "target": target})
    assert (answer.status, answer.problem()["field"]) == (422, "target.body.x")
    assert "{fire_at}" in answer.problem()["detail"]
