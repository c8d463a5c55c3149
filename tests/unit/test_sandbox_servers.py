"""Which server a process of tests gets: the first that is free, made anew if its files are broken."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from tocsin.domain.errors import Refused, Unavailable
from tocsin.testing import database


def test_a_server_in_use_is_passed_over_and_a_broken_one_is_made_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken = tmp_path / "1" / "postgres"
    broken.mkdir(parents=True)

    class Server:
        def __init__(self, directory: Path) -> None:
            self.directory = directory
            self.url = "postgresql://nobody"

        async def start(self) -> None:
            if self.directory.name == "0":
                raise Refused("it is in use by another `tocsin serve` (pid 1)")
            if broken.exists():
                raise Unavailable("PostgreSQL did not start")

        async def stop(self) -> None: ...

    async def run(*_: Any) -> None: ...

    monkeypatch.setattr(database, "EmbeddedServer", Server)
    monkeypatch.setattr(database, "_run", run)
    made: Any = asyncio.run(database.start_server(tmp_path))
    assert (made.directory, broken.exists()) == (tmp_path / "1", False)
