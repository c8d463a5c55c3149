"""Numbers of what ended: how many, how late they started, how long they ran.

Lateness and run time are kept as histograms over fixed bounds, because histograms of nodes, minutes and
queues can be added up and percentiles cannot. A percentile is read off between two bounds, as if what lies
between them were spread evenly.
"""

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from typing import Final

from tocsin.domain.instant import MILLISECOND, SECOND, Span

BOUNDS_MS: Final = (
    1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10_000, 30_000, 60_000, 300_000, 3_600_000,
)  # fmt: skip
"""Upper bounds, included; one more bin is for what lies above all of them."""
BINS: Final = len(BOUNDS_MS) + 1
STEPS: Final[tuple[Span, ...]] = (10 * SECOND, 60 * SECOND, 3600 * SECOND)
FLEET_STEP, TENANT_STEP, LONG_STEP = STEPS
FLEET: Final = 0
"""The tenant id under which the whole fleet is counted."""
_BOUNDS: Final = tuple(ms * MILLISECOND for ms in BOUNDS_MS)


def histogram(spans: list[Span]) -> list[int]:
    """How many spans fall into each bin. Sorts the list: that is quicker than to look for each one's bin."""
    spans.sort()
    counts, before = [], 0
    for bound in _BOUNDS:
        below = bisect_right(spans, bound, lo=before)
        counts.append(below - before)
        before = below
    counts.append(len(spans) - before)
    return counts


def added(one: Sequence[int], other: Sequence[int]) -> list[int]:
    """Two histograms as one; either may lack zeros at its end."""
    longer, shorter = (one, other) if len(one) >= len(other) else (other, one)
    return [*(a + b for a, b in zip(longer, shorter, strict=False)), *longer[len(shorter) :]]


def trimmed(counts: Sequence[int]) -> list[int]:
    """Without the zeros at the end."""
    end = len(counts)
    while end and not counts[end - 1]:
        end -= 1
    return list(counts[:end])


def percentile_ms(counts: Sequence[int], share: float) -> float | None:
    """Below which so large a share lies, in milliseconds; None of nothing. Of what lies above all bounds only
    that is known."""
    rank, below = share * sum(counts), 0
    if not rank:
        return None
    for place, count in enumerate(counts[: len(BOUNDS_MS)]):
        if count and below + count >= rank:
            floor = BOUNDS_MS[place - 1] if place else 0
            return floor + (BOUNDS_MS[place] - floor) * (rank - below) / count
        below += count
    return float(BOUNDS_MS[-1])


def within(counts: Iterable[int], bound_ms: int) -> int:
    """How many lie within one of the bounds."""
    return sum(count for count, bound in zip(counts, BOUNDS_MS, strict=False) if bound <= bound_ms)
