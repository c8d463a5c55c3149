"""A tenant's names have a name server that is silent: it costs other tenants nothing, and itself only what
its own calls cost."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.acceptance.receiver import Place, running
from tests.support.name_server import NameServer
from tests.support.postgres import Cluster
from tests.support.processes import wait_for
from tests.support.sink import Sink

SILENT, GOOD = 400, 40


@pytest.fixture(scope="module")
def sink() -> Iterator[Sink]:
    with Sink() as sink:
        yield sink


@pytest.fixture(scope="module")
def place(sink: Sink, cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    url = cluster.new_database()
    with NameServer() as names:
        settings = {"name_servers": names.address, "concurrency": "100"}
        with running(url, tmp_path_factory.mktemp("logs"), **settings) as place:
            assert place.api.post("/v1/tenants", {"name": "quiet"}).status == 201
            yield place
    cluster.drop(url)


def _create(place: Place, tenant: str, urls: list[str]) -> list[str]:
    retry = {"max_attempts": 1}
    jobs = [
        {"schedule": {"now": True}, "target": {"kind": "http", "url": url}, "retry": retry} for url in urls
    ]
    acting = [(b"tocsin-tenant", tenant.encode())]
    answer = place.api.call("POST", "/v1/jobs:batch", json.dumps(jobs).encode(), headers=acting)
    assert answer.status in (200, 201), answer
    return [item["id"] for item in answer.json()["items"]]


def test_silent_name_servers_of_one_tenant_cost_another_nothing(place: Place, sink: Sink) -> None:
    silent = _create(place, "default", [f"http://slow{number}.test/" for number in range(SILENT)])
    good = _create(place, "quiet", [f"http://good{n}.test:{sink.port}/ok" for n in range(GOOD)])
    wait_for(lambda: all(sink.of_job(job) for job in good), 30, "calls to good names wait for silent ones")
    assert len(sink.hits) == GOOD
    dead = place.api.wait_for({"id": silent[0]}, "dead", patience=40)
    assert _error(dead) == "dns: the name did not resolve within 5 s"
    assert dead["attempt"] == 1
    explained = place.api.get(f"/v1/executions/{dead['id']}/explain").json()["explanation"]
    assert any("the name of its target's host had no answer yet" in words for words in explained), explained


def _error(execution: dict[str, Any]) -> str:
    words: str = execution["reason"]
    return words
