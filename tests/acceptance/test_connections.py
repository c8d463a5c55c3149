"""Connections over the API, and messages from a job to a broker by real processes."""

import asyncio
import json
import time
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest

from tests.engines.brokers import KINDS, KafkaKind, Kind, RabbitKind
from tests.engines.servers import KILLS, Server
from tests.support.api import InProcessApi, fleet, in_process_api
from tests.support.broker_faults import counted
from tests.support.figures import Note
from tests.support.postgres import Cluster
from tocsin.api import connections

NATS = {"kind": "nats", "addresses": ["127.0.0.1:4222"]}
MESSAGE = {"kind": "nats", "connection": "bus", "subject": "due.orders"}


@pytest.fixture(scope="module")
def shared(cluster: Cluster) -> Iterator[InProcessApi]:
    url = cluster.new_database()
    with in_process_api(url, allow_loopback=True) as api:
        yield api
    cluster.drop(url)


@pytest.fixture
def api(shared: InProcessApi) -> InProcessApi:
    for table in ("executions", "jobs", "connections", "nodes", "audit"):
        shared.fetch(f"DELETE FROM {table}")
    return shared


def put(api: InProcessApi, name: str = "bus", **settings: Any) -> Any:
    return api.call("PUT", f"/v1/connections/{name}", json.dumps(NATS | settings).encode())


class TestKeeping:
    def test_it_is_created_once_shown_replaced_and_deleted(self, api: InProcessApi) -> None:
        made = api.post("/v1/connections", {"name": "bus", **NATS})
        assert made.status == 201
        assert made.json()["version"] == 1
        assert api.post("/v1/connections", {"name": "bus", **NATS}).status == 409
        assert put(api, in_flight=7).json()["version"] == 2
        assert api.get("/v1/connections/bus").json()["in_flight"] == 7
        assert [one["name"] for one in api.get("/v1/connections").json()["items"]] == ["bus"]
        assert api.delete("/v1/connections/bus").status == 200
        assert api.get("/v1/connections/bus").status == 404
        assert api.delete("/v1/connections/bus").status == 404

    def test_another_kind_does_not_replace_it(self, api: InProcessApi) -> None:
        put(api)
        assert put(api, kind="redis").problem()["field"] == "kind"

    @pytest.mark.parametrize(
        ("settings", "field"),
        [
            ({"kind": "pigeon"}, "kind"),
            ({"addresses": []}, "addresses"),
            ({"addresses": ["bus.example.com:99999"]}, "addresses[0]"),
            ({"addresses": ["ok.example.com:4222", "user@bus.example.com"]}, "addresses[1]"),
            ({"addresses": ["169.254.169.254:4222"]}, "addresses[0]"),
            ({"addresses": ["8.8.8.8:4222"]}, "addresses[0]"),
            ({"username": "me"}, "password"),
            ({"password": {"secret": "a b"}, "username": "me"}, "password"),
            ({"token": {"secret": "t"}, "password": {"secret": "p"}}, "token"),
            ({"creates_streams": True}, "creates_streams"),
            ({"replicas": 2}, "replicas"),
            ({"virtual_host": "shop"}, "virtual_host"),
            ({"kind": "rabbitmq", "virtual_host": "a\nb"}, "virtual_host"),
            ({"mechanism": "SCRAM-SHA-512"}, "mechanism"),
            ({"kind": "kafka", "mechanism": "GSSAPI"}, "mechanism"),
            ({"kind": "kafka", "password": {"secret": "p"}}, "username"),
            ({"in_flight": 0}, "in_flight"),
            ({"kind": "smtp"}, "sender"),
            ({"kind": "smtp", "sender": "ops@example.com>\r\nX: y"}, "sender"),
            ({"sender": "ops@example.com"}, "sender"),
            ({"tls": {"server_name": "a b"}}, "tls.server_name"),
        ],
    )
    def test_what_cannot_be_connected_to_is_refused_by_its_field(
        self, api: InProcessApi, settings: dict[str, Any], field: str
    ) -> None:
        answer = put(api, **settings)
        assert (answer.status, answer.problem()["field"]) == (422, field)

    def test_a_change_is_in_the_audit_log_with_what_was_before(self, api: InProcessApi) -> None:
        put(api)
        put(api, in_flight=7)
        entry = api.get("/v1/audit").json()["items"][0]
        assert (entry["action"], entry["object"]) == ("connection.put", "connection:bus")
        assert "in_flight" not in entry["before"]
        assert entry["after"]["in_flight"] == 7

    def test_one_that_a_newer_version_wrote_is_left_to_it(self, api: InProcessApi) -> None:
        put(api)
        api.fetch("UPDATE connections SET settings = settings || '{\"warp\": 9}'")
        assert api.get("/v1/connections/bus").status == 503
        assert api.get("/v1/connections").json()["broken"][0]["id"] == "bus"


