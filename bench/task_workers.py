"""An API process with its gateway, and workers that run `bench.tasks_app` as users run theirs; for what a
worker in Python would hide, the least that can call itself a worker."""

import asyncio
import os
import sys
import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec

from bench.create import KEY, Connection, free_port
from bench.installation import Installation
from bench.peers.driven import RECORD, Start
from tocsin.store.keys import KeyStore

CONCURRENCY = 50
_REGISTERED = "SELECT count(*) AS n FROM workers WHERE state = 'active'"
_JOINED = "SELECT count(*) AS n FROM nodes WHERE 'task:bench.noop' = ANY (routes)"
_JSON = "application/json"


class Workers:
    """Processes that run the tasks, and what their functions noted."""

    def __init__(self, place: Installation, port: int, directory: Path) -> None:
        self.port = port
        self.url = f"http://127.0.0.1:{port}"
        self._place = place
        self._starts = directory / "starts"
        self._starts.mkdir()
        self._log = directory / "workers.log"
        self._processes: list[asyncio.subprocess.Process] = []
        self._environment = os.environ | {
            "TOCSIN_URL": self.url,
            "TOCSIN_API_KEY": KEY,
            "TOCSIN_DATABASE_URL": place.url,
            "TOCSIN_LOG_LEVEL": "error",
            "BENCH_STARTS": str(self._starts),
        }

    async def serve(self, count: int = 1, processes: int = 1) -> None:
        """Start remote workers, and wait until they have registered."""
        options = ("--concurrency", str(CONCURRENCY), "--processes", str(processes))
        await self._start(count, "tasks", "serve", "bench.tasks_app:app", *options)
        await self._until(_REGISTERED, count)

    async def serve_inside(self) -> None:
        """Start a worker of the fleet that runs the tasks itself."""
        await self._start(1, "worker", "--app", "bench.tasks_app:app")
        await self._until(_JOINED, 1)

    async def stop(self) -> None:
        """In order: what they have claimed ahead goes back, and the last starts are written down."""
        for process in self._processes:
            process.terminate()
        for process in self._processes:
            await process.wait()
        self._processes.clear()

    def starts(self) -> list[Start]:
        """What the functions noted."""
        files = self._starts.iterdir()
        return [Start(*one) for file in files for one in RECORD.iter_unpack(file.read_bytes())]

    async def _start(self, count: int, *words: str) -> None:
        with self._log.open("ab") as log:
            for _ in range(count):
                self._processes.append(
                    await asyncio.create_subprocess_exec(
                        sys.executable, "-m", "tocsin", *words, env=self._environment, stdout=log, stderr=log
                    )
                )

    async def _until(self, query: str, count: int) -> None:
        until = time.monotonic() + 60 + count
        while (await self._place.database.one(query))["n"] < count:
            if time.monotonic() > until or any(one.returncode is not None for one in self._processes):
                raise AssertionError(f"a worker does not come up\n{self._log.read_text()[-2000:]}")
            await asyncio.sleep(0.02)


@asynccontextmanager
async def gateway(place: Installation) -> AsyncIterator[Workers]:
    """An API process over an empty installation, and workers to be started."""
    await place.empty()
    await place.database.execute("TRUNCATE workers")
    await KeyStore(place.database).put_bootstrap(KEY)
    port = free_port()
    await place.start("api", 1, port=port)
    await _until_open(port)
    with tempfile.TemporaryDirectory(prefix="tocsin-bench-") as directory:
        workers = Workers(place, port, Path(directory))
        try:
            yield workers
        finally:
            await workers.stop()
            await place.stop()


async def _until_open(port: int) -> None:
    """A process joins the fleet before it listens."""
    while True:
        try:
            return (await Connection.open(port)).close()
        except OSError:
            await asyncio.sleep(0.02)


class BareWorker:
    """Registers and claims, over one connection, and runs nothing: whatever it is given has succeeded."""

    def __init__(self, connection: Connection, worker: str) -> None:
        self._connection = connection
        self._path = f"/v1/workers/{worker}/claim"

    @classmethod
    async def open(cls, port: int, *, lease: str = "60s") -> "BareWorker":
        """A worker of its own, with room for one."""
        connection = await Connection.open(port)
        body = {"name": "bare", "tasks": [{"name": "bench.noop"}], "capacity": 1, "lease": lease}
        status, answer = await connection.post("/v1/workers", msgspec.json.encode(body), _JSON)
        assert status == 201, answer[:500]
        return cls(connection, msgspec.json.decode(answer)["worker"])

    async def run(self) -> None:
        """Claim one, settle it with the next claim."""
        settle: list[dict[str, Any]] = []
        seq = 0
        while True:
            seq += 1
            ask = {"seq": seq, "want": 1, "wait_ms": 20_000, "settle": settle}
            status, answer = await self._connection.post(self._path, msgspec.json.encode(ask), _JSON)
            assert status == 200, answer[:500]
            claims = msgspec.json.decode(answer)["claims"]
            settle = [{"id": one["id"], "token": one["token"], "verdict": "succeeded"} for one in claims]

    def close(self) -> None:
        """Hang up."""
        self._connection.close()


@asynccontextmanager
async def bare_workers(port: int, count: int) -> AsyncIterator[None]:
    """Start `count` of them, claiming."""
    clients = [await BareWorker.open(port) for _ in range(count)]
    running = [asyncio.create_task(client.run()) for client in clients]
    try:
        yield
    finally:
        for one in running:
            one.cancel()
        ends = await asyncio.gather(*running, return_exceptions=True)
        for client in clients:
            client.close()
    assert all(isinstance(end, asyncio.CancelledError) for end in ends), ends
