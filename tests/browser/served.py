"""The installation that browser tests look at: one `tocsin serve`, and the few calls that tests prepare things with."""

import contextlib
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.support.api import RealApi
from tests.support.processes import Process, Processes, free_port, wait_for


class Served:
    """A running `tocsin serve`."""

    def __init__(self, process: Process, port: int, data: Path) -> None:
        self.process = process
        self.url = f"http://127.0.0.1:{port}"
        self._port = port
        self._data = data

    @property
    def api(self) -> RealApi:
        """The API with the administrator's key."""
        return RealApi(self._port, (self._data / "admin-key").read_text().strip())

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

    def echo(self, query: str = "") -> dict[str, Any]:
        """A target that answers with what it received."""
        return {"kind": "http", "url": f"{self.url}/v1/echo{query}", "body": {"hello": "test"}}


@contextlib.contextmanager
def serving(directory: Path) -> Iterator[Served]:
    """Start it, wait until it is ready, stop it in order."""
    port, data = free_port(), directory / "data"
    with Processes(directory) as processes:
        process = processes.tocsin(
            "serve", "serve", "--port", str(port), "--engines", "1", "--data-dir", str(data), cwd=directory,
        )  # fmt: skip
        served = Served(process, port, data)
        process.start()
        wait_for(lambda: "#ticket=" in process.output() or not process.alive, 60, "serve prints no link")
        assert process.alive, process.last_words()
        yield served
        process.terminate()
        assert process.wait(60) == 0, process.last_words()
