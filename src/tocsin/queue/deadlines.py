"""From where to look for the soonest deadline.

Every claim leaves an entry in the index of deadlines, dead once it is settled. If somebody holds a transaction open, vacuum
cannot remove them, and each look for the soonest deadline would walk all of them again. So a look begins at the floor, an
instant below which no deadline is left: when the look before was made, or the soonest that it found if that had passed. Not
the soonest otherwise: what is claimed far ahead has a late deadline, and what is claimed next may have an earlier one.

It is safe because deadlines lie a time to live ahead of the moment at which they are set. Only a transaction that was under
way for longer than that can leave one below. Hence looks see which transactions are under way, and once one has ended, the
next look goes back to the first deadline that it can have set. Now and then one begins at the bottom nevertheless.
"""

from collections.abc import Iterable
from typing import Final

from tocsin.domain.instant import SECOND, Instant, Span, has_passed

BOTTOM: Final[Instant] = 0
_BEHIND: Final[Span] = SECOND
_BOTTOM_EVERY: Final[Span] = 600 * SECOND


class DeadlineFloor:
    """The floor of one cell's deadlines, as one reclaimer knows it."""

    def __init__(self, ttl: Span) -> None:
        self._ttl = ttl
        self._floor: Instant | None = None
        self._back_to: Instant | None = None
        self._under_way: dict[int, Instant] = {}
        """Transactions that the last look saw, and when the look before the first that saw them was made."""
        self._looked_at: Instant = BOTTOM
        self._bottom_at: Instant = BOTTOM

    @property
    def known(self) -> Instant:
        """No deadline that the last look could see lies below."""
        return BOTTOM if self._floor is None else self._floor

    def enter(self, now: Instant) -> Instant:
        """Where this look begins."""
        if self._floor is None or has_passed(_BOTTOM_EVERY, self._bottom_at, now):
            self._bottom_at = now
            return BOTTOM
        begin = self._floor if self._back_to is None else min(self._floor, self._back_to)
        return begin - _BEHIND

    def found(self, soonest: Instant | None, now: Instant, under_way: Iterable[int]) -> None:
        """What the look has found: the soonest deadline, or that there is none; and transactions that may set more."""
        self._floor = now if soonest is None else min(soonest, now)
        before, self._under_way = self._under_way, {}
        for transaction in under_way:
            self._under_way[transaction] = before.pop(transaction, self._looked_at)
        self._back_to = min(before.values()) + self._ttl if before else None
        self._looked_at = now
