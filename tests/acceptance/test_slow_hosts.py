"""A tenant floods a slow host: nobody else's calls wait for a place, and a host's connections go to tenants
in turn."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.acceptance.receiver import Place, running
from tests.support.api import Answer
from tests.support.postgres import Cluster
from tests.support.processes import wait_for
from tests.support.sink import Sink

CONNECTIONS = 2
FLOOD = 40
SLOW = "/slow/0.25"


@pytest.fixture(scope="module")
def slow() -> Iterator[Sink]:
    with Sink() as sink:
        yield sink


@pytest.fixture(scope="module")
def other() -> Iterator[Sink]:
    with Sink() as sink:
        yield sink


@pytest.fixture(scope="module")
def place(
    slow: Sink, other: Sink, cluster: Cluster, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Place]:
    url = cluster.new_database()
    settings = {"host_concurrency": str(CONNECTIONS), "concurrency": "20"}
    with running(url, tmp_path_factory.mktemp("logs"), **settings) as place:
        assert place.api.post("/v1/tenants", {"name": "quiet"}).status == 201
        yield place
    cluster.drop(url)


def _post(place: Place, path: str, body: Any, tenant: str = "default") -> Answer:
    acting = [(b"tocsin-tenant", tenant.encode())]
    return place.api.call("POST", path, json.dumps(body).encode(), headers=acting)


def _job(url: str) -> dict[str, Any]:
    return {"schedule": {"now": True}, "target": {"kind": "http", "url": url}}


def _flood(place: Place, url: str) -> list[str]:
    answer = _post(place, "/v1/jobs:batch", [_job(url) for _ in range(FLOOD)])
    assert answer.status in (200, 201), answer
    return [item["id"] for item in answer.json()["items"]]


def test_a_flooded_host_delays_only_those_that_flood_it(place: Place, slow: Sink, other: Sink) -> None:
    """Counted in calls, not in seconds: how many of the flood go out before the quiet tenant's."""
    _flood(place, slow.url + SLOW)
    wait_for(lambda: len(slow.hits) >= 3 * CONNECTIONS, 20, "the flood does not begin")
    before = len(slow.hits)
    elsewhere = _post(place, "/v1/jobs", _job(other.url + "/ok"), "quiet").json()["id"]
    same = _post(place, "/v1/jobs", _job(slow.url + SLOW), "quiet").json()["id"]
    wait_for(lambda: other.of_job(elsewhere), 20, "the other host is not called")
    assert len(slow.hits) - before <= 4 * CONNECTIONS
    wait_for(lambda: slow.of_job(same), 20, "the quiet tenant has no turn at the slow host")
    position = next(place for place, hit in enumerate(slow.hits) if hit.key.job_id == same)
    assert position - before <= 5 * CONNECTIONS
    wait_for(lambda: len(slow.hits) == FLOOD + 1, 20, "the flood does not end")


def test_the_wait_for_a_host_is_told_and_measured(place: Place, slow: Sink) -> None:
    slow.hits.clear()
    jobs = _flood(place, slow.url + SLOW)
    wait_for(lambda: len(slow.hits) == FLOOD, 20, "the flood does not end")
    assert {hit.key.job_id for hit in slow.hits} == set(jobs)
    for hit in slow.hits[-5:]:
        execution = place.api.wait_for({"id": hit.key.job_id}, "succeeded")
        lag_ms = (hit.received_at - hit.key.fire_at) / 1000
        assert lag_ms > 1000
        assert abs(execution["lag_ms"] - lag_ms) < 500
        told = place.api.get(f"/v1/executions/{execution['id']}/explain").json()
        assert "host" in [step["kind"] for step in told["steps"]], told
