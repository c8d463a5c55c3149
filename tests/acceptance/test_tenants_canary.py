"""A canary in every field: what is secret shows nowhere, and nothing that users write shows in logs and
metrics."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.api import ADMIN_KEY, Answer, RealApi, with_database
from tests.support.processes import Processes, free_port, wait_for
from tests.support.sink import Sink
from tocsin.domain.sealing import new_master_key
from tocsin.store.keys import KeyStore

# Secrets: where users keep what nobody may read.
SECRETS = {
    place: f"canary{place}0secret"
    for place in ("header", "body", "query", "path", "idempotency", "stored", "wrongkey", "description")
}
# Words: what users name things by. They show in answers and in the audit log, never in logs and metrics.
WORDS = {
    place: f"canary{place}0word" for place in ("name", "tag", "queue", "reason", "calendar", "tenant", "key")
}


class Place:
    """An API and an engine that say all they can, and everything that came out of them."""

    def __init__(self, api: RealApi, processes: Processes, sink: Sink) -> None:
        self.api = api
        self.sink = sink
        self._processes = processes
        self.answers: list[str] = []
        self.secrets = [*SECRETS.values(), ADMIN_KEY]

    def ask(self, method: str, path: str, body: Any = None, key: str = ADMIN_KEY, **headers: str) -> Answer:
        sent = body if isinstance(body, bytes) else b"" if body is None else json.dumps(body).encode()
        given = [(name.replace("_", "-").encode(), value.encode()) for name, value in headers.items()]
        answer = self.api.call(method, path, sent, key=key, headers=given)
        if answer.status >= 400:
            self.answers.append(answer.body.decode())
        return answer

    def logs(self) -> str:
        return "".join(process.output() for process in self._processes._all)


@pytest.fixture(scope="module")
def place(cluster: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    url = cluster.new_database()
    with_database(url, lambda database: KeyStore(database).put_bootstrap(ADMIN_KEY))
    logs: Path = tmp_path_factory.mktemp("logs")
    shared = {
        "database_url": url, "allow_loopback": "true", "log_level": "debug", "log_format": "json",
        "secret_key": new_master_key(), "admin_key": ADMIN_KEY, "lease_ttl": "3",
    }  # fmt: skip
    with Sink() as sink, Processes(logs) as processes:
        api = RealApi(free_port())
        server = processes.tocsin("api", "api", "--port", str(api.port), **shared)
        engine = processes.tocsin("engine", "engine", **shared)
        server.start()
        engine.start()
        api.wait_until_ready(server)
        found = Place(api, processes, sink)
        _use_everything(found)
        yield found
    cluster.drop(url)


def _use_everything(place: Place) -> None:
    """Every kind of thing, made, changed, refused, fired, failed, with a canary in every field of it."""
    place.ask("POST", "/v1/tenants", {"name": WORDS["tenant"]})
    made = place.ask("POST", "/v1/keys", {"name": WORDS["key"], "scopes": ["read", "write"]}).json()
    rotated = place.ask("POST", f"/v1/keys/{made['key']['id']}/rotate").json()
    place.secrets += [text.rpartition("_")[2] for text in (made["text"], rotated["text"])]
    place.ask("PUT", "/v1/secrets/stored", {"value": SECRETS["stored"]})
    ranges = [{"from": "2020-01-01T00:00:00Z", "to": "2020-01-02T00:00:00Z", "reason": WORDS["reason"]}]
    place.ask("PUT", f"/v1/calendars/{WORDS['calendar']}", {"ranges": ranges})
    dead = f"http://127.0.0.1:{free_port()}/{SECRETS['path']}?key={SECRETS['query']}"
    target = {
        "kind": "http", "url": dead, "headers": {"X-Customer": SECRETS["header"]}, "body": {"inner": SECRETS["body"]},
    }  # fmt: skip
    words = {
        "name": WORDS["name"], "description": SECRETS["description"], "tags": [WORDS["tag"]], "queue": WORDS["queue"],
    }  # fmt: skip
    job = words | {"target": target, "schedule": {"every": "1h"}, "retry": {"max_attempts": 1}}
    created = place.ask("POST", "/v1/jobs", job, idempotency_key=SECRETS["idempotency"]).json()
    path = f"/v1/jobs/{created['id']}"
    place.ask("POST", "/v1/jobs", job | {"priority": 1}, idempotency_key=SECRETS["idempotency"])
    place.ask("POST", "/v1/jobs", job)
    place.ask("PATCH", path, {"target": target | {"headers": {"X-Customer": SECRETS["header"] + "2"}}})
    place.ask("POST", path + "/pause", {"reason": WORDS["reason"]})
    place.ask("POST", path + "/resume")
    run = place.ask("POST", path + "/run").json()
    answered = target | {"url": f"{place.sink.url}/{SECRETS['path']}?key={SECRETS['query']}"}
    once = place.ask("POST", "/v1/jobs", words | {"target": answered, "schedule": {"now": True}}).json()
    place.api.wait_for(once, "succeeded")
    wait_for(
        lambda: place.api.get(f"/v1/executions/{run['id']}").json()["state"] == "dead",
        20,
        "the call does not fail",
    )
    # Refusals: each with a secret beside what is wrong.
    for broken in (
        {"method": "NONE"},
        {"headers": {"X-Customer": SECRETS["header"] + "\n"}},
        {"headers": {"X-Customer": SECRETS["header"] * 500}},
        {"headers": {"X-Customer": [SECRETS["header"]]}},
        {"timeout": "never"},
        {"url": f"ftp://example.com/{SECRETS['path']}?key={SECRETS['query']}"},
        {"url": f"http://169.254.169.254/{SECRETS['path']}?key={SECRETS['query']}"},
        {"url": f"http://user:{SECRETS['query']}@example.com/{SECRETS['path']}"},
        {"body": SECRETS["body"] * 30_000},
    ):
        assert place.ask("POST", "/v1/jobs", job | {"target": target | broken}).status in (413, 422)
    place.ask("POST", "/v1/jobs", json.dumps(job).encode()[:-1])
    place.ask("POST", "/v1/jobs", json.dumps(job).encode().replace(b"canarybody", b"\xff"))
    place.ask("PUT", "/v1/secrets/stored", {"value": [SECRETS["stored"]]})
    place.ask("PUT", "/v1/secrets/not%20a%20name", {"value": SECRETS["stored"]})
    place.ask("GET", "/v1/jobs", key=SECRETS["wrongkey"])
    place.ask("GET", "/v1/jobs", key=made["text"][:-1])
    place.ask("DELETE", path)


def test_refusals_repeat_no_secret(place: Place) -> None:
    assert len(place.answers) > 15
    for answer in place.answers:
        assert not _found(place.secrets, answer), answer


def test_logs_and_metrics_hold_neither_secrets_nor_words_but_queues_and_tenants(place: Place) -> None:
    assert '"level"' in place.logs()
    metrics = place.api.get("/metrics").body.decode()
    assert "tocsin_http_requests" in metrics
    assert not _found([*place.secrets, *WORDS.values()], place.logs())
    for_operators = {WORDS["queue"], WORDS["tenant"]}  # what series are about
    assert not _found([*place.secrets, *(set(WORDS.values()) - for_operators)], metrics)


def test_the_audit_log_holds_no_secret(place: Place) -> None:
    pages = json.dumps(list(place.api.pages("/v1/audit", limit=500)))
    for action in (
        "job.create",
        "job.update",
        "job.pause",
        "job.delete",
        "key.rotate",
        "secret.put",
        "tenant.create",
    ):
        assert f'"{action}"' in pages, action
    assert not _found(place.secrets, pages)
    assert re.search(r'"X-Customer": "\*\*\*', pages), "what was hidden shows that it was there"


def test_history_holds_no_secret(place: Place) -> None:
    for path in ("/v1/executions", "/v1/dead-letters"):
        pages = json.dumps(list(place.api.pages(path, limit=500)))
        assert not _found(place.secrets, pages)
    assert place.api.get("/v1/dead-letters").json()["items"]


def test_the_document_holds_no_key_and_no_answer_repeats_one(place: Place) -> None:
    assert not _found(place.secrets, place.api.get("/openapi.json", key=None).body.decode())
    listed = place.api.get("/v1/keys", limit=500).body.decode() + place.api.get("/v1/secrets").body.decode()
    assert not _found(place.secrets, listed)


def _found(words: list[str], text: str) -> list[str]:
    return [word for word in words if word in text]
