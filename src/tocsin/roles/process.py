"""One process of the fleet: its settings, clock, counters and connections, and when it should stop.

Whatever is opened here is closed here, the last first.
"""

import asyncio
import os
import platform
import signal
import sys
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Protocol

import structlog

from tocsin.clock import DatabaseClock
from tocsin.db.pool import Database, open_database
from tocsin.db.presence import Presence
from tocsin.domain.errors import Unavailable
from tocsin.failpoints import Failpoints
from tocsin.service import Loop
from tocsin.settings import Settings
from tocsin.targets.caller import Caller
from tocsin.telemetry import Telemetry
from tocsin.tracing import open_tracing

_log = structlog.get_logger()


class TaskHost(Protocol):
    """Runs tasks inside a worker of the fleet."""

    routes: tuple[str, ...]
    tenant_id: int
    """For whom, once it was opened."""

    async def open(self, process: "Process", database: Database) -> Mapping[str, Caller]:
        """Bring them to life, until the process closes. What serves which route."""

    @property
    def loops(self) -> list[Loop]:
        """What runs beside the tasks, once they were opened."""

    @property
    def exit_code(self) -> int:
        """What the process ends with: 0, unless a supervisor should start it anew."""


class Process:
    """What the roles of one process share."""

    def __init__(self, settings: Settings, roles: Sequence[str], url: str) -> None:
        self.settings = settings
        self.roles = roles
        self.url = url
        self.presence = Presence(url)
        self.clock = DatabaseClock()
        self.name = f"{platform.node()}:{os.getpid()}"
        tracing = open_tracing(settings.otlp_endpoint, settings.trace_share, self.name)
        self.telemetry = Telemetry(roles, tracing)
        self.presence.on_call(self.telemetry.note_call)
        self.failpoints = Failpoints.from_text(settings.failpoints)
        self.runs_scripts = False
        """Whether scripts are allowed here and their sandbox stands."""
        self.tasks: TaskHost | None = None
        """The tasks of an app that a worker in this process runs itself."""
        self._closing: list[Callable[[], Awaitable[object]]] = []

    async def open(self, purpose: str, *, size: int, pinned: bool = False) -> Database:
        """Connections of their own for one purpose."""
        database = await open_database(
            self.presence,
            name=f"tocsin {purpose} {os.getpid()}",  # by which the reclaimer knows transactions of the fleet
            timeout=self.settings.statement_timeout,
            size=size,
            pinned=pinned,
        )
        self.closes(database.close)
        return database

    def closes(self, *ways: Callable[[], Awaitable[object]]) -> None:
        """What to call at the end."""
        self._closing += ways

    async def close(self) -> None:
        """Let go of everything that was opened, the last first."""
        while self._closing:
            await self._closing.pop()()
        if self.telemetry.tracing is not None:
            await asyncio.to_thread(self.telemetry.tracing.close)


def stop_on_signals() -> asyncio.Event:
    """An event that SIGTERM, SIGINT, or the death of the supervisor sets."""
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for signum in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(signum, stop.set)
    if os.environ.get("TOCSIN_SUPERVISED"):
        # The supervisor holds the other end of our standard input; when it dies in any way, we read the end.
        loop.add_reader(sys.stdin.fileno(), stop.set)
    return stop


async def wait_for_database(url: str, stop: asyncio.Event) -> None:
    """Come up although the database does not yet: try until it answers."""
    while not stop.is_set():
        try:
            database = await open_database(url, name="tocsin probe", timeout=5, size=1)
        except Unavailable as error:
            _log.warning("database.unavailable", error=str(error))
            await asyncio.sleep(1)
        else:
            await database.close()
            return
