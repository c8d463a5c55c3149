"""Workers where people have them: in a terminal that starts anew with each change, and inside of a web
application."""

import json
import os
import signal
import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.api import ADMIN_KEY, RealApi, with_database
from tests.support.postgres import Cluster
from tests.support.processes import Process, Processes, free_port, wait_for
from tocsin import App
from tocsin.store.keys import KeyStore

EXAMPLES = Path(__file__).parents[2] / "examples"
KITCHEN = """
from tocsin import App

app = App("kitchen")


@app.task
def cook() -> str:
    return {dish!r}
"""


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("programs")


@pytest.fixture(scope="module")
def processes(directory: Path) -> Iterator[Processes]:
    with Processes(directory) as made:
        yield made


@pytest.fixture(scope="module")
def api(cluster: Cluster, processes: Processes) -> Iterator[tuple[RealApi, Process]]:
    """An API that is not started yet."""
    url = cluster.new_database()
    with_database(url, lambda database: KeyStore(database).put_bootstrap(ADMIN_KEY))
    made = RealApi(free_port())
    yield made, processes.tocsin("api", "api", "--port", str(made.port), database_url=url)
    cluster.drop(url)


def test_a_worker_comes_before_the_server_and_starts_anew_when_a_file_changes(
    api: tuple[RealApi, Process], processes: Processes, directory: Path
) -> None:
    server, process = api
    module = directory / "kitchen.py"
    module.write_text(KITCHEN.format(dish="soup"))
    reach = {"url": server.url, "api_key": ADMIN_KEY}
    worker = processes.tocsin(
        "worker", "tasks", "serve", "kitchen:app", "--reload", "--grace", "5", cwd=directory, **reach
    )
    worker.start()
    wait_for(lambda: "goes on trying" in worker.output(), 60, "the worker does not wait for the server")
    process.start()
    server.wait_until_ready(process)
    cook = App("kitchen", **reach).task_named("kitchen.cook")
    assert cook.enqueue_json().result(60) == "soup"
    module.write_text("def (")
    wait_for(lambda: "it starts again when a file changes" in worker.output(), 60, "the error is not told")
    module.write_text(KITCHEN.format(dish="bread"))
    assert cook.enqueue_json().result(60) == "bread"
    assert "kitchen.py changed" in worker.output()
    assert ADMIN_KEY not in Path(f"/proc/{worker.pid}/cmdline").read_text()
    worker.terminate()
    assert worker.wait(60) == 0, worker.last_words()


def test_a_web_application_runs_its_tasks_in_its_lifespan(
    api: tuple[RealApi, Process], processes: Processes, directory: Path
) -> None:
    server, process = api
    if not process.alive:
        process.start()
        server.wait_until_ready(process)
    port = free_port()
    environment = {"TOCSIN_URL": server.url, "TOCSIN_API_KEY": ADMIN_KEY}
    command = [sys.executable, str(EXAMPLES / "fastapi_tasks.py"), str(port)]
    web = Process("web", command, environment, directory / "web.log", directory)
    try:
        web.start()
        wait_for(
            lambda: "Uvicorn running" in web.output() or not web.alive, 60, "the application does not start"
        )
        asked = _call(f"http://127.0.0.1:{port}/orders/17/receipt", "POST")
        told = _call(f"http://127.0.0.1:{port}/receipts/{asked['receipt']}")
        assert told == {"state": "succeeded", "text": "receipt of order 17"}
        os.kill(web.pid, signal.SIGINT)
        web.wait(60)
        assert "Application shutdown complete" in web.output(), web.last_words()
        assert server.get("/v1/workers").json()["items"] == [], "its worker did not say goodbye"
    finally:
        web.close()


def _call(url: str, method: str = "GET") -> Any:
    with urllib.request.urlopen(urllib.request.Request(url, method=method), timeout=60) as answer:
        return json.load(answer)
