"""PostgreSQL servers that a test may kill, freeze, promote and bring up as each other's standbys.

Their binaries are those of the embedded package. A cluster is laid out once; a server begins with a copy of
it, and a standby with a copy, too, because a cluster that was shut down in order is a base backup of itself.
"""

import asyncio
import contextlib
import os
import shutil
import signal
import subprocess
import time
from pathlib import Path
from typing import Any, Protocol, Self

import asyncpg

from tests.support.postgres import temporary_directory
from tests.support.processes import children_of, free_port, wait_for
from tocsin.db.account import Account
from tocsin.db.connection import ReadOnly
from tocsin.db.embedded import _program
from tocsin.db.pool import open_connection
from tocsin.domain.errors import Unavailable

USER = "tocsin"
RELOAD = "SELECT pg_reload_conf()"
SETTINGS = {
    "listen_addresses": "127.0.0.1",
    "unix_socket_directories": "",
    "max_connections": "100",
    "shared_buffers": "64MB",
    "fsync": "off",  # processes die here, machines do not
    "max_wal_size": "64MB",
    "wal_level": "replica",
    "hot_standby": "on",
    "wal_retrieve_retry_interval": "100ms",
    "autovacuum": "off",
}


class Server:
    """One server over a cluster of its own."""

    def __init__(self, cluster: Path, **settings: str) -> None:
        self.cluster = cluster
        self.port = free_port()
        self._settings = SETTINGS | settings
        self._process: subprocess.Popen[bytes] | None = None
        self._account = Account.choose(cluster, Path(_program("postgres")))

    @property
    def host(self) -> str:
        return f"127.0.0.1:{self.port}"

    @property
    def url(self) -> str:
        return self.url_of(USER)

    def url_of(self, database: str) -> str:
        return f"postgresql://{USER}@{self.host}/{database}"

    def start(self) -> None:
        options = [f"-c{name}={value}" for name, value in (self._settings | {"port": str(self.port)}).items()]
        command = self._account.wrap([_program("postgres"), "-D", str(self.cluster), *options])
        with (self.cluster.parent / f"{self.cluster.name}.log").open("ab") as log:
            self._process = subprocess.Popen(  # type: ignore[call-overload]
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True,
                **self._account.as_user(),
            )  # fmt: skip
        wait_for(self._answers, 30, f"the server on {self.port} is not up")

    def _answers(self) -> bool:
        return asyncio.run(_answers(self.url_of("postgres")))

    def standby_of(self, host: str) -> None:
        """Before its start: follow the server at this place."""
        (self.cluster / "standby.signal").touch()
        name, _, port = host.partition(":")
        self._settings |= {
            "primary_conninfo": f"host={name} port={port} user={USER} application_name=standby"
        }

    def everything(self) -> list[int]:
        """The server and its children."""
        if self._process is None or self._process.poll() is not None:
            return []
        return [self._process.pid, *children_of(self._process.pid)]

    def kill(self) -> None:
        """As if the machine's power were cut, apart from the kernel closing the sockets."""
        self._signal(signal.SIGKILL)
        if self._process is not None:
            self._process.wait(10)

    def freeze(self) -> None:
        """Nothing answers any more, and nothing is closed."""
        self._signal(signal.SIGSTOP)

    def promote(self) -> None:
        command = [_program("pg_ctl"), "-D", str(self.cluster), "promote", "--no-wait"]
        subprocess.run(  # type: ignore[call-overload]
            self._account.wrap(command), check=True, capture_output=True, **self._account.as_user()
        )

    def stop(self) -> None:
        """In order."""
        if self._process is not None and self._process.poll() is None:
            self._process.send_signal(signal.SIGINT)
            self._process.wait(30)

    def _signal(self, signum: signal.Signals) -> None:
        for pid in self.everything():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signum)


