"""Alert channels and rules over the API, and alerts from real processes to a real receiver."""

import base64
import contextlib
import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Self

import pytest

from tests.support.api import ADMIN_KEY, InProcessApi, RealApi, in_process_api, with_database
from tests.support.postgres import Cluster
from tests.support.processes import Processes, free_port, wait_for
from tocsin.store.keys import KeyStore

SLACK = {"kind": "slack", "url": "http://127.0.0.1:9/services/"}
MAIL = {"kind": "mail", "connection": "relay", "to": ["ops@example.com"]}
LETTERS = {"watch": {"kind": "dead_letters"}, "channels": ["ops"]}


@pytest.fixture(scope="module")
def shared(cluster: Cluster) -> Iterator[InProcessApi]:
    url = cluster.new_database()
    with in_process_api(url, allow_loopback=True) as api:
        yield api
    cluster.drop(url)


@pytest.fixture
def api(shared: InProcessApi) -> InProcessApi:
    for table in ("alert_rules", "alert_channels", "connections", "executions", "jobs", "audit"):
        shared.fetch(f"DELETE FROM {table}")
    return shared


def put(api: InProcessApi, path: str, body: Any, key: str = ADMIN_KEY) -> Any:
    return api.call("PUT", f"/v1/{path}", json.dumps(body).encode(), key=key)


class TestKeeping:
    def test_channels_and_rules_are_set_shown_listed_and_deleted(self, api: InProcessApi) -> None:
        assert put(api, "alert-channels/ops", SLACK | {"path_secret": {"secret": "slack-path"}}).status == 200
        assert put(api, "alert-channels/ops", SLACK).json()["version"] == 2
        assert (
            put(api, "alert-rules/letters", LETTERS | {"quiet": {"begins": "22:00", "ends": "07:00"}}).status
            == 200
        )
        assert api.get("/v1/alert-rules/letters").json()["watch"] == {"kind": "dead_letters"}
        assert [one["name"] for one in api.get("/v1/alert-channels").json()["items"]] == ["ops"]
        assert [one["name"] for one in api.get("/v1/alert-rules").json()["items"]] == ["letters"]
        assert api.get("/v1/alerts").json()["items"] == []
        assert api.delete("/v1/alert-channels/ops").status == 409
        assert api.delete("/v1/alert-rules/letters").status == 200
        assert api.delete("/v1/alert-channels/ops").status == 200
        assert api.get("/v1/alert-channels/ops").status == 404
        noted = [row["action"] for row in api.fetch("SELECT action FROM audit ORDER BY id")]
        assert noted == [
            "alert_channel.put", "alert_channel.put", "alert_rule.put", "alert_rule.delete", "alert_channel.delete"
        ]  # fmt: skip

    @pytest.mark.parametrize(
        ("path", "body", "field"),
        [
            ("alert-channels/ops", SLACK | {"url": "http://169.254.169.254/"}, "url"),
            ("alert-channels/ops", SLACK | {"body": {}}, "body"),
            ("alert-channels/ops", SLACK | {"headers": {"Authorization": "Bearer plain"}}, "headers"),
            ("alert-channels/ops", {"kind": "slack"}, "url"),
            ("alert-channels/ops", SLACK | {"to": ["ops@example.com"]}, "to"),
            ("alert-channels/ops", {"kind": "mail", "to": ["ops@example.com"]}, "connection"),
            ("alert-channels/ops", {"kind": "mail", "connection": "relay"}, "to"),
            ("alert-channels/ops", MAIL, "connection"),
            ("alert-channels/ops", MAIL | {"to": ["ops"]}, "to[0]"),
            ("alert-channels/ops", MAIL | {"url": "https://example.com/"}, "url"),
            ("alert-channels/ops", MAIL | {"method": "PUT"}, "method"),
            ("alert-rules/letters", LETTERS, "channels"),
            ("alert-rules/letters", LETTERS | {"watch": {"kind": "clock"}}, "scope"),
            ("alert-rules/letters", LETTERS | {"watch": {"kind": "vibes"}}, "watch"),
        ],
    )
    def test_what_makes_no_sense_is_refused_by_its_field(
        self, api: InProcessApi, path: str, body: Any, field: str
    ) -> None:
        answer = put(api, path, body)
        assert answer.status == 422, answer
        assert str(answer.problem().get("field", "")).startswith(field), answer

    def test_a_test_message_is_a_job_that_says_what_it_is(self, api: InProcessApi) -> None:
        put(api, "alert-channels/ops", SLACK | {"path_secret": {"secret": "slack-path"}})
        answer = api.post("/v1/alert-channels/ops/test")
        assert answer.status == 202
        job = api.get(f"/v1/jobs/{answer.json()['job']}").json()
        assert (job["queue"], job["name"]) == ("tocsin.alerts", "alert test test to ops")
        assert "alert" in job["tags"]
        assert job["target"]["path_secret"] == {"secret": "slack-path"}

    def test_a_channel_of_mail_keeps_its_connection(self, api: InProcessApi) -> None:
        relay = {"kind": "smtp", "addresses": ["127.0.0.1:25"], "sender": "tocsin@example.com"}
        assert put(api, "connections/relay", relay).status == 200
        assert put(api, "alert-channels/night", MAIL).json()["to"] == ["ops@example.com"]
        answer = api.post("/v1/alert-channels/night/test")
        target = api.get(f"/v1/jobs/{answer.json()['job']}").json()["target"]
        assert (target["kind"], target["to"], target["subject"]) == (
            "smtp", ["ops@example.com"], "Test of an alert channel"
        )  # fmt: skip
        api.fetch("DELETE FROM executions")
        api.fetch("DELETE FROM jobs")
        assert "night" in api.delete("/v1/connections/relay").problem()["detail"]
        assert api.delete("/v1/alert-channels/night").status == 200
        assert api.delete("/v1/connections/relay").status == 200

    def test_a_tenant_has_its_own_rules_and_sees_nothing_of_the_fleets(self, api: InProcessApi) -> None:
        put(api, "alert-channels/ops", SLACK)
        fleet = LETTERS | {"scope": "fleet"}
        assert put(api, "alert-rules/fleet", fleet).status == 200
        scopes = ["read", "write"]
        same = api.post("/v1/keys", {"name": "k", "scopes": scopes}).json()["text"]
        assert api.get("/v1/alert-rules", key=same).json()["items"] == []
        assert api.get("/v1/alert-rules/fleet", key=same).status == 404
        assert put(api, "alert-rules/mine", fleet, same).problem()["field"] == "scope"
        assert put(api, "alert-rules/fleet", LETTERS, same).problem()["field"] == "scope"
        assert api.delete("/v1/alert-rules/fleet", key=same).status == 422
        assert api.post("/v1/tenants", {"name": "neighbour"}).status == 201
        body = {"name": "k", "scopes": scopes, "tenant": "neighbour"}
        other = api.post("/v1/keys", body).json()["text"]
        assert api.get("/v1/alert-channels", key=other).json()["items"] == []
        assert api.delete("/v1/alert-channels/ops", key=other).status == 404
        assert put(api, "alert-rules/mine", LETTERS, other).problem()["field"] == "channels"


