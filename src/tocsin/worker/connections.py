"""Connections as calls need them: read from the database, remembered for a few seconds.

A change reaches every worker within `FRESH_SECONDS`. While the database does not answer, a connection that is
known serves on.
"""

import asyncio
from typing import Final

from tocsin.domain.errors import Refused, Unavailable
from tocsin.store.connections import ConnectionStore, read_connection
from tocsin.targets.message.caller import Known

FRESH_SECONDS: Final = 3.0
_PATIENCE: Final = 2.0
_REMEMBERED: Final = 10_000


class ConnectionBook:
    """Looks connections up for the calls of one worker."""

    def __init__(self, store: ConnectionStore) -> None:
        self._store = store
        self._known: dict[tuple[int, str], tuple[float, Known]] = {}
        self._asking: dict[tuple[int, str], asyncio.Task[Known]] = {}

    async def find(self, tenant_id: int, name: str) -> Known:
        """The connection, or why there is none."""
        key = tenant_id, name
        until, known = self._known.get(key, (0.0, None))
        if known is not None and until > asyncio.get_running_loop().time():
            return known
        asking = self._asking.get(key)
        if asking is None:
            asking = self._asking[key] = asyncio.create_task(self._ask(tenant_id, name))
            asking.add_done_callback(lambda done: self._asked(key, done))
        try:
            async with asyncio.timeout(_PATIENCE):
                # Shared by all calls that name it: one that is cancelled must not take it from the others.
                return await asyncio.shield(asking)
        except (TimeoutError, Unavailable):
            if known is not None:
                return known
            raise Unavailable("the connection could not be read: the database did not answer") from None

    async def _ask(self, tenant_id: int, name: str) -> Known:
        row = await self._store.find(tenant_id, name)
        if row is None:
            self._known.pop((tenant_id, name), None)
            raise Refused(f"there is no connection {name!r}", field="target.connection")
        known = Known(read_connection(row), row["version"])
        if len(self._known) > _REMEMBERED:
            self._known.clear()
        self._known[tenant_id, name] = (asyncio.get_running_loop().time() + FRESH_SECONDS, known)
        return known

    def _asked(self, key: tuple[int, str], done: "asyncio.Task[Known]") -> None:
        self._asking.pop(key, None)
        if not done.cancelled():
            done.exception()  # seen, even if every caller has given up
