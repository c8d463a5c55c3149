"""Whether this process can do its work: the database is reached, its schema fits, and it can be written to. A
server whose commits wait for a standby that is not there cannot.

The answer is at most a second old. It is asked over a connection of its own, so that a pool whose connections
are all busy does not look like a database that is away, and it is not waited for longer than a second either:
what asks is a load balancer that wants to know now. However many ask at once, one question is under way.
"""

import asyncio
from time import monotonic
from typing import Any, Final

from tocsin.db.migrations import first_beyond, migrations
from tocsin.db.pool import open_connection
from tocsin.db.presence import Presence
from tocsin.db.trouble import translating
from tocsin.domain.errors import Unavailable

_FRESH: Final = 1.0
_PATIENCE: Final = 0.9
_ASK: Final = """
    SELECT number, name, runs_beside, current_setting('transaction_read_only') = 'on' AS read_only,
           (SELECT count(*) FROM pg_stat_activity
            WHERE wait_event = 'SyncRep' AND query_start < clock_timestamp() - interval '1 second') AS waiting
    FROM migrations ORDER BY number"""


class Readiness:
    """Asks, and remembers the answer for a second."""

    def __init__(self, presence: Presence) -> None:
        self._presence = presence
        self._connection: Any = None
        self._ready_at = -_FRESH
        self._asking: asyncio.Task[None] | None = None
        self._known = frozenset(migration.number for migration in migrations())

    async def check(self) -> None:
        """Raise `Unavailable` unless this process can do its work."""
        self._presence.refuse_if_away()
        if monotonic() - self._ready_at < _FRESH:
            return
        if self._asking is None:
            self._asking = asyncio.create_task(self._ask())
            self._asking.add_done_callback(self._asked)
        await asyncio.shield(self._asking)

    def _asked(self, task: asyncio.Task[None]) -> None:
        self._asking = None
        if not task.cancelled():
            task.exception()  # the callers that wait hear it; without any it is no matter

    async def _ask(self) -> None:
        asked_at = monotonic()
        try:
            with translating():
                async with asyncio.timeout(_PATIENCE):
                    rows = await self._rows()
        except BaseException:
            if self._connection is not None:
                self._connection.terminate()
            self._presence.look()
            raise
        if first_beyond(rows, max(self._known)) or not self._known <= {row["number"] for row in rows}:
            raise Unavailable("the schema of the database does not fit this process")
        if rows[0]["read_only"]:
            self._presence.turned_read_only(self._connection)
            raise Unavailable("the database cannot be written to")
        if rows[0]["waiting"]:
            raise Unavailable("the database waits for a synchronous standby that does not answer")
        self._ready_at = asked_at

    async def _rows(self) -> list[Any]:
        if self._connection is None or self._connection.is_closed():
            self._connection = await open_connection(
                self._presence, name="tocsin readiness", timeout=_PATIENCE, starting=False
            )
        rows: list[Any] = await self._connection.fetch(_ASK)
        return rows
