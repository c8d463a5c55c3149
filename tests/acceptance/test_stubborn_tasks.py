"""Real workers with tasks that do not stop, or that block the event loop: what becomes of the task, of its
claim, and of the worker."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

from tests.support.api import ADMIN_KEY, RealApi, with_database
from tests.support.postgres import Cluster
from tests.support.processes import Process, Processes, free_port, state_of, wait_for
from tocsin.sdk.worker.attempt import GRACE
from tocsin.store.keys import KeyStore

APP = "tests.support.stubborn_tasks:app"
LEASE = 3


class Stage:
    """An API process, and workers as they are asked for."""

    def __init__(self, url: str, directory: Path, processes: Processes) -> None:
        with_database(url, lambda database: KeyStore(database).put_bootstrap(ADMIN_KEY))
        self.url = url
        self.directory = directory
        self.processes = processes
        self.strays_told = 0
        self.api = RealApi(free_port())
        gateway = processes.tocsin("api", "api", "--port", str(self.api.port), database_url=url)
        gateway.start()
        self.api.wait_until_ready(gateway)

    def worker(self, kind: str) -> Process:
        """A worker with places for four tasks, remote or inside the fleet."""
        if kind == "remote":
            words = ("tasks", "serve", APP, "--lease", f"{LEASE}s", "--concurrency", "4")
            made = self.processes.tocsin(kind, *words, url=self.api.url, api_key=ADMIN_KEY)
        else:
            given = {"database_url": self.url, "host_concurrency": "4"}
            made = self.processes.tocsin(kind, "worker", "--app", APP, **given)
        made.start()
        return made

    def enqueue(self, task: str, timeout: str = "300ms", **payload: Any) -> dict[str, Any]:
        target = {"kind": "task", "task": f"stubborn.{task}", "payload": payload}
        policies = {"timeout": timeout, "retry": {"max_attempts": 1}}
        return self.api.create(schedule={"in": 0}, target=target, **policies)

    def dead(self, job: dict[str, Any]) -> dict[str, Any]:
        attempt: dict[str, Any] = self.api.wait_for(job, "dead", patience=60)["attempts"][-1]
        return attempt

    def strays_counted(self) -> float:
        text = self.api.get("/metrics").body.decode()
        return sum(map(float, re.findall(r"^tocsin_task_strays_total\S* (\S+)$", text, re.MULTILINE)))


@pytest.fixture(scope="module")
def stage(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    url, directory = cluster.new_database(), tmp_path_factory.mktemp("stage")
    with Processes(directory) as processes:
        yield Stage(url, directory, processes)
    cluster.drop(url)


@pytest.mark.parametrize("kind", ["remote", "inside the fleet"])
@pytest.mark.parametrize(("task", "line"), [("sleeps", "time.sleep(600)"), ("swallows", "asyncio.sleep")])
def test_a_worker_with_a_quarter_of_its_places_taken_by_strays_says_where_they_are_and_ends_with_75(
    stage: Stage, kind: str, task: str, line: str
) -> None:
    worker = stage.worker(kind)
    attempt = stage.dead(stage.enqueue(task))
    assert attempt["verdict"] == "timed_out"
    if kind == "remote":  # inside the fleet a worker counts in its own registry, and is gone by now
        stage.strays_told += 1
        wait_for(lambda: stage.strays_counted() == stage.strays_told, 30, "the stray is not counted")
        assert line in attempt["detail"]["trace"]
    assert worker.wait(60) == 75, worker.last_words()
    said = worker.output()
    assert f"stubborn.{task}" in said
    assert line in said


def test_a_child_process_that_swallows_its_stop_runs_no_further_than_a_second_after_the_grace(
    stage: Stage,
) -> None:
    worker = stage.worker("remote")
    page = stage.directory / "page"
    assert stage.dead(stage.enqueue("writes_on", page=str(page)))["verdict"] == "timed_out"
    pid = int(page.read_text().split()[0])
    wait_for(lambda: state_of(pid) in "ZX", 30, "the child lives on")
    stamps = [float(line.split()[1]) for line in page.read_text().splitlines()]
    assert stamps[-1] - stamps[0] <= 0.3 + GRACE + 1
    assert worker.alive, "a child that can be killed is no stray"
    worker.terminate()
    assert worker.wait(30) == 0, worker.last_words()


def test_a_worker_whose_event_loop_is_blocked_says_by_what_and_keeps_its_claim(stage: Stage) -> None:
    worker = stage.worker("remote")
    free = stage.directory / "free"
    job = stage.enqueue("blocks", "2m", until=str(free))
    with psycopg.connect(stage.url, autocommit=True) as database:

        def outlived() -> bool:
            row = database.execute(
                "SELECT count(*) FROM executions WHERE started_at < now() - interval '1 second' * %s",
                (2 * LEASE,),
            ).fetchone()
            return row is not None and row[0] == 1

        wait_for(outlived, 60, "its claim was not kept for two leases")
    free.touch()
    ended = stage.api.wait_for(job, "succeeded", patience=60)
    assert [one["result"] for one in ended["attempts"]] == [worker.pid]
    assert "the event loop" in worker.output()
    assert "stubborn_tasks.py" in worker.output()
    worker.terminate()
    assert worker.wait(30) == 0, worker.last_words()
