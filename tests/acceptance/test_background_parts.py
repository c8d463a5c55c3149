"""A background part that ends is started again, and counted: nothing goes quiet for good."""

import asyncio
from collections import Counter
from pathlib import Path
from typing import Any

import asyncpg
import pytest
import structlog

from tests.support.processes import free_port
from tocsin.db import notices as notices_module
from tocsin.db.notices import Notices
from tocsin.db.presence import Presence
from tocsin.domain.errors import Unavailable
from tocsin.roles import api as api_role
from tocsin.roles.node import Node
from tocsin.settings import Settings

SOME_OF = {
    "api": {"leaser", "notices", "key use"},
    "scheduler": {"leaser", "notices", "planner", "backfiller", "resumer", "reclaimer", "retention"},
    "worker": {
        "leaser",
        "notices",
        "claimer",
        "starter",
        "settler",
        "heartbeat",
        "slot_returner",
        "stragglers",
    },
}


def tasks_by_name() -> dict[str, asyncio.Task[Any]]:
    return {task.get_name(): task for task in asyncio.all_tasks()}


async def until(condition: Any) -> None:
    async with asyncio.timeout(20):
        while not condition():
            await asyncio.sleep(0.01)


@pytest.mark.parametrize("role", SOME_OF)
def test_every_part_of_a_node_that_is_killed_comes_back(url: str, tmp_path: Path, role: str) -> None:
    parts: list[str] = []

    async def scenario() -> None:
        stop = asyncio.Event()
        settings = Settings(database_url=url, data_dir=tmp_path, port=free_port())
        node = Node(settings, (role,), url)
        running = asyncio.create_task(node.run(stop), name="node")
        await until(lambda: SOME_OF[role] <= tasks_by_name().keys())
        parts.extend(["notices", *node.background.parts])
        for name in parts:
            killed = tasks_by_name()[name]
            killed.cancel()
            await until(lambda name=name, killed=killed: _is_back(name, killed))
        stop.set()
        await running
        count = node.process.telemetry.registry.get_sample_value
        assert [count("tocsin_parts_restarted_total", {"part": name}) for name in parts] == [1.0] * len(parts)

    with structlog.testing.capture_logs() as logs:
        asyncio.run(scenario())
    assert Counter(entry["part"] for entry in logs if entry["event"] == "part.ended") == Counter(parts)


def test_a_process_whose_api_server_ended_by_itself_ends_with_an_error(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def ends_at_once(*_: object, **__: object) -> None: ...

    monkeypatch.setattr(api_role, "serve", ends_at_once)
    node = Node(Settings(database_url=url, data_dir=tmp_path), ("api",), url)
    with pytest.raises(Unavailable, match="the API server ended"):
        asyncio.run(node.run(asyncio.Event()))


def _is_back(name: str, killed: asyncio.Task[Any]) -> bool:
    there = tasks_by_name().get(name)
    return there is not None and there is not killed and not there.done()


class Connection:
    """A LISTEN connection that the server ends at a bad moment."""

    def __init__(self, error: BaseException | None) -> None:
        self._error = error

    def add_termination_listener(self, _: object) -> None: ...

    async def add_listener(self, *_: object) -> None:
        if self._error:
            raise self._error

    def terminate(self) -> None: ...


@pytest.mark.parametrize(
    "error",
    [
        asyncpg.AdminShutdownError("terminating connection"),
        asyncpg.InterfaceError("connection is closed"),
        asyncpg.InternalClientError("got result for unknown protocol state"),
        TimeoutError(),
    ],
    ids=lambda error: type(error).__name__,
)
def test_listening_begins_again_whatever_way_the_connection_ended(
    error: BaseException, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario() -> None:
        connections = [Connection(error), Connection(None)]

        async def open_one(*_: object, **__: object) -> Connection:
            return connections.pop(0)

        monkeypatch.setattr(notices_module, "open_connection", open_one)
        notices, woken = Notices(Presence("postgresql://nowhere/none"), "test"), asyncio.Event()
        notices.on("ready", woken.set)
        listening = asyncio.create_task(notices.run())
        await asyncio.wait(
            [listening, asyncio.create_task(woken.wait())], return_when="FIRST_COMPLETED", timeout=20
        )
        assert woken.is_set()
        assert not listening.done()
        listening.cancel()

    asyncio.run(scenario())
