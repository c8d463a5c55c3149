"""What a change of a schedule does to the fires that are to come: which are gained, lost and moved.

A fire that both schedules have is kept. Of the others, a lost one and a gained one that lie next to each
other are one that moved, the closest first; a kept fire between two of them parts them. Pure.
"""

import heapq
from collections.abc import Sequence

import msgspec

from tocsin.domain.instant import Instant


class FiresChanged(msgspec.Struct, frozen=True):
    """Fires in the order of time; of those that moved, from where and to where."""

    gained: list[Instant]
    lost: list[Instant]
    moved: list[tuple[Instant, Instant]]
    kept: int


def fires_changed(before: Sequence[Instant], after: Sequence[Instant], until: Instant) -> FiresChanged:
    """Compare the fires of two schedules, each in order, before `until`. Fires beyond it are given so that
    one which moves across it is not taken for lost or gained."""
    old, new = set(before), set(after)
    moved: list[tuple[Instant, Instant]] = []
    alone: list[tuple[Instant, bool]] = []
    between: list[tuple[Instant, bool]] = []
    for at in sorted(old | new):
        if at in old and at in new:
            _pair(between, moved, alone)
            between = []
        else:
            between.append((at, at in new))
    _pair(between, moved, alone)
    return FiresChanged(
        sorted(at for at, is_new in alone if is_new and at < until),
        sorted(at for at, is_new in alone if not is_new and at < until),
        sorted(pair for pair in moved if min(pair) < until),
        sum(at < until for at in old & new),
    )


def _pair(
    fires: Sequence[tuple[Instant, bool]],
    moved: list[tuple[Instant, Instant]],
    alone: list[tuple[Instant, bool]],
) -> None:
    """Pair lost and gained fires that are neighbours, the closest first; paired ones are neighbours no
    longer."""
    left = [place - 1 for place in range(len(fires))]
    right = [place + 1 for place in range(len(fires))]
    waiting = [_distance(fires, place, place + 1) for place in range(len(fires) - 1)]
    heapq.heapify(waiting)
    paired: set[int] = set()
    while waiting:
        _, one, other = heapq.heappop(waiting)
        if one in paired or other in paired or fires[one][1] == fires[other][1]:
            continue
        paired |= {one, other}
        lost, gained = (other, one) if fires[one][1] else (one, other)
        moved.append((fires[lost][0], fires[gained][0]))
        before, after = left[one], right[other]
        if before >= 0:
            right[before] = after
        if after < len(fires):
            left[after] = before
        if before >= 0 and after < len(fires):
            heapq.heappush(waiting, _distance(fires, before, after))
    alone += [fire for place, fire in enumerate(fires) if place not in paired]


def _distance(fires: Sequence[tuple[Instant, bool]], one: int, other: int) -> tuple[Instant, int, int]:
    return fires[other][0] - fires[one][0], one, other
