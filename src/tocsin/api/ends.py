"""Waiting for the end of executions.

All that wait in a process share one look at the database, every 50 ms while there are any. A look asks by key
which of them are no longer live; nothing is asked while no request waits.
"""

import asyncio
from typing import Final

from tocsin.db.patience import patient_for
from tocsin.db.pool import acting_by_statement
from tocsin.domain.errors import Unavailable
from tocsin.domain.ids import ExecutionKey
from tocsin.store.executions import ExecutionStore

_EVERY: Final = 0.05
_AFTER_TROUBLE: Final = 0.5


class Ends:
    """Those that wait. `executions` sees all tenants."""

    def __init__(self, executions: ExecutionStore) -> None:
        self._executions = executions
        self._waiting: dict[ExecutionKey, set[asyncio.Future[None]]] = {}
        self._looking: asyncio.Task[None] | None = None
        self._stopping = False

    async def wait(self, key: ExecutionKey, seconds: float) -> None:
        """Return when the execution is over, or after so long."""
        if self._stopping:
            return
        ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(key, set()).add(ended)
        if self._looking is None:
            self._looking = asyncio.create_task(self._look())
        try:
            await asyncio.wait([ended], timeout=seconds)
        finally:
            self._leave(key, ended)

    def stop(self) -> None:
        """The process ends: answer all that wait."""
        self._stopping = True
        self._tell(list(self._waiting))

    async def _look(self) -> None:
        try:
            with acting_by_statement(), patient_for(None):
                while self._waiting:
                    try:
                        self._tell(await self._executions.over(list(self._waiting)))
                    except Unavailable:
                        await asyncio.sleep(_AFTER_TROUBLE)
                    await asyncio.sleep(_EVERY)
        finally:
            self._looking = None

    def _tell(self, keys: list[ExecutionKey]) -> None:
        for key in keys:
            for ended in self._waiting.get(key, ()):
                if not ended.done():
                    ended.set_result(None)

    def _leave(self, key: ExecutionKey, ended: "asyncio.Future[None]") -> None:
        waiting = self._waiting.get(key, set())
        waiting.discard(ended)
        if not waiting:
            self._waiting.pop(key, None)
