"""The installation that browser tests look at: one `tocsin serve`, and the few calls that tests prepare
things with."""

import asyncio
import contextlib
import re
from collections.abc import Coroutine, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, TypeVar

from tests.support.api import RealApi
from tests.support.processes import Process, Processes, free_port, wait_for
from tocsin.db.embedded import EmbeddedServer
from tocsin.db.pool import open_connection

T = TypeVar("T")


class Served:
    """A running `tocsin serve`."""

    def __init__(self, process: Process, port: int, data: Path) -> None:
        self.process = process
        self.url = f"http://127.0.0.1:{port}"
        self._port = port
        self._data = data

    @property
    def admin_key(self) -> str:
        return (self._data / "admin-key").read_text().strip()

    @property
    def api(self) -> RealApi:
        """The API with the administrator's key."""
        return RealApi(self._port, self.admin_key)

    def printed_link(self) -> str:
        """The link that `serve` printed at its start."""
        found = re.search(rf"{self.url}/#ticket=[\w-]+", self.process.output())
        assert found, self.process.last_words()
        return found[0]

    def link(self, key: str | None = None) -> str:
        """A fresh link that logs in, as the administrator unless another key is given."""
        made = self.api.post("/v1/session/tickets", key=key or self.api.key).json()
        return f"{self.url}/#ticket={made['ticket']}"

    def key(self, *scopes: str, tenant: str = "default") -> dict[str, Any]:
        """A new key: its text, and its row under `key`."""
        if tenant != "default":
            self.api.post("/v1/tenants", {"name": tenant})
        made: dict[str, Any] = self.api.post(
            "/v1/keys", {"name": "test", "scopes": list(scopes), "tenant": tenant}
        ).json()
        return made

    def tenant(self, name: str) -> RealApi:
        """The API as a new tenant sees it, with a key that may read and write."""
        return RealApi(self._port, self.key("read", "write", tenant=name)["text"])

    def echo(self, query: str = "") -> dict[str, Any]:
        """A target that answers with what it received."""
        return {"kind": "http", "url": f"{self.url}/v1/echo{query}", "body": {"hello": "test"}}

    def fetch(self, statement: str, *arguments: Any) -> list[Any]:
        """Rows of its own database, for what no call of the API prepares: a past."""
        return apart(self._fetch(statement, arguments))

    async def _fetch(self, statement: str, arguments: Sequence[Any]) -> list[Any]:
        connection = await open_connection(EmbeddedServer(self._data).url, name="browser tests")
        try:
            return list(await connection.fetch(statement, *arguments))
        finally:
            await connection.close()


# In the thread of the tests the browser's loop runs. A database dies with the thread that started it, so this
# one stays.
_BESIDE = ThreadPoolExecutor(1)


def apart(work: Coroutine[Any, Any, T]) -> T:
    """Run something beside the browser's loop."""
    return _BESIDE.submit(asyncio.run, work).result(60)


def batch(api: RealApi, jobs: Sequence[dict[str, Any]]) -> None:
    """Create many jobs, all of which must be accepted."""
    for begin in range(0, len(jobs), 10_000):
        answer = api.post("/v1/jobs:batch", list(jobs[begin : begin + 10_000]))
        assert answer.status in (200, 201), answer


@contextlib.contextmanager
def serving(directory: Path, *options: str, engines: int = 1) -> Iterator[Served]:
    """Start it, wait until it is ready, stop it in order."""
    port, data = free_port(), directory / "data"
    with Processes(directory) as processes:
        process = processes.tocsin(
            "serve", "serve", "--port", str(port), "--engines", str(engines), "--data-dir", str(data), *options,
            cwd=directory,
        )  # fmt: skip
        served = Served(process, port, data)
        process.start()
        wait_for(lambda: "#ticket=" in process.output() or not process.alive, 60, "serve prints no link")
        assert process.alive, process.last_words()
        yield served
        if process.alive:
            process.terminate()
            assert process.wait(60) == 0, process.last_words()
