"""The link that `tocsin serve` prints: it opens the dashboard logged in as the administrator, once."""

import asyncio

from tocsin.db.pool import open_database
from tocsin.settings import Settings
from tocsin.store.sessions import SessionStore

_PAUSE = 0.1


async def login_link(url: str, settings: Settings) -> str | None:
    """An address with a ticket, once the API listens. None where there is no dashboard, or its port is not
    known: which one the kernel chose is known to the API process alone."""
    if not settings.dashboard or settings.port == 0:
        return None
    while not await _listens(settings.host, settings.port):  # noqa: ASYNC110 - nothing tells when another process listens
        await asyncio.sleep(_PAUSE)
    database = await open_database(url, name="tocsin setup", size=1)
    try:
        ticket = await SessionStore(database).issue_ticket()
    finally:
        await database.close()
    where = settings.public_url or f"http://{_in_url(settings.host)}:{settings.port}"
    return None if ticket is None else f"{where.rstrip('/')}/#ticket={ticket}"


async def _listens(host: str, port: int) -> bool:
    try:
        _, writer = await asyncio.open_connection(host, port)
    except OSError:
        return False
    writer.close()
    return True


def _in_url(host: str) -> str:
    """An address as a browser reaches it: a listener on all addresses is reached on this machine's own."""
    if host in ("0.0.0.0", "::"):  # noqa: S104 - compared, not bound
        return "127.0.0.1"
    return f"[{host}]" if ":" in host else host
