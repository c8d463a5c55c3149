"""How long before its instant an execution is started: as long as starting takes here.

A start is a commit. On a disk of its own that takes a few milliseconds; with a synchronous standby in another
region it takes a round trip. Starts are asked for one after the other, so one may also have to wait for the
one before it. The lead is what nearly all starts of the last minute took, with that wait, and a little more.
"""

from collections import deque
from collections.abc import Callable, Iterable
from typing import Final

from tocsin.domain.instant import MILLISECOND, SECOND, Span

SHORTEST_LEAD: Final[Span] = 25 * MILLISECOND
"""What waking up and a commit take, also when the disk is slow."""
LONGEST_LEAD: Final[Span] = SECOND
_ON_TOP: Final[Span] = 10 * MILLISECOND
_WINDOW_S: Final = 60.0
_EVERY_S: Final = 0.25
_MOST_SAMPLES: Final = 1000


def lead_for(starts: Iterable[Span]) -> Span:
    """The lead that would have been enough for 99 of 100 of these starts."""
    took = sorted(starts)
    if not took:
        return SHORTEST_LEAD
    return max(SHORTEST_LEAD, min(took[(len(took) * 99 - 1) // 100] + _ON_TOP, LONGEST_LEAD))


class StartLead:
    """Remembers what the starts of the last minute took."""

    def __init__(self, monotonic: Callable[[], float]) -> None:
        self._monotonic = monotonic
        self._samples: deque[tuple[float, Span]] = deque(maxlen=_MOST_SAMPLES)
        self._span: Span = SHORTEST_LEAD
        self._looked_at = 0.0
        self._before: Span = 0

    def span(self) -> Span:
        """The lead at the moment."""
        return self._span

    def begin(self) -> float:
        """A start is asked for. Returns what `note` wants to know."""
        return self._monotonic()

    def note(self, began: float, waited: Span) -> None:
        """The start was answered. `waited` is how late it was asked for. It counts up to the duration of the
        start before. Any longer wait was for a place, and an earlier start would not have helped."""
        now = self._monotonic()
        took = round((now - began) * SECOND)
        self._samples.append((now, took + min(waited, self._before)))
        self._before = took
        if now - self._looked_at >= _EVERY_S:
            self._looked_at = now
            while self._samples[0][0] < now - _WINDOW_S:
                self._samples.popleft()
            self._span = lead_for(span for _, span in self._samples)
