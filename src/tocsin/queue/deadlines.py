"""From where to look for the soonest deadline.

Every claim leaves an entry in the index of deadlines, dead once it is settled. If somebody holds a transaction open, vacuum
cannot remove them, and each look for the soonest deadline would walk all of them again. So a look begins at the floor, an
instant below which no deadline is left: when the look before was made, or the soonest that it found if that had passed. Not
the soonest otherwise: what is claimed far ahead has a late deadline, and what is claimed next may have an earlier one. It is
safe because deadlines lie ahead of the moment at which they are set; only a statement still under way, or a clock that was
set back, can leave one below. Hence every minute a look goes further back, and now and then one begins at the bottom.
"""

from typing import Final

from tocsin.domain.instant import SECOND, Instant, Span, has_passed

BOTTOM: Final[Instant] = 0
_BEHIND: Final[Span] = SECOND
_FAR_BEHIND: Final[Span] = 90 * SECOND
_FAR_EVERY: Final[Span] = 60 * SECOND
_BOTTOM_EVERY: Final[Span] = 600 * SECOND


class DeadlineFloor:
    """The floor of one cell's deadlines, as one reclaimer knows it."""

    def __init__(self) -> None:
        self._floor: Instant | None = None
        self._far_at: Instant = 0
        self._bottom_at: Instant = 0

    @property
    def known(self) -> Instant:
        """No deadline that the last look could see lies below."""
        return BOTTOM if self._floor is None else self._floor

    def enter(self, now: Instant) -> Instant:
        """Where this look begins."""
        if self._floor is None or has_passed(_BOTTOM_EVERY, self._bottom_at, now):
            self._bottom_at = self._far_at = now
            return BOTTOM
        if has_passed(_FAR_EVERY, self._far_at, now):
            self._far_at = now
            return min(self._floor, now - _FAR_BEHIND)
        return self._floor - _BEHIND

    def found(self, soonest: Instant | None, now: Instant) -> None:
        """What the look has found: the soonest deadline, or that there is none."""
        self._floor = now if soonest is None else min(soonest, now)
