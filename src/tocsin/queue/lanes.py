"""Lanes and their floors.

A lane is one (queue, priority, tenant). The database says which lanes have something due; `allotment` decides how
much to take from each.

A floor is an instant below which a lane is known to hold nothing ready. Claims enter the index at the floor,
so entries of rows that are dead but not yet vacuumed (somebody holds a transaction open) are not walked again
and again. It is safe because nothing ever enters a queue with a run time before the moment of entering; only
a transaction still under way, a claim that was rolled back, or whoever had locked it, can leave a row below. Hence floors stay a
little behind the clock, and every half minute a look goes below them, beside the claims: down to the floors of a minute
before, now and then to the bottom.
"""

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from tocsin.domain.instant import MILLISECOND, SECOND, Instant, has_passed

_BEHIND: Final = 250 * MILLISECOND
_WIDE_BEHIND: Final = 5 * SECOND
_WIDE_EVERY: Final = SECOND
_NEW_BEHIND: Final = 60 * SECOND
_BOTTOM_EVERY: Final = 600 * SECOND
BOTTOM: Final[Instant] = 0


class Lane(NamedTuple):
    """One line of waiting executions."""

    queue: str
    priority: int
    tenant_id: int


class LaneView(NamedTuple):
    """A lane as the database showed it: its tenant's weight and limits, and when its next execution is due."""

    lane: Lane
    weight: int
    next_run_at: Instant
    in_flight: int | None = None
    fires_per_second: float | None = None
    crowded: bool = False
    """Whether more is due soon than can be claimed in the last moments."""


class Stretch(NamedTuple):
    """A part of a lane, without its end."""

    begin: Instant
    end: Instant


class Floors:
    """The floors of all lanes as one worker knows them."""

    def __init__(self) -> None:
        self._floors: dict[Lane, Instant] = {}
        self._earlier: dict[Lane, Instant] = {}
        self._earliest: dict[Lane, Instant] = {}
        self._stragglers: dict[Lane, Instant] = {}
        self._looked_at: Instant = 0
        self._widened_at: Instant = 0
        self._bottom_at: Instant = 0

    def of(self, lane: Lane, now: Instant) -> Instant:
        """Where to enter the lane's index."""
        floor = self._floors.get(lane)
        return BOTTOM if floor is None else min(floor, self._highest(now))

    def _highest(self, now: Instant) -> Instant:
        """No lane is entered higher than this."""
        # After a while without a look, what entered meanwhile may lie below where the clock is by now.
        seen_at = min(self._looked_at, now) if has_passed(_WIDE_BEHIND, self._looked_at, now) else now
        return seen_at - (_WIDE_BEHIND if has_passed(_WIDE_EVERY, self._widened_at, now) else _BEHIND)

    def raise_to(self, lane: Lane, run_at: Instant) -> None:
        """All that was ready below `run_at` has been seen."""
        self._floors[lane] = run_at

    def enter(self, now: Instant, lanes: Sequence[Lane]) -> list[Instant]:
        """Where a look at lanes enters them."""
        for lane, run_at in self._stragglers.items():
            self._floors[lane] = min(run_at, self._floors.get(lane, run_at))
        self._stragglers = {}
        highest, floors = self._highest(now), self._floors
        return [min(floors.get(lane, BOTTOM), highest) for lane in lanes]

    def looked(self, now: Instant, next_runs: Mapping[Lane, Instant]) -> None:
        """A look that began then has shown when each lane has its next. A lane that was not shown is empty, or held back:
        nobody has seen what entered it since the look before."""
        for lane, floor in self._floors.items():
            if lane not in next_runs:
                self._floors[lane] = min(floor, self._looked_at - _WIDE_BEHIND)
        self._floors |= next_runs
        self._looked_at = now
        if has_passed(_WIDE_EVERY, self._widened_at, now):
            self._widened_at = now

    def keep(self, lanes: Sequence[Lane]) -> None:
        """Forget lanes that are not among these: they were removed."""
        if len(self._floors) > len(lanes):
            kept = frozenset(lanes)
            self._floors = {lane: floor for lane, floor in self._floors.items() if lane in kept}

    def below(self, now: Instant) -> dict[Lane, Stretch]:
        """What a look below the floors has to cover.

        Those that begin at the bottom are counted when they begin: one that takes too long and is given up must not be
        all that is tried from then on.
        """
        begins, new = self._earliest, now - _NEW_BEHIND
        if has_passed(_BOTTOM_EVERY, self._bottom_at, now):
            self._bottom_at, begins, new = now, {}, BOTTOM
        return {lane: Stretch(begins.get(lane, new), self.of(lane, now)) for lane in self._floors}

    def looked_below(self, stretches: Mapping[Lane, Stretch], stragglers: Mapping[Lane, Instant]) -> None:
        """A look below has covered these, and found the first in some lanes. The next look at all lanes enters there: not
        the claims before it, for one that is under way would raise the floor again."""
        self._stragglers |= stragglers
        self._earliest, self._earlier = self._earlier, {lane: end for lane, (_, end) in stretches.items()}