class Pair:
    """A primary and its synchronous standby. Use as a context manager."""

    def __init__(self, template: Path, *, alone: bool = False) -> None:
        """`alone`: the standby is started by `follow`."""
        self.directory = temporary_directory()
        self.primary = Server(self._copy(template, "a"))
        self.standby = Server(self._copy(template, "b"))
        self._alone = alone

    def _copy(self, template: Path, name: str) -> Path:
        target = self.directory / name
        subprocess.run(["cp", "-a", str(template), str(target)], check=True)
        return target

    def __enter__(self) -> Self:
        self.primary.start()
        if not self._alone:
            self.follow(self.primary.host)
            self.replicate_synchronously()
        return self

    def follow(self, host: str) -> None:
        """Let the standby follow what is at this place."""
        self.standby.standby_of(host)
        self.standby.start()

    def replicate_synchronously(self) -> None:
        """From now on what is acknowledged is on both."""
        asyncio.run(run_on(self.primary, "ALTER SYSTEM SET synchronous_standby_names = 'standby'", RELOAD))
        state = "SELECT coalesce(max(sync_state), 'none') FROM pg_stat_replication"
        wait_for(lambda: asyncio.run(run_on(self.primary, state)) == "sync", 20, "the standby is not in step")

    def __exit__(self, *exc: object) -> None:
        for server in (self.standby, self.primary):
            server.kill()
        shutil.rmtree(self.directory, ignore_errors=True)

    @property
    def url(self) -> str:
        hosts = f"{self.primary.host},{self.standby.host}"
        return f"postgresql://{USER}@{hosts}/{USER}?target_session_attrs=read-write"


def lay_out(directory: Path) -> Path:
    """A cluster with an empty database, shut down in order, to copy servers from."""
    cluster = directory / "template"
    cluster.mkdir(mode=0o700)
    account = Account.choose(cluster, Path(_program("initdb")))
    account.give(cluster)
    command = [_program("initdb"), "-D", str(cluster), "-U", USER, "-E", "UTF8", "--locale=C.UTF-8"]
    command += ["--auth=trust", "--no-sync", "--wal-segsize=1"]
    subprocess.run(account.wrap(command), check=True, capture_output=True, **account.as_user())  # type: ignore[call-overload]
    server = Server(cluster)
    server.start()
    asyncio.run(run_on(server, f"CREATE DATABASE {USER}", database="postgres"))
    server.stop()
    return cluster


class Place(Protocol):
    """Where a database is."""

    def url_of(self, database: str) -> str:
        """The URL of a database there."""


async def run_on(place: Place, *statements: str, database: str = USER) -> Any:
    """Run statements on a server there, which must be writable. Returns the last one's first value."""
    connection = await open_connection(place.url_of(database), name="test observer")
    try:
        for statement in statements:
            found = await connection.fetch(statement)
        return found[0][0] if found else None
    finally:
        await connection.close(timeout=1)


async def commits(place: Place, seconds: float) -> list[float]:
    """Milliseconds that commits take, one after the other, with nothing in them but a few bytes of WAL."""
    connection = await open_connection(place.url_of(USER), name="test observer")
    try:
        found: list[float] = []
        until = time.monotonic() + seconds
        while (began := time.monotonic()) < until:
            await connection.execute("SELECT pg_logical_emit_message(true, 'test', 'commit')")
            found.append((time.monotonic() - began) * 1000)
            await asyncio.sleep(0.01)
        return found
    finally:
        await connection.close(timeout=1)


async def writable(place: Place) -> bool:
    """Whether a server there takes a commit."""
    try:
        async with asyncio.timeout(2):
            await run_on(place, "SELECT pg_logical_emit_message(true, 'test', 'a commit')")
    except (Unavailable, TimeoutError, asyncpg.PostgresError, asyncpg.InterfaceError, OSError):
        return False
    return True


async def _answers(url: str) -> bool:
    try:
        connection = await open_connection(url, name="test observer")
    except ReadOnly:
        return True  # a standby
    except Unavailable:
        return False
    await connection.close()
    return True
