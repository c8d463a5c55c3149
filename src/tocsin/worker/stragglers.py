"""Looks below the floors of the lanes for what was left there: by a transaction that was committed late, or by a worker that
had locked it and did not take it.

It has a loop of its own, for it may take long: while somebody holds a transaction open it walks all that died there, and
claims must not wait for that.
"""

from collections.abc import Callable

from tocsin.domain.instant import Instant
from tocsin.queue.postgres import PostgresQueue
from tocsin.service import Report


class Stragglers:
    """Runs twice a minute."""

    name = "stragglers"
    interval = 30.0

    def __init__(self, queue: PostgresQueue, found: Callable[[], None]) -> None:
        self._queue = queue
        self._found = found

    async def run_once(self, now: Instant) -> Report:
        """Look once; if something is there, have the claimer look from there on."""
        lanes = await self._queue.look_below(now)
        if lanes:
            self._found()
        return Report(done=lanes)
