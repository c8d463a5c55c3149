"""`tocsin serve`: everything on one machine, under one parent.

The supervisor owns the embedded database if there is one, migrates, makes the administrator's key on the first
start, then keeps an API process and the engine processes running. A child that dies is started again, after a
pause that grows while it keeps dying. SIGTERM stops the engines first, so that they can write everything down,
then the API, then the database.
"""

import asyncio
import contextlib
import os
import sys
from pathlib import Path
from typing import Final

import structlog

from tocsin.api.server import listen
from tocsin.background import Background
from tocsin.clock import system_now
from tocsin.dashboard.link import login_link
from tocsin.db.embedded import EmbeddedServer
from tocsin.db.migrations import migrate
from tocsin.db.pool import open_database
from tocsin.domain.errors import Unavailable
from tocsin.domain.keys import BOOTSTRAP_ID, check_chosen, new_key
from tocsin.roles import stop_on_signals, wait_for_database
from tocsin.secret_key import ensure_secret_key
from tocsin.settings import Settings
from tocsin.store.history import HistoryStore
from tocsin.store.keys import KeyStore

KEY_FILE: Final = "admin-key"
_FIRST_PAUSE: Final = 0.2
_LONGEST_PAUSE: Final = 10.0
_STEADY: Final = 30.0  # seconds after which a child counts as well
_KILL_AFTER: Final = 10.0
_LOOPBACK: Final = ("127.0.0.1", "::1", "localhost")
_log = structlog.get_logger()


async def supervise(settings: Settings) -> None:
    """Run until stopped."""
    stop = stop_on_signals()
    listen(
        settings.host, settings.port, share_port=settings.share_port
    ).close()  # say now what the child would only log
    embedded = None if settings.database_url else EmbeddedServer(settings.data_dir)
    try:
        url = await embedded.start() if embedded else settings.database_url or ""
        await wait_for_database(url, stop)
        await prepare(url, settings, announce=True)
        secret_key_file = ensure_secret_key(settings)
        children = _children(settings, url, secret_key_file, embedded=embedded is not None)
        background = Background()
        for child in children:
            background.start(child.name, child.keep_running)
        background.start("link", lambda: _show_link(url, settings))
        if embedded:
            background.start("database", lambda: _guard(embedded))
        await stop.wait()
        _log.info("serve.stopping")
        api, *engines = children
        patience = settings.drain_timeout + _KILL_AFTER
        await asyncio.gather(*(engine.stop(patience) for engine in engines))
        await api.stop(patience)
        await background.end(patience=0)
    finally:
        if embedded:
            await embedded.stop()
    _log.info("serve.stopped")


async def prepare(url: str, settings: Settings, *, announce: bool) -> None:
    """Bring the database up to date: schema, partitions, administrator's key."""
    await migrate(url)
    database = await open_database(url, name="tocsin setup", size=1)
    try:
        await _make_partitions(HistoryStore(database))
        await _ensure_admin_key(KeyStore(database), settings, announce=announce)
    finally:
        await database.close()


async def _make_partitions(history: HistoryStore) -> None:
    """Retention makes what cannot be made now; until then rows go into the default partition."""
    try:
        await history.make_partitions(system_now())
    except Unavailable as error:
        _log.warning("partitions.not_made", error=str(error))


async def _ensure_admin_key(store: KeyStore, settings: Settings, *, announce: bool) -> None:
    file = settings.data_dir / KEY_FILE
    if settings.admin_key is not None:
        check_chosen(settings.admin_key)
        await store.put_bootstrap(settings.admin_key)
    elif not await store.has_bootstrap():
        _, text = new_key(BOOTSTRAP_ID)
        _keep_secret(file, text)  # first, so that no crash can leave a key that nobody has
        await store.put_bootstrap(text)
        if announce:
            print(f"\n  administrator's API key (shown once, kept in {file}):\n\n    {text}\n", flush=True)  # noqa: T201


