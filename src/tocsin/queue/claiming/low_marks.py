"""Low marks: from where on a lane's part of the index is worth reading.

A low mark is an instant below which a lane is known to hold nothing ready. Looks and claims enter the index
there, so entries of rows that are dead but not yet vacuumed (some transaction is held open) are not walked
again and again.

That is safe because nothing enters a queue with a run time before the moment of entering. An application's
transaction may commit long after that moment: its notice says how far down to look (`late_entries.py`).
Beside that, only a transaction still under way, a claim that was rolled back, or a row that was locked can
leave something below. Hence low marks stay a little behind the clock, and every half minute a look goes below
them, beside the claims: down to the marks of a minute before, and every ten minutes to the bottom.
"""

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from tocsin.domain.instant import MILLISECOND, SECOND, Instant, has_passed
from tocsin.queue.lanes import Lane

BOTTOM: Final[Instant] = 0
_BEHIND_CLOCK: Final = 250 * MILLISECOND
_WIDE_BEHIND_CLOCK: Final = 5 * SECOND
_WIDE_EVERY: Final = SECOND
_NEW_LANE_BEHIND_CLOCK: Final = 60 * SECOND
_BOTTOM_EVERY: Final = 600 * SECOND


class Stretch(NamedTuple):
    """A part of a lane, without its end."""

    begin: Instant
    end: Instant


class LowMarks:
    """The low marks of all lanes as one worker knows them."""

    def __init__(self) -> None:
        self._marks: dict[Lane, Instant] = {}
        self._marks_before: dict[Lane, Instant] = {}
        self._marks_before_that: dict[Lane, Instant] = {}
        self._stragglers: dict[Lane, Instant] = {}
        self._looked_at: Instant = 0
        self._widened_at: Instant = 0
        self._bottom_at: Instant = 0

    def of(self, lane: Lane, now: Instant) -> Instant:
        """Where to enter the lane's part of the index."""
        mark = self._marks.get(lane)
        return BOTTOM if mark is None else min(mark, self._highest(now))

    def _highest(self, now: Instant) -> Instant:
        """No lane is entered higher than this."""
        # After a while without a look, what entered meanwhile may lie below where the clock is by now.
        seen_at = min(self._looked_at, now) if has_passed(_WIDE_BEHIND_CLOCK, self._looked_at, now) else now
        wide = has_passed(_WIDE_EVERY, self._widened_at, now)
        return seen_at - (_WIDE_BEHIND_CLOCK if wide else _BEHIND_CLOCK)

    def raise_to(self, lane: Lane, run_at: Instant) -> None:
        """All that was ready below `run_at` has been seen."""
        self._marks[lane] = run_at

    def enter(self, now: Instant, lanes: Sequence[Lane]) -> list[Instant]:
        """Where a look at these lanes enters them."""
        for lane, run_at in self._stragglers.items():
            if lane in self._marks:  # a lane without a mark is entered at the bottom
                self._marks[lane] = min(run_at, self._marks[lane])
        self._stragglers = {}
        highest, marks = self._highest(now), self._marks
        return [mark if (mark := marks.get(lane, BOTTOM)) < highest else highest for lane in lanes]

    def lower(self, lane: Lane, to: Instant) -> None:
        """A transaction that began at `to` has committed rows of this lane: the next look enters there."""
        self._stragglers[lane] = min(to, self._stragglers.get(lane, to))

    def doubt(self) -> None:
        """Notices may have been lost: the next look below goes to the bottom."""
        self._bottom_at = 0

    def looked(self, now: Instant, next_runs: Mapping[Lane, Instant]) -> None:
        """A look that began at `now` has shown when lanes have their next execution. A lane that was not
        shown has none that runs soon, or is held back: what entered it since the look before has not been
        seen."""
        unseen_from = self._looked_at - _WIDE_BEHIND_CLOCK
        for lane, mark in self._marks.items():
            if mark > unseen_from and lane not in next_runs:
                self._marks[lane] = unseen_from
        self._marks |= next_runs
        self._looked_at = now
        if has_passed(_WIDE_EVERY, self._widened_at, now):
            self._widened_at = now

    def keep(self, lanes: Sequence[Lane]) -> None:
        """Forget lanes that are not among these: they were removed."""
        if len(self._marks) > len(lanes):
            kept = frozenset(lanes)
            self._marks = {lane: mark for lane, mark in self._marks.items() if lane in kept}

    def below(self, now: Instant) -> dict[Lane, Stretch]:
        """What a look below the low marks has to cover.

        A look that begins at the bottom is counted when it begins: one that takes too long and is given up
        must not be all that is tried from then on.
        """
        begins, begin_of_new = self._marks_before_that, now - _NEW_LANE_BEHIND_CLOCK
        if has_passed(_BOTTOM_EVERY, self._bottom_at, now):
            self._bottom_at, begins, begin_of_new = now, {}, BOTTOM
        return {lane: Stretch(begins.get(lane, begin_of_new), self.of(lane, now)) for lane in self._marks}

    def looked_below(self, stretches: Mapping[Lane, Stretch], stragglers: Mapping[Lane, Instant]) -> None:
        """A look below has covered these, and found the first straggler of some lanes. The next look at all
        lanes enters there. Claims before that look do not: one that is under way would raise the mark
        again."""
        for lane, run_at in stragglers.items():
            self.lower(lane, run_at)
        self._marks_before_that = self._marks_before
        self._marks_before = {lane: end for lane, (_, end) in stretches.items()}
