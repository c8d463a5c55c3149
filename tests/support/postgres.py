"""Databases for tests: one PostgreSQL per test process, one fresh database per test."""

import asyncio
import functools
import itertools
import os
import re
import shutil
import tempfile
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

from tocsin.clock import system_now
from tocsin.db.embedded import EmbeddedServer
from tocsin.db.migrations import migrate
from tocsin.db.pool import open_connection, open_database
from tocsin.store.history import HistoryStore

TEMPLATE = "tocsin_template"
MEMORY = Path("/dev/shm")
ENOUGH_MEMORY = 8 << 30
"""Bytes. Two servers and what they keep of their logs take a quarter of it."""


class Cluster:
    """A server with a migrated template that each test copies."""

    def __init__(self, directory: Path) -> None:
        self.server = EmbeddedServer(directory)
        self._numbers = itertools.count(1)
        # The quicker way, for where files are in memory; on disk it would wait for two checkpoints.
        self._strategy = "STRATEGY FILE_COPY" if directory.is_relative_to(MEMORY) else ""

    def start(self) -> None:
        asyncio.run(self._start())

    def stop(self) -> None:
        asyncio.run(self.server.stop())

    def new_database(self) -> str:
        """A fresh, migrated database with partitions for today. Returns its URL."""
        name = f"test_{os.getpid()}_{next(self._numbers)}"
        asyncio.run(self._run(f"CREATE DATABASE {name} TEMPLATE {TEMPLATE} {self._strategy}"))
        return self.url(name)

    def empty_database(self) -> str:
        """A database without any schema."""
        name = f"empty_{os.getpid()}_{next(self._numbers)}"
        asyncio.run(self._run(f"CREATE DATABASE {name}"))
        return self.url(name)

    def drop(self, url: str) -> None:
        asyncio.run(self._run(f"DROP DATABASE IF EXISTS {urlsplit(url).path[1:]} WITH (FORCE)"))

    def url(self, database: str) -> str:
        parts = urlsplit(self.server.url)
        return urlunsplit(parts._replace(path=f"/{database}"))

    async def _start(self) -> None:
        await self.server.start()
        await self._run(f"CREATE DATABASE {TEMPLATE}")
        await migrate(self.url(TEMPLATE))
        database = await open_database(self.url(TEMPLATE), name="test setup", size=1)
        await HistoryStore(database).make_partitions(system_now())
        await database.close()

    async def _run(self, sql: str) -> None:
        connection = await open_connection(self.server.url, name="test setup")
        try:
            await connection.execute(sql)
        finally:
            await connection.close()


def temporary_directory() -> Path:
    """Short, because Unix socket paths are; and passable for the account that PostgreSQL runs as. In memory,
    if there is plenty of it: a test has no use for a disk, and databases that are made and dropped by the
    thousand would wait for it."""
    directory = Path(tempfile.mkdtemp(prefix="tocsin-", dir=MEMORY if _plenty_of_memory() else None))
    directory.chmod(0o755)
    return directory


@functools.cache
def _plenty_of_memory() -> bool:
    if not MEMORY.is_dir() or shutil.disk_usage(MEMORY).free < ENOUGH_MEMORY:
        return False
    available = re.search(r"MemAvailable: +(\d+) kB", Path("/proc/meminfo").read_text())
    return available is not None and int(available[1]) << 10 >= ENOUGH_MEMORY
