"""`tocsin sandbox`: workers and clients over HTTP in real time, on a clock that a test moves."""

import asyncio
import json
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.processes import Processes, free_port, wait_for
from tocsin import App, Client, Retry

KEY = "tocsin-sandbox-key"
PATIENCE = 60


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    directory = tmp_path_factory.mktemp("sandbox")
    port, cache = free_port(), ("env", f"XDG_CACHE_HOME={directory}")
    with Processes(directory) as processes:
        server = processes.tocsin("sandbox", "sandbox", "--port", str(port), wrap=cache)
        server.start()
        wait_for(lambda: "sandbox at" in server.output() or not server.alive, PATIENCE, "no sandbox")
        made = f"http://127.0.0.1:{port}"
        wait_for(lambda: answers(made) or not server.alive, PATIENCE, "the sandbox does not answer")
        assert server.alive, server.last_words()
        yield made
        server.terminate()
        assert server.wait(PATIENCE) == 0, server.last_words()


def answers(url: str) -> bool:
    try:
        return bool(call(url, "/sandbox/clock"))
    except OSError:
        return False


def call(url: str, path: str, body: Any = None) -> Any:
    data = None if body is None else json.dumps(body).encode()
    with urllib.request.urlopen(urllib.request.Request(url + path, data), timeout=PATIENCE) as answer:
        return json.load(answer)


def test_a_worker_runs_what_is_due_at_each_instant_that_the_clock_reaches(url: str) -> None:
    app = App("shop", url=url, api_key=KEY)

    @app.task(retry=Retry(initial_backoff="1m"))
    def remind(user: int) -> int:
        return user

    began = call(url, "/sandbox/reset", {})
    with working(app), Client(url, KEY) as client:
        assert remind.enqueue(1).result(PATIENCE) == 1, "what is due needs no clock"
        late = remind.having(delay="24h").enqueue(2)
        target = {"kind": "task", "task": "shop.remind", "payload": {"user": 3}}
        client.jobs.create(name="daily", schedule={"every": "1d"}, target=target)
        call(url, "/sandbox/faults", {"task": "shop.remind", "times": 2, "error": "no network"})
        assert late.state() == "queued"
        moved = call(url, "/sandbox/clock", {"advance": "3d"})
        assert moved["now"][:10] > began["now"][:10]
        ledger = call(url, "/sandbox/ledger")["items"]
    assert [entry["payload"]["user"] for entry in ledger].count(3) == 3
    assert sum(entry["attempts"] for entry in ledger) == len(ledger) + 2
    assert {error for entry in ledger for error in entry["errors"]} == {"Fault: no network"}
    assert {entry["state"] for entry in ledger} == {"succeeded"}


def test_what_makes_no_sense_is_refused(url: str) -> None:
    for body in (
        {},
        {"advance": "1d", "to": "2031-01-01T00:00:00Z"},
        {"to": "2020-01-01T00:00:00Z"},
        {"by": 1},
    ):
        with pytest.raises(urllib.error.HTTPError) as refused:
            call(url, "/sandbox/clock", body)
        with refused.value:
            assert refused.value.code == 422


class working:  # noqa: N801 - reads as a statement
    """A worker of an app while the block lasts."""

    def __init__(self, app: App) -> None:
        self._app = app
        self._stop = threading.Event()
        self._ready = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._work()))

    async def _work(self) -> None:
        async with self._app.worker(grace=5.0):
            self._ready.set()
            await asyncio.to_thread(self._stop.wait)

    def __enter__(self) -> None:
        self._thread.start()
        assert self._ready.wait(PATIENCE)

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join(PATIENCE)
