"""A time zone as stretches of constant offset, in whole seconds.

Inside a stretch the wall clock is just ``UTC + offset``, so code can reckon with wall times in integers and
needs zoneinfo only to learn where stretches begin and end. Borders are found by bisection and kept in blocks
of about a year; a bounded number of blocks is remembered.

Invariants: the stretches of a zone tile the time line without holes or overlaps; an offset only changes at a
border (but not every border is a change, a block ends somewhere too). What a change did to the wall clock is
told by `reached`, its furthest reading before the stretch began:

- ``reached == wall_start``: nothing, the clock ran on;
- ``reached < wall_start``: a gap, the readings from `reached` up to `wall_start` never came;
- ``reached > wall_start``: an overlap, the readings from `wall_start` up to `reached` come again.
"""

from bisect import bisect_left
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from itertools import pairwise
from typing import Final, NamedTuple
from zoneinfo import ZoneInfo

_BLOCK_BITS: Final = 25  # a block is 2**25 seconds, 388 days
_DAY: Final = 86_400
# The shortest time a zone kept an offset is 4 days (Freetown, 1939); since 1970 it is 7 (Recife, Gaza).
_PROBE_STEP: Final = 3 * _DAY
# Clocks never went back by more than a day (Alaska 1867, Samoa 1892), so older readings cannot come again.
_LOOK_BACK: Final = 2 * _DAY
_CORRECTION: Final = 3 * 3600
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_ONE_SECOND: Final = timedelta(seconds=1)


class Stretch(NamedTuple):
    """UTC seconds `start` up to `end`, in which the wall clock reads ``UTC + offset``."""

    start: int
    end: int
    offset: int
    reached: int

    @property
    def wall_start(self) -> int:
        """The first reading of the wall clock."""
        return self.start + self.offset

    @property
    def corrects(self) -> bool:
        """Whether the change that it begins with is too large for summer time: a zone left its day, or its
        camp moved."""
        return abs(self.wall_start - self.reached) >= _CORRECTION

    @property
    def wall_end(self) -> int:
        """The reading that the wall clock does not come to any more."""
        return self.end + self.offset


def stretch_at(zone: ZoneInfo, second: int) -> Stretch:
    """The stretch that holds a UTC second."""
    block = _block(zone, second >> _BLOCK_BITS)
    for stretch in block:
        if second < stretch.end:
            return stretch
    return block[-1]


@lru_cache(maxsize=4096)
def _block(zone: ZoneInfo, number: int) -> tuple[Stretch, ...]:
    """The stretches of one block, cut at its borders. Looking back tells what the clock had reached
    before."""
    begin = number << _BLOCK_BITS
    end = begin + (1 << _BLOCK_BITS)
    before, inside = _changes(zone, begin - _LOOK_BACK, begin), _changes(zone, begin, end)
    reached = begin - _LOOK_BACK + before[0][1]
    stretches = []
    for (start, offset), (stop, _) in pairwise([*before, *inside, (end, 0)]):
        if start >= begin:
            stretches.append(Stretch(start, stop, offset, reached))
        reached = max(reached, stop + offset)
    return tuple(stretches)


def _changes(zone: ZoneInfo, begin: int, end: int) -> list[tuple[int, int]]:
    """Where an offset begins to hold and which: the one at `begin`, then each change before `end`."""
    offset = _offset(zone, begin)
    found = [(begin, offset)]
    for low, high in pairwise([*range(begin, end - 1, _PROBE_STEP), end - 1]):
        after = _offset(zone, high)
        if after != offset:
            found.append((_border(zone, low, high, after), after))
            offset = after
    return found


def _border(zone: ZoneInfo, low: int, high: int, after: int) -> int:
    """The first second after `low` with the offset that holds at `high`: a row of False, then of True."""
    return low + bisect_left(range(low, high), 1, key=lambda second: _offset(zone, second) == after)


def _offset(zone: ZoneInfo, second: int) -> int:
    reading = datetime.fromtimestamp(second, zone).replace(tzinfo=UTC)
    return (reading - _EPOCH) // _ONE_SECOND - second
