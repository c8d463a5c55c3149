"""Looks below the low marks of the lanes for what was left there: by a transaction that committed late, or by
a worker that had locked a row and did not take it.

The look has a loop of its own, for it may take long: while a transaction is held open it walks all dead
entries there, and claims must not wait for that.
"""

import asyncio

import structlog

from tocsin.domain.errors import Unavailable
from tocsin.domain.instant import Instant
from tocsin.queue.claiming.looking import Looking
from tocsin.service import Report
from tocsin.signals import Signal

_log = structlog.get_logger()


class Stragglers:
    """Runs twice a minute."""

    name = "stragglers"
    interval = 30.0

    def __init__(self, looking: Looking) -> None:
        self._look_at = looking
        self.found = Signal("stragglers_found")
        self._looking: asyncio.Task[object] | None = None
        self._given_up = False

    async def run_once(self, now: Instant) -> Report:
        """Look once; if something is there, have the claimer look from there on."""
        self._looking = asyncio.current_task()
        try:
            lanes = await self._look_at.look_below(now)
        except asyncio.CancelledError:
            if not self._given_up:
                raise
            return Report()
        except Unavailable as error:
            # Not at once again: if it took too long, so will the next.
            _log.warning("stragglers.look_failed", error=str(error), retry_in=self.interval)
            return Report()
        finally:
            self._looking = None
        if lanes:
            self.found.send()
        return Report(done=lanes)

    def give_up(self) -> None:
        """End a look that is under way; callers need not wait for it."""
        self._given_up = True
        if self._looking is not None:
            self._looking.cancel()
