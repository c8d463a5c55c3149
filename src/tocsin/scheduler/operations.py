"""Carries operations out: on every scheduler, a batch at a time, each in a transaction of its own."""

from typing import Final

from tocsin.domain.instant import SECOND, Instant
from tocsin.service import Report
from tocsin.store.acting import Acting

_LOOK: Final = 30 * SECOND


class Operations:
    """Takes whatever operation is due; a notice tells of new ones. A row's lock decides between several
    nodes."""

    name = "operations"
    interval = 30.0

    def __init__(self, acting: Acting) -> None:
        self._acting = acting

    async def run_once(self, now: Instant) -> Report:
        """One batch."""
        acted, next_at = await self._acting.advance(now)
        return Report(acted, now + _LOOK if next_at is None else min(next_at, now + _LOOK))
