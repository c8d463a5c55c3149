"""Gives back slots of limit keys that this worker has and does not use: at once when an execution waits for
one, otherwise when nothing ran under the key for two seconds. A worker without such slots sends no query.
"""

from typing import Final

from tocsin.domain.instant import SECOND, Instant, Span, has_passed
from tocsin.queue.slots.slots import Slots
from tocsin.service import Report

_KEPT: Final[Span] = 2 * SECOND


class SlotReturner:
    """Runs when the worker took slots, now and then as long as it has some, and when a notice says that
    an execution waits."""

    name = "slot_returner"
    interval = 60.0

    def __init__(self, slots: Slots) -> None:
        self._slots = slots
        self._swept_at: Instant = 0

    async def run_once(self, now: Instant) -> Report:
        """Give back slots that are waited for; now and then also unused ones."""
        if self._slots.unsure:
            await self._slots.adopt()  # a slot that no book remembers would never go back
        await self._slots.wake_owed()
        await self._slots.resolve_doubts()
        await self._slots.answer_waiting()
        if has_passed(_KEPT, self._swept_at, now):
            self._swept_at = now
            await self._slots.give_back_unused()
        return Report(again_at=self._swept_at + _KEPT if self._slots.has_any else None)
