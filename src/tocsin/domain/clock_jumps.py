"""Tells when the database's clock was set, and when an error of it was put right.

Pure: it is fed how far the database's clock is ahead of a monotonic one. Both run at one pace, so that
distance changes only when the database's clock is set, or when the machine slept. A clock that jumps ahead
and later comes back to where it would have been was wrong in between, and what was decided then was decided
too early. A clock that only goes back may as well have been wrong before: that cannot be known, and nothing
is undone.
"""

from typing import Final

import msgspec

from tocsin.domain.instant import SECOND, Span

_SMALL: Final[Span] = 5 * SECOND
"""Corrections up to this size do no harm worth telling."""


class Jump(msgspec.Struct, frozen=True):
    """The clock was set. `put_right`: it had been ahead, and is where it would have been."""

    by: Span
    put_right: bool = False


class ClockJumps:
    """What one process has seen of the database's clock."""

    def __init__(self) -> None:
        self._ahead: Span | None = None
        self._before: Span | None = None
        """The distance before the clock jumped ahead."""

    def observe(self, ahead: Span) -> Jump | None:
        """Learn by how much the database's clock is ahead of the monotonic one. Returns the jump since the
        last time."""
        last, self._ahead = self._ahead, ahead
        if last is None or abs(ahead - last) < _SMALL:
            return None
        if ahead > last:
            self._before = last if self._before is None else self._before
            return Jump(ahead - last)
        put_right = self._before is not None and abs(ahead - self._before) < _SMALL
        if self._before is not None and ahead < self._before + _SMALL:
            self._before = None
        return Jump(ahead - last, put_right)
