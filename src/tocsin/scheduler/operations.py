"""Carries operations out: on every scheduler, a batch at a time, each in a transaction of its own."""

from typing import Final

from tocsin.domain.instant import SECOND, Instant
from tocsin.service import AGAIN_NOW, Report
from tocsin.store.acting import Acting
from tocsin.store.gathering import Gathering

_LOOK: Final = 30 * SECOND


class Operations:
    """Takes whatever operation is due; a notice tells of new ones. A row's lock decides between several
    nodes."""

    name = "operations"
    interval = 30.0

    def __init__(self, acting: Acting, gathering: Gathering) -> None:
        self._acting = acting
        self._gathering = gathering

    async def run_once(self, now: Instant) -> Report:
        """One chunk of what an operation acts on, and one batch of another that knows it."""
        gathered = await self._gathering.advance(now)
        acted, next_at = await self._acting.advance(now)
        if gathered:
            next_at = AGAIN_NOW
        return Report(gathered + acted, now + _LOOK if next_at is None else min(next_at, now + _LOOK))
