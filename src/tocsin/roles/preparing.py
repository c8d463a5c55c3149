"""Makes a database ready for a fleet: schema, the coming days of history, the administrator's key on the
first start."""

import contextlib
import os
from pathlib import Path

import structlog

from tocsin.clock import system_now
from tocsin.db.migrations import migrate
from tocsin.db.pool import open_database
from tocsin.domain.errors import Unavailable
from tocsin.domain.keys import BOOTSTRAP_ID, KEY_FILE, check_chosen, new_key
from tocsin.settings import Settings
from tocsin.store.history import HistoryStore
from tocsin.store.keys import KeyStore

_log = structlog.get_logger()


async def prepare(url: str, settings: Settings, *, announce: bool) -> None:
    """Bring the database up to date: schema, partitions, administrator's key."""
    await migrate(url, settings.shards)
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
        _keep_secret(file, text)  # first, so that no crash can leave a key without its text
        await store.put_bootstrap(text)
        if announce:
            print(f"\n  administrator's API key (shown once, kept in {file}):\n\n    {text}\n", flush=True)  # noqa: T201


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
