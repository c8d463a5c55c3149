"""`tocsin serve`: everything on one machine, under one parent.

The supervisor owns the embedded database if there is one, makes the database ready, then keeps an API process
and the engine processes running. SIGTERM stops the engines first, so that they can write everything down,
then the API, then the database.
"""

import asyncio
import os
from pathlib import Path
from typing import Final

import structlog

from tocsin.api.server import listen
from tocsin.background import Background
from tocsin.dashboard.link import login_link
from tocsin.db.embedded import EmbeddedServer
from tocsin.domain.errors import Unavailable
from tocsin.roles.child import Child
from tocsin.roles.preparing import prepare
from tocsin.roles.process import stop_on_signals, wait_for_database
from tocsin.secret_key import ensure_secret_key
from tocsin.settings import Settings

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


async def _show_link(url: str, settings: Settings) -> None:
    """A convenience: whatever is in its way is no reason to stop."""
    try:
        link = await login_link(url, settings)
    except Unavailable as error:
        _log.warning("dashboard.no_link", error=str(error))
        return
    if link is not None:
        print(f"\n  dashboard (this link logs in once, for ten minutes):\n\n    {link}\n", flush=True)  # noqa: T201


def _children(settings: Settings, url: str, secret_key_file: Path | None, *, embedded: bool) -> list[Child]:
    at_home = embedded and settings.host in _LOOPBACK
    environment = {
        "TOCSIN_SUPERVISED": "1",
        "TOCSIN_DATABASE_URL": url,
        "TOCSIN_DATA_DIR": str(settings.data_dir),
        # People try things at home: with the embedded database on a loopback address, loopback targets and
        # the echo are fine.
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