async def _show_link(url: str, settings: Settings) -> None:
    """A convenience: whatever is in its way is no reason to stop."""
    try:
        link = await login_link(url, settings)
    except Unavailable as error:
        _log.warning("dashboard.no_link", error=str(error))
        return
    if link is not None:
        print(f"\n  dashboard (this link logs in once, for ten minutes):\n\n    {link}\n", flush=True)  # noqa: T201


def _keep_secret(file: Path, text: str) -> None:
    """Readable by the owner only, from its first moment on, and never there in part."""
    file.parent.mkdir(parents=True, exist_ok=True)
    unfinished = file.with_name(f".{file.name}.new")
    with contextlib.suppress(FileNotFoundError):
        unfinished.unlink()
    descriptor = os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w") as out:
        out.write(text + "\n")
        out.flush()
        os.fsync(out.fileno())
    unfinished.replace(file)


class Child:
    """One process under supervision."""

    def __init__(self, name: str, arguments: list[str], environment: dict[str, str]) -> None:
        self.name = name
        self._arguments = arguments
        self._environment = environment
        self._process: asyncio.subprocess.Process | None = None
        self._stopping = False

    async def keep_running(self) -> None:
        """Start, and start again whenever it dies."""
        pause = _FIRST_PAUSE
        while not self._stopping:
            started = asyncio.get_running_loop().time()
            self._process = await self._spawn()
            if self._process is None:
                pause = min(pause * 2, _LONGEST_PAUSE)
                await asyncio.sleep(pause)
                continue
            code = await self._process.wait()
            if self._stopping:
                return
            steady = asyncio.get_running_loop().time() - started > _STEADY
            pause = _FIRST_PAUSE if steady else min(pause * 2, _LONGEST_PAUSE)
            _log.error("child.died", child=self.name, code=code, restart_in=pause)
            await asyncio.sleep(pause)

    async def _spawn(self) -> asyncio.subprocess.Process | None:
        try:
            return await asyncio.create_subprocess_exec(
                sys.executable,
                "-m",
                "tocsin",
                *self._arguments,
                stdin=asyncio.subprocess.PIPE,  # its end tells the child that we are gone
                env=os.environ | self._environment,
                start_new_session=True,  # Ctrl-C reaches us alone; we stop the children in order
            )
        except OSError as error:
            _log.error("child.not_started", child=self.name, error=str(error))
            return None

    async def stop(self, patience: float) -> None:
        """Ask it to stop; insist after a while."""
        self._stopping = True
        process = self._process
        if process is None or process.returncode is not None:
            return
        with contextlib.suppress(ProcessLookupError):
            process.terminate()
        try:
            await asyncio.wait_for(process.wait(), patience)
        except TimeoutError:
            _log.warning("child.killed", child=self.name)
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            await process.wait()


def _children(settings: Settings, url: str, secret_key_file: Path | None, *, embedded: bool) -> list[Child]:
    at_home = embedded and settings.host in _LOOPBACK
    environment = {
        "TOCSIN_SUPERVISED": "1",
        "TOCSIN_DATABASE_URL": url,
        "TOCSIN_DATA_DIR": str(settings.data_dir),
        # People try things at home: with the embedded database on a loopback address, loopback targets and the echo are fine.
        "TOCSIN_ALLOW_LOOPBACK": str(settings.allow_loopback or at_home).lower(),
        "TOCSIN_ECHO": str(settings.echo or at_home).lower(),
    }
    if secret_key_file is not None:
        environment["TOCSIN_SECRET_KEY_FILE"] = str(secret_key_file)
    api = Child("api", ["api", "--host", settings.host, "--port", str(settings.port)], environment)
    engines = settings.engines or os.cpu_count() or 1
    return [api, *(Child(f"engine-{number}", ["engine"], environment) for number in range(1, engines + 1))]


async def _guard(embedded: EmbeddedServer) -> None:
    """Start the database again if it dies; the children wait for it by themselves."""
    while True:
        await asyncio.sleep(0.5)
        if not embedded.alive():
            _log.error("database.died")
            try:
                await embedded.start()
            except Unavailable as error:
                _log.error("database.restart_failed", error=str(error))
                await asyncio.sleep(2)
