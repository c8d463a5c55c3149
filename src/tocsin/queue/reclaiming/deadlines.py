"""From where to look for the soonest deadline.

Every claim leaves an entry in the index of deadlines, dead once it is settled. If a transaction is held open,
vacuum cannot remove these entries, and each look for the soonest deadline would walk all of them again. So a
look begins at a low mark, an instant below which no deadline is left: when the look before was made, or the
soonest deadline that it found if that had passed. A soonest deadline that has not passed is no mark: what is
claimed far ahead has a late deadline, and what is claimed next may have an earlier one.

That is safe because deadlines lie ahead of the moment at which they are set; only a transaction still under
way can leave one below. Hence a look also asks since when the oldest transaction of the fleet is under way
that may have set one, and the mark is no higher than that. These are not open for long: every statement of
ours has its timeout. Every ten minutes a look begins at the bottom nevertheless.
"""

from typing import Final

from tocsin.domain.instant import SECOND, Instant, Span, has_passed

BOTTOM: Final[Instant] = 0
_BEHIND_LAST_LOOK: Final[Span] = SECOND
_BOTTOM_EVERY: Final[Span] = 600 * SECOND


class DeadlineMark:
    """The low mark of one cell's deadlines, as one reclaimer knows it."""

    def __init__(self) -> None:
        self._mark: Instant | None = None
        self._under_way_since: Instant | None = None
        self._bottom_at: Instant = BOTTOM

    @property
    def known(self) -> Instant:
        """No deadline that the last look could see lies below."""
        return BOTTOM if self._mark is None else self._mark

    def enter(self, now: Instant) -> Instant:
        """Where this look begins."""
        if self._mark is None or has_passed(_BOTTOM_EVERY, self._bottom_at, now):
            self._bottom_at = now
            return BOTTOM
        return self._mark - _BEHIND_LAST_LOOK

    def found(self, soonest: Instant | None, now: Instant, under_way_since: Instant | None) -> None:
        """What the look has found: the soonest deadline, or that there is none; and since when the oldest
        transaction was under way that may have set one. What ended in the middle of the look, the look before
        has seen under way."""
        before, self._under_way_since = self._under_way_since, under_way_since
        self._mark = min(
            instant for instant in (now, soonest, before, under_way_since) if instant is not None
        )