class TestNaming:
    def test_a_job_names_a_connection_that_is_there_and_of_its_kind(self, api: InProcessApi) -> None:
        job = {"schedule": {"every": "1h"}, "target": MESSAGE}
        assert api.post("/v1/jobs", job).problem()["field"] == "target.connection"
        batch = api.post("/v1/jobs:batch", [job]).json()
        assert batch["items"][0]["problem"]["field"] == "target.connection"
        put(api, kind="redis")
        assert "of the kind redis" in api.post("/v1/jobs", job).problem()["detail"]
        api.delete("/v1/connections/bus")
        put(api)
        assert api.post("/v1/jobs", job).status == 201

    def test_a_connection_that_jobs_name_stays(self, api: InProcessApi) -> None:
        put(api)
        job = api.create(schedule={"every": "1h"}, target=MESSAGE)
        assert api.delete("/v1/connections/bus").status == 409
        api.delete(f"/v1/jobs/{job['id']}")
        assert api.delete("/v1/connections/bus").status == 200

    @pytest.mark.parametrize(
        ("change", "field"),
        [
            ({"subject": "due.*"}, "target.subject"),
            ({"subject": "$JS.API.x"}, "target.subject"),
            ({"subject": "a..b"}, "target.subject"),
            ({"headers": {"Nats-Msg-Id": "mine"}}, "target.headers.Nats-Msg-Id"),
            ({"headers": {"a b": "x"}}, "target.headers.a b"),
            ({"headers": {"a": "x\ny"}}, "target.headers.a"),
            ({"stream": "a.b"}, "target.stream"),
            ({"body": "x" * 300_000}, "target.body"),
        ],
    )
    def test_what_no_broker_would_take_is_refused_by_its_field(
        self, api: InProcessApi, change: dict[str, Any], field: str
    ) -> None:
        put(api)
        answer = api.post("/v1/jobs", {"schedule": {"every": "1h"}, "target": MESSAGE | change})
        assert (answer.status, answer.problem()["field"]) == (422, field)

    @pytest.mark.parametrize(
        ("change", "field"),
        [
            ({"topic": "due/orders"}, "target.topic"),
            ({"topic": ".."}, "target.topic"),
            ({"key": ""}, "target.key"),
            ({"key": "k" * 1025}, "target.key"),
            ({"headers": {"tocsin-job": "mine"}}, "target.headers.tocsin-job"),
            ({"body": "x" * 300_000}, "target.body"),
            ({"key": "{nothing}", "template": True}, "target.key"),
            ({"body": {"a": "{"}, "template": True}, "target.body.a"),
            ({"key": "{name}", "template": True}, "name"),
        ],
    )
    def test_what_kafka_would_not_take_is_refused_by_its_field(
        self, api: InProcessApi, change: dict[str, Any], field: str
    ) -> None:
        put(api, kind="kafka")
        target = {"kind": "kafka", "connection": "bus", "topic": "due"} | change
        answer = api.post("/v1/jobs", {"schedule": {"every": "1h"}, "target": target})
        assert (answer.status, answer.problem()["field"]) == (422, field)

    def test_without_its_client_a_kind_is_refused_unless_a_live_worker_serves_it(
        self, api: InProcessApi, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(connections, "is_installed", lambda _: False)
        words = "this installation cannot call NATS: install tocsin[nats]"
        assert put(api).problem()["detail"] == words
        api.fetch(
            "INSERT INTO nodes (id, name, roles, version, expires_at, routes)"
            " VALUES (1, 'w', '{worker}', '1', tocsin_now() + interval '1 minute', '{nats}')"
        )
        assert put(api).status == 200


@pytest.mark.parametrize(
    ("kind", "kills"),
    [
        pytest.param(kind, KILLS if kind.name in ("kafka", "rabbitmq") else 3, id=kind.name)
        for kind in (*KINDS, KafkaKind(), RabbitKind())
    ],
)
class TestRealProcesses:
    def test_messages_arrive_although_the_broker_is_killed(
        self, kind: Kind, kills: int, url: str, record_property: Note
    ) -> None:
        server = kind.server()
        asyncio.run(kind.make_stream(server))
        try:
            with fleet(url, engines=1) as api:
                settings = {"name": "bus", "kind": kind.name, "addresses": [server.address]}
                assert api.post("/v1/connections", settings).status == 201
                assert api.post("/v1/connections/bus/test").json()["reached"] is True
                trial = api.post("/v1/targets/test", {"target": _target(kind)}).json()
                assert (trial["verdict"], bool(trial["detail"])) == ("succeeded", True)
                sent = 1 + _load(api, server, kind, kills)
            messages = asyncio.run(kind.received(server))
        finally:
            server.stop()
        tally = counted(record_property, kind.name, "killed under an engine", kills, sent, messages)
        assert tally.lost == 0
        assert tally.duplicates == 0 or not kind.drops_duplicates


def _target(kind: Kind) -> dict[str, Any]:
    target: dict[str, Any] = msgspec.to_builtins(kind.target("x"))
    return target


def _load(api: Any, server: Server, kind: Kind, kills: int) -> int:
    """Jobs that are due at once, around deaths of the broker. Ends when every one has succeeded."""
    retry = {"max_attempts": 100, "initial_backoff": 0.1, "max_backoff": 1}
    job = {"schedule": {"now": True}, "target": _target(kind), "retry": retry}
    sent = 0
    for _ in range(kills):
        assert api.post("/v1/jobs:batch", [job] * 200).status == 200
        server.kill()
        assert api.post("/v1/jobs:batch", [job] * 100).status == 200
        server.start()
        sent += 300
    until = time.monotonic() + 120
    while (left := _unfinished(api)) and time.monotonic() < until:
        time.sleep(0.2)
    assert left == 0
    return sent


def _unfinished(api: Any) -> int:
    states = ("queued", "claimed", "running", "dead")
    return sum(api.get("/v1/executions/count", state=state).json()["count"] for state in states)