class Receiver:
    """Takes messages on a port of its own. While it is `silent` it reads and does not answer."""

    def __init__(self) -> None:
        self.silent = True
        self.taken: list[tuple[str, str, dict[str, Any]]] = []
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["content-length"])))
                receiver.taken.append((self.path, self.headers["idempotency-key"], body))
                while receiver.silent and not receiver.closed.wait(0.05):
                    pass
                with contextlib.suppress(OSError):
                    self.send_response(204)
                    self.end_headers()

            def log_message(self, *_: Any) -> None: ...

        self.closed = threading.Event()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"
        self._thread = threading.Thread(target=self._server.serve_forever)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.closed.set()
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    def of(self, state: str) -> list[tuple[str, str, dict[str, Any]]]:
        return [one for one in self.taken if one[2]["state"] == state]


def test_an_alert_arrives_under_one_key_though_the_engine_is_killed_three_times_meanwhile(
    url: str, tmp_path: Path
) -> None:
    with_database(url, lambda database: KeyStore(database).put_bootstrap(ADMIN_KEY))
    secret_key = base64.b64encode(b"a master key of tests, 32 bytes.").decode()
    shared = {
        "database_url": url, "allow_loopback": "true", "secret_key": secret_key, "lease_ttl": "1", "claim_ttl": "2",
    }  # fmt: skip
    with Receiver() as receiver, Processes(tmp_path) as processes:
        api = RealApi(free_port())
        served = processes.tocsin("api", "api", "--port", str(api.port), **shared)
        engine = processes.tocsin("engine", "engine", **shared)
        served.start()
        engine.start()
        api.wait_until_ready(served, 60)
        assert api.call("PUT", "/v1/secrets/path", b'{"value": "T0/B0"}').status == 200
        channel = {"kind": "webhook", "url": f"{receiver.url}/services/", "path_secret": {"secret": "path"}}
        assert api.call("PUT", "/v1/alert-channels/ops", json.dumps(channel).encode()).status == 200
        nobody = {"kind": "http", "url": "http://127.0.0.1:9/"}
        bill = api.create(schedule={"now": True}, name="bill", target=nobody, retry={"max_attempts": 1})
        api.wait_for(bill, "dead", patience=60)
        for name, watch in (("letters", "dead_letters"), ("alive", "dead_mans_switch")):
            rule = json.dumps({"watch": {"kind": watch}, "channels": ["ops"], "scope": "fleet"}).encode()
            assert api.call("PUT", f"/v1/alert-rules/{name}", rule).status == 200
        for death in range(1, 4):
            wait_for(
                lambda n=death: len(receiver.of("firing")) >= n, 60, f"no message\n{engine.last_words()}"
            )
            engine.kill()
            engine.start()
        receiver.silent = False
        (job,) = api.get("/v1/jobs", tag="alert,rule letters").json()["items"]
        ended = api.wait_for(job, "succeeded", patience=60)
        assert ended["attempt"] >= 4
        told = receiver.of("firing")
        assert {(path, key) for path, key, _ in told} == {("/services/T0/B0", ended["id"])}
        assert "bill" in told[0][2]["alerts"][0]["summary"]
        assert [alert["told"] for alert in api.get("/v1/alerts").json()["items"]] == ["firing"]
        assert receiver.of("alive"), "the switch does not beat"
        engine.terminate()
        served.terminate()
        assert (engine.wait(60), served.wait(60)) == (0, 0)
