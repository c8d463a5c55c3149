"""`tocsin worker --app`: a worker of the fleet runs an app's tasks itself, without the gateway."""

import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.api import ADMIN_KEY, RealApi, with_database
from tests.support.postgres import Cluster
from tests.support.processes import Processes, free_port, wait_for
from tocsin.db.pool import Database
from tocsin.domain.keys import hash_of, new_key
from tocsin.store.keys import KeyStore

APP = ("worker", "--app", "tests.support.fleet_tasks:app")


class Fleet:
    """An API process and a worker with an app."""

    def __init__(self, url: str, processes: Processes) -> None:
        self.url = url
        with_database(url, lambda database: KeyStore(database).put_bootstrap(ADMIN_KEY))
        self.api = RealApi(free_port())
        gateway = processes.tocsin("api", "api", "--port", str(self.api.port), database_url=url)
        self.worker = processes.tocsin("worker", *APP, database_url=url)
        gateway.start()
        self.worker.start()
        self.api.wait_until_ready(gateway)

    def enqueue(self, task: str, **payload: Any) -> dict[str, Any]:
        target = {"kind": "task", "task": f"fleet.{task}", "payload": payload}
        return self.api.create(schedule={"in": 0}, target=target)

    def result(self, task: str, **payload: Any) -> Any:
        job = self.enqueue(task, **payload)
        over = self.api.wait_for(job, "succeeded", "dead", "skipped", patience=40)
        assert over["state"] == "succeeded", over
        return over["attempts"][-1]["result"]


@pytest.fixture(scope="module")
def fleet(cluster: Cluster) -> Iterator[Fleet]:
    url = cluster.new_database()
    with tempfile.TemporaryDirectory() as logs, Processes(Path(logs)) as processes:
        fleet = Fleet(url, processes)
        yield fleet
        fleet.worker.terminate()
        assert fleet.worker.wait(40) == 0, fleet.worker.last_words()
    cluster.drop(url)


def test_functions_coroutines_and_children_run_with_the_apps_state(fleet: Fleet) -> None:
    plain = fleet.result("plain", number=7)
    assert plain == {"number": 7, "pid": fleet.worker.pid, "state": "state of fleet", "queue": "default"}
    assert fleet.result("coroutine", number=7) == 8
    child = fleet.result("child", number=7)
    assert child["number"] == 7
    assert child["pid"] != fleet.worker.pid


def test_logs_are_kept_with_the_attempt(fleet: Fleet) -> None:
    job = fleet.enqueue("plain", number=1)
    over = fleet.api.wait_for(job, "succeeded", patience=40)
    lines = fleet.api.get(f"/v1/executions/{over['id']}/logs").json()["items"]
    assert [(line["message"], line["fields"]) for line in lines] == [("begins", {"number": 1})]


def test_a_task_ends_as_it_says(fleet: Fleet) -> None:
    assert fleet.result("ends", how="again") == "attempt 2"
    assert fleet.result("ends", how="postponed") == "attempt 1"
    rejected = fleet.api.wait_for(fleet.enqueue("ends", how="rejected"), "dead", patience=40)
    assert (len(rejected["attempts"]), rejected["reason"]) == (1, "Rejected: no such customer")
    skipped = fleet.api.wait_for(fleet.enqueue("ends", how="skipped"), "skipped", patience=40)
    assert skipped["reason"] == "empty"


def test_a_task_is_stopped_when_its_time_is_over_and_when_it_is_cancelled(fleet: Fleet) -> None:
    target = {"kind": "task", "task": "fleet.hangs"}
    job = fleet.api.create(schedule={"in": 0}, target=target, timeout="300ms", retry={"max_attempts": 1})
    late = fleet.api.wait_for(job, "dead", patience=40)
    assert late["attempts"][-1]["verdict"] == "timed_out"
    job = fleet.enqueue("waits")
    running = fleet.api.wait_for(job, "running", patience=40)
    wait_for(
        lambda: bool(fleet.api.get(f"/v1/executions/{running['id']}/logs").json()["items"]),
        40,
        "its line is not kept while it runs",
    )
    assert fleet.api.post(f"/v1/executions/{running['id']}/cancel").json()["answer"] == "cancel_requested"
    fleet.api.wait_for(job, "cancelled", patience=40)


def test_tasks_of_another_tenant_are_left_alone(fleet: Fleet) -> None:
    key_id, text = new_key()

    async def other(database: Database) -> None:
        await database.execute("INSERT INTO tenants (name) VALUES ('other')")
        await database.execute(
            "INSERT INTO api_keys (id, tenant_id, name, secret_hash, scopes)"
            " SELECT $1, id, 'test', $2, '{read,write}' FROM tenants WHERE name = 'other'",
            key_id,
            hash_of(text),
        )

    with_database(fleet.url, other)
    body = {
        "schedule": {"in": 0},
        "target": {"kind": "task", "task": "fleet.plain", "payload": {"number": 1}},
    }
    theirs = fleet.api.post("/v1/jobs", body, key=text).json()
    assert fleet.result("plain", number=2)["number"] == 2
    left = fleet.api.get(f"/v1/jobs/{theirs['id']}/executions", key=text).json()["items"]
    assert [one["state"] for one in left] == ["queued"]
