"""The database of tests: a real PostgreSQL, kept between sessions, and a fresh copy of the schema for each.

A process of tests owns one server, in the first directory of the cache that no other process uses; so
parallel processes have one each. A template with the schema, on virtual time, is made once per schema and
copied at the start of a session.
"""

import asyncio
import hashlib
import os
import shutil
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit, urlunsplit

from tocsin.clock import VirtualClock
from tocsin.db.embedded import EmbeddedServer
from tocsin.db.migrations import migrate, migrations
from tocsin.db.pool import open_connection
from tocsin.domain.errors import Refused, Unavailable
from tocsin.testing.virtual_time import START, make_quick, open_on_virtual_time

_MOST_SERVERS: Final = 256
_PREFIX: Final = "tocsin_sandbox_"
_WITHOUT_A_DISK: Final = (
    "ALTER SYSTEM SET fsync = off",
    "ALTER SYSTEM SET full_page_writes = off",
    "SELECT pg_reload_conf()",
)
_MAKING: Final = 120.0
"""Seconds that a template may take to be made, here or by another process."""
_IN_USE: Final = "is in use by another"


def cache_directory() -> Path:
    """Where servers are kept: ``tocsin/testing`` in the user's cache directory."""
    home = os.environ.get("XDG_CACHE_HOME")
    return (Path(home) if home else Path.home() / ".cache") / "tocsin" / "testing"


async def start_server(directory: Path) -> EmbeddedServer:
    """The first server of a directory that no other process has. The thread that starts it has to outlive it:
    the server ends with that thread."""
    for number in range(_MOST_SERVERS):
        try:
            return await _started(directory / str(number))
        except Refused as error:
            if _IN_USE not in error.detail:
                raise
    raise Refused(f"all {_MOST_SERVERS} databases of tests in {directory} are in use", field="data_dir")


async def _started(directory: Path) -> EmbeddedServer:
    """The server of one directory. It waits for no disk; should that have cost it its files when a machine
    lost its power, it is made anew."""
    server = EmbeddedServer(directory)
    try:
        await server.start()
    except Unavailable:
        await server.stop()
        await asyncio.to_thread(shutil.rmtree, directory)
        server = EmbeddedServer(directory)
        await server.start()
    await _run(server.url, *_WITHOUT_A_DISK)
    return server


async def new_database(server_url: str) -> str:
    """A fresh database with the schema, on virtual time. Returns its URL."""
    template = await find_template(server_url)
    name = f"{_PREFIX}{os.getpid()}"
    await _run(
        server_url,
        f'DROP DATABASE IF EXISTS "{name}" WITH (FORCE)',
        f'CREATE DATABASE "{name}" TEMPLATE "{template}"',
    )
    url = _url_of(server_url, name)
    await make_quick(url)
    return url


async def drop_database(server_url: str, url: str) -> None:
    """Remove a database that `new_database` made."""
    await _run(server_url, f'DROP DATABASE IF EXISTS "{urlsplit(url).path[1:]}" WITH (FORCE)')


async def find_template(server_url: str) -> str:
    """The name of the template, which is made if it is not there. Processes that share a server make it
    once: the others wait."""
    template = f"{_PREFIX}{_schema()}"
    connection = await open_connection(server_url, name="tocsin sandbox", timeout=_MAKING)
    try:
        await connection.execute("SELECT pg_advisory_lock(hashtextextended($1, 0))", template)
        if not await connection.fetchval("SELECT count(*) FROM pg_database WHERE datname = $1", template):
            await _make_template(server_url, template)
    finally:
        await connection.close()  # and with it the lock
    return template


async def _make_template(server_url: str, template: str) -> None:
    """Beside its place first: a template that is there is whole."""
    half = f"{template}_half"
    await _run(server_url, f'DROP DATABASE IF EXISTS "{half}" WITH (FORCE)', f'CREATE DATABASE "{half}"')
    url = _url_of(server_url, half)
    await migrate(url)
    database, _ = await open_on_virtual_time(url, VirtualClock(START), size=1)
    await database.close()
    await _run(server_url, f'ALTER DATABASE "{half}" RENAME TO "{template}"')


def _schema() -> str:
    """What the schema is called: the same for equal migrations only."""
    known = migrations()
    digest = hashlib.sha256("".join(one.checksum for one in known).encode()).hexdigest()
    return f"{known[-1].number:04}_{digest[:12]}"


async def _run(server_url: str, *statements: str) -> None:
    connection = await open_connection(server_url, name="tocsin sandbox")
    try:
        for statement in statements:
            await connection.execute(statement)
    finally:
        await connection.close()


def _url_of(server_url: str, database: str) -> str:
    return urlunsplit(urlsplit(server_url)._replace(path=f"/{database}"))
