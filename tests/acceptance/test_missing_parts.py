"""What a process lacks it leaves to others: a library that is not installed, the walls of the sandbox."""

import asyncio
import json
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.engines.brokers import NatsKind
from tests.engines.servers import Nats
from tests.support.api import ADMIN_KEY, RealApi, with_database
from tests.support.postgres import Cluster
from tests.support.processes import Process, Processes, free_port, wait_for
from tocsin.store.keys import KeyStore

HIDES = """
from importlib.machinery import PathFinder
found = PathFinder.find_spec
gone = {names!r}
PathFinder.find_spec = lambda name, *rest: None if name.partition(".")[0] in gone else found(name, *rest)
"""
"""What Python runs at its start, so that modules are not there."""
COUNT = 20
NATS = NatsKind()
GRPC = {"kind": "grpc", "address": "127.0.0.1:9", "method": "shop.Orders/Place", "plaintext": True}


class Fleet(msgspec.Struct, frozen=True):
    """A whole API and a whole engine; an API without gRPC, an engine without NATS and without a sandbox."""

    url: str
    api: RealApi
    api_without: RealApi
    without: Process
    broker: Nats

    def node_of(self, route: str) -> int:
        """The only one that serves it."""
        (row,) = self.fetch("SELECT id FROM nodes WHERE $1 = ANY (routes)", route)
        return int(row["id"])

    def fetch(self, query: str, *values: Any) -> list[Any]:
        return with_database(self.url, lambda database: database.fetch(query, *values))


def without(directory: Path, *names: str) -> list[str]:
    """What goes before a command so that modules are missing and no program is found."""
    directory.mkdir()
    (directory / "sitecustomize.py").write_text(HIDES.format(names=set(names)))
    return [shutil.which("env") or "env", f"PYTHONPATH={directory}", "PATH=/nowhere"]


@contextmanager
def running_broker() -> Iterator[Nats]:
    broker = Nats()
    try:
        yield broker
    finally:
        broker.stop()


@pytest.fixture(scope="module")
def fleet(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    url, place = cluster.new_database(), tmp_path_factory.mktemp("missing")
    with_database(url, lambda database: KeyStore(database).put_bootstrap(ADMIN_KEY))
    shared = {"database_url": url, "allow_loopback": "true", "scripts": "on"}
    with running_broker() as broker, Processes(place) as processes:
        apis = [RealApi(free_port()) for _ in range(2)]
        bare = {"api": without(place / "a", "google"), "engine": without(place / "e", "nats")}
        started = [
            processes.tocsin("api", "api", "--port", str(apis[0].port), **shared),
            processes.tocsin("api-without", "api", "--port", str(apis[1].port), wrap=bare["api"], **shared),
            processes.tocsin("engine", "engine", **shared),
            processes.tocsin("engine-without", "engine", wrap=bare["engine"], **shared),
        ]
        for process in started:
            process.start()
        for api, process in zip(apis, started, strict=False):
            api.wait_until_ready(process)
        made = Fleet(url, apis[0], apis[1], started[-1], broker)
        engines = "SELECT 1 FROM nodes WHERE routes @> '{http}'"
        wait_for(lambda: len(made.fetch(engines)) == 2, 30, "two engines do not join")
        yield made


def on_nodes(fleet: Fleet, target: dict[str, Any]) -> set[int]:
    """The nodes that made the attempts at executions, each of which succeeded."""
    jobs = [{"schedule": {"now": True}, "target": target}] * COUNT
    made = fleet.api.post("/v1/jobs:batch", jobs).json()["items"]
    ended = [fleet.api.wait_for(job, "succeeded")["id"] for job in made]
    shown = [fleet.api.get(f"/v1/executions/{execution}").json() for execution in ended]
    return {attempt["node"] for one in shown for attempt in one["attempts"]}


def test_messages_are_published_by_the_worker_that_has_the_client(fleet: Fleet) -> None:
    asyncio.run(NATS.make_stream(fleet.broker))
    settings = {"name": "bus", "kind": "nats", "addresses": [fleet.broker.address]}
    assert fleet.api.post("/v1/connections", settings).status == 201
    assert on_nodes(fleet, msgspec.to_builtins(NATS.target("x"))) == {fleet.node_of("nats")}


@pytest.mark.skipif(shutil.which("bwrap") is None, reason="bubblewrap is not installed")
def test_scripts_run_where_the_sandbox_stands_and_the_other_worker_says_why_not(fleet: Fleet) -> None:
    (refused,) = [
        json.loads(line) for line in fleet.without.output().splitlines() if '"scripts.refused"' in line
    ]
    assert "bwrap" in refused["walls"]["programs"]
    assert on_nodes(fleet, {"kind": "script", "interpreter": "sh", "source": "exit 0"}) == {
        fleet.node_of("script")
    }


def test_a_worker_that_lacks_something_serves_all_else(fleet: Fleet) -> None:
    rows = fleet.fetch("SELECT routes FROM nodes WHERE routes @> '{http}' ORDER BY cardinality(routes)")
    less, all_of_it = (set(row["routes"]) for row in rows)
    assert all_of_it - less == {"nats"} | ({"script"} if shutil.which("bwrap") else set())
    assert less < all_of_it


def test_an_api_without_the_library_refuses_grpc_and_says_what_to_install(fleet: Fleet) -> None:
    answer = fleet.api_without.post("/v1/jobs", {"schedule": "@daily", "target": GRPC})
    assert (answer.status, answer.problem()["field"]) == (422, "target.kind")
    assert "install tocsin[grpc]" in answer.problem()["detail"]
    other = fleet.api.post("/v1/jobs", {"schedule": "@daily", "target": GRPC})
    assert "install" not in other.problem()["detail"]
