"""Real engines call a real receiver: requests are signed and verifiable, secrets reach the target and nobody
else."""

import json
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import msgspec
import pytest
from click.testing import CliRunner
from standardwebhooks import Webhook
from standardwebhooks.webhooks import WebhookVerificationError

from tests.acceptance.receiver import TOKEN, Place, Received, Receiver, running
from tests.support.api import ADMIN_KEY
from tests.support.postgres import Cluster
from tests.support.processes import free_port, wait_for
from tocsin.cli.main import cli
from tocsin.domain.sealing import new_master_key

CANARY = 'canary-"7f3a9c"+/x'


@pytest.fixture(scope="module")
def place(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    url = cluster.new_database()
    with running(
        url, tmp_path_factory.mktemp("logs"), secret_key=new_master_key(), log_level="debug"
    ) as place:
        yield place
    cluster.drop(url)


def _verify(secret: str, request: Received) -> None:
    Webhook(secret).verify(request.body, request.headers, json_parse=False)


def _secrets(place: Place) -> list[str]:
    return [item["secret"] for item in place.api.get("/v1/webhook-secret").json()["items"]]


def test_a_request_verifies_and_keeps_its_identity_and_trace_over_retries(place: Place) -> None:
    execution = place.fire("/flaky", body={"report": "daily"})
    first, second = place.receiver.of("/flaky")
    (secret,) = _secrets(place)
    assert secret.startswith("whsec_")
    for request in (first, second):
        _verify(secret, request)
        assert request.headers["webhook-id"] == request.headers["idempotency-key"] == execution["id"]
        assert abs(int(request.headers["webhook-timestamp"]) - time.time()) < 60
        assert 0 <= int(request.headers["tocsin-lag-ms"]) < 60_000
    traces = [request.headers["traceparent"].split("-") for request in (first, second)]
    assert [(len(trace), len(span)) for _, trace, span, _ in traces] == [(32, 16)] * 2
    assert traces[0][1] == traces[1][1]
    assert traces[0][2] != traces[1][2]
    altered = msgspec.structs.replace(first, body=first.body.replace(b"daily", b"hourly"))
    with pytest.raises(WebhookVerificationError):
        _verify(secret, altered)


def test_after_a_rotation_requests_verify_with_both_secrets_until_the_old_one_ends(place: Place) -> None:
    (old,) = _secrets(place)
    environment = {"TOCSIN_URL": place.api.url, "TOCSIN_API_KEY": ADMIN_KEY}
    rotated = CliRunner().invoke(
        cli, ["webhook-secret", "rotate", "--overlap", "8s", "--json"], env=environment
    )
    assert rotated.exit_code == 0, rotated.output
    new, shown_old = [item["secret"] for item in json.loads(rotated.output)["items"]]
    assert shown_old == old

    def signed_with_new() -> bool:
        place.fire("/both")
        return len(place.receiver.of("/both")[-1].headers["webhook-signature"].split()) == 2

    wait_for(signed_with_new, 10, "workers do not sign with the new secret")
    request = place.receiver.of("/both")[-1]
    _verify(new, request)
    _verify(old, request)
    wait_for(lambda: _secrets(place) == [new], 15, "the old secret does not end")
    assert new in CliRunner().invoke(cli, ["webhook-secret", "show"], env=environment).output


def test_signing_secrets_are_for_those_who_may_write(place: Place) -> None:
    made = place.api.post("/v1/keys", {"name": "reader", "scopes": ["read"]})
    assert made.status == 201, made
    reader = made.json()["text"]
    assert place.api.get("/v1/webhook-secret", key=reader).status == 403
    assert place.api.post("/v1/webhook-secret/rotate", key=reader).status == 403
    assert place.api.get("/v1/secrets", key=reader).status == 200


def test_a_secret_reaches_the_target_and_shows_nowhere_else(place: Place) -> None:
    """The target echoes it in every way it can; the API, the history, the audit log and the logs stay
    clean."""
    place.put_secret("canary", CANARY)
    listed = place.api.get("/v1/secrets")
    assert [item["name"] for item in listed.json()["items"]] == ["canary"]
    reference = {"secret": "canary"}
    executions = [
        place.fire("/echo/200/header", headers={"X-Key": reference}),
        place.fire("/echo/200/bearer", auth={"kind": "bearer", "token": reference}),
        place.fire("/echo/200/basic", auth={"kind": "basic", "username": "u", "password": reference}),
        place.fire("/echo/500/dead", "dead", headers={"X-Key": reference}),
        place.fire("/echo/400/rejected", "dead", headers={"X-Key": reference}),
    ]
    assert place.receiver.of("/echo/200/header")[0].headers["x-key"] == CANARY
    assert place.receiver.of("/echo/200/bearer")[0].headers["authorization"] == f"Bearer {CANARY}"
    basic = place.receiver.of("/echo/200/basic")[0].headers["authorization"]
    assert basic.startswith("Basic ")
    for execution in executions:
        text = json.dumps(execution)
        assert "***" in text
        assert "7f3a9c" not in text
        assert basic.removeprefix("Basic ") not in text
    paths = (
        "/v1/secrets",
        "/v1/jobs",
        "/v1/executions",
        "/v1/dead-letters",
        "/v1/audit",
        "/metrics",
        "/openapi.json",
    )
    seen = "".join(place.api.get(path).body.decode() for path in paths) + place.logs()
    assert "7f3a9c" not in seen
    assert basic.removeprefix("Basic ") not in seen
    assert '"secret.put"' in seen


def test_an_oauth2_token_is_fetched_once_reaches_the_target_and_shows_nowhere_else(place: Place) -> None:
    place.put_secret("client", CANARY)
    auth = {
        "kind": "oauth2",
        "token_url": place.receiver.url + "/token",
        "client_id": "tocsin",
        "client_secret": {"secret": "client"},
    }
    executions = [place.fire("/echo/200/oauth2", auth=auth) for _ in range(2)]
    assert len(place.receiver.of("/token")) == 1
    for request in place.receiver.of("/echo/200/oauth2"):
        assert request.headers["authorization"] == f"Bearer {TOKEN}"
    for execution in executions:
        assert "Bearer ***" in json.dumps(execution)
    paths = ("/v1/jobs", "/v1/executions", "/v1/audit", "/metrics")
    seen = (
        "".join(place.api.get(path).body.decode() for path in paths) + place.logs() + json.dumps(executions)
    )
    assert not any(word in seen for word in (TOKEN, "7f3a9c"))


def test_a_call_whose_secret_is_missing_is_rejected_by_name_and_works_once_it_is_there(place: Place) -> None:
    reference = {"Authorization": {"secret": "later"}}
    execution = place.fire("/later", "dead", headers=reference)
    assert execution["attempts"][0]["verdict"] == "rejected"
    assert execution["attempts"][0]["error"] == "there is no secret 'later'"
    assert place.receiver.of("/later") == []
    environment = {"TOCSIN_URL": place.api.url, "TOCSIN_API_KEY": ADMIN_KEY}
    done = CliRunner().invoke(cli, ["secrets", "put", "later"], input="Token 1\n", env=environment)
    assert done.exit_code == 0, done.output
    place.fire("/later", headers=reference)
    assert place.receiver.of("/later")[0].headers["authorization"] == "Token 1"
    assert place.api.delete("/v1/secrets/later").status == 200
    assert place.api.delete("/v1/secrets/later").status == 404


def test_a_recurring_job_whose_target_is_gone_is_paused_with_the_reason_and_on_record(place: Place) -> None:
    job = place.api.create(
        schedule={"every": "1s"}, target={"kind": "http", "url": place.receiver.url + "/status/410"}
    )
    wait_for(lambda: place.api.job(job)["state"] == "paused", 10, "the job is not paused")
    paused = place.api.job(job)
    assert paused["state_reason"] == "the target answered 410"
    place.api.wait_for(job, "dead")
    calls = len(place.receiver.of("/status/410"))
    (entry,) = [
        entry
        for entry in place.api.get("/v1/audit", object=job["id"]).json()["items"]
        if entry["action"] == "job.pause"
    ]
    assert (entry["actor"], entry["after"]["state"]) == ("system", "paused")
    another = place.receiver.url + "/meanwhile"
    ticking = place.api.create(schedule={"every": "1s"}, target={"kind": "http", "url": another})
    wait_for(lambda: len(place.receiver.of("/meanwhile")) >= 2, 15, "nothing else fires")
    place.api.delete(f"/v1/jobs/{ticking['id']}")
    assert len(place.receiver.of("/status/410")) == calls


def test_expected_statuses_and_retry_classes_hold_on_a_running_engine(place: Place) -> None:
    assert place.fire("/status/404/ok", expect=[404])["attempt"] == 1
    again = place.fire(
        "/status/404/again", "dead", retry={"max_attempts": 2, "initial_backoff": "50ms", "on": [404]}
    )
    assert [attempt["verdict"] for attempt in again["attempts"]] == ["failed", "failed"]
    once = place.fire("/status/500/once", "dead", retry={"max_attempts": 5, "on": ["network"]})
    assert [attempt["verdict"] for attempt in once["attempts"]] == ["rejected"]


def test_without_a_key_calls_go_out_unsigned_and_the_api_says_what_is_missing(
    url: str, tmp_path: Path
) -> None:
    with running(url, tmp_path) as place:
        place.fire("/plain")
        (request,) = place.receiver.of("/plain")
        assert "webhook-signature" not in request.headers
        assert request.headers["webhook-id"] == request.headers["idempotency-key"]
        for answer in (
            place.api.get("/v1/webhook-secret"),
            place.api.call("PUT", "/v1/secrets/a", b'{"value": "b"}'),
        ):
            assert answer.status == 409
            assert "TOCSIN_SECRET_KEY" in answer.problem()["hint"]


def test_while_a_host_is_away_executions_wait_without_spending_their_attempts(place: Place) -> None:
    """Three attempts 50 ms apart would be over long before the host is back; all the same every execution
    succeeds."""
    port = free_port()
    instant = (datetime.now(UTC) + timedelta(seconds=1.5)).isoformat()
    jobs = [
        place.api.create(
            schedule={"at": instant},
            target={"kind": "http", "url": f"http://127.0.0.1:{port}/back"},
            retry={"max_attempts": 3, "initial_backoff": "50ms", "max_backoff": "50ms"},
        )
        for _ in range(20)
    ]
    wait_for(
        lambda: "host of its target is given a rest" in _explained(place, jobs[0]),
        10,
        "nothing waits for the host",
    )
    with Receiver(port) as back:
        for job in jobs:
            assert place.api.wait_for(job, "succeeded", "dead")["state"] == "succeeded"
        assert len(back.requests) == len(jobs)


def _explained(place: Place, job: dict[str, Any]) -> str:
    executions = place.api.executions(job)
    return place.api.get(f"/v1/executions/{executions[0]['id']}/explain").body.decode() if executions else ""
