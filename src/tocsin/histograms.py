"""Spans of time, counted by bin and by one label, as Prometheus wants them.

Fed in batches: a drain starts tens of thousands of executions a second, and the client's own histogram takes
a lock for each. Labels are names that users choose, so their number is bounded: what comes after the first
few is counted as `other`.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from prometheus_client.core import HistogramMetricFamily, Metric
from prometheus_client.registry import Collector

from tocsin.domain.instant import SECOND, Span

MOST_LABELS: Final = 16
OTHER: Final = "other"


class _Bins:
    __slots__ = ("counts", "sum")

    def __init__(self, number: int) -> None:
        self.counts = [0] * number
        self.sum = 0


class SpanHistogram(Collector):
    """One histogram per value of its label; a single one without a label."""

    def __init__(self, name: str, words: str, bounds: Sequence[Span], label: str | None = None) -> None:
        self._name, self._words, self._bounds, self._label = name, words, tuple(bounds), label
        self._bins: dict[str, _Bins] = {} if label else {"": self._empty()}

    def observe(self, spans: Iterable[Span], label: str = "") -> None:
        """Count spans, in microseconds. Many are sorted: that is quicker than to look for each one's bin."""
        bins, ordered = self._of(label), sorted(spans)
        bins.sum += sum(ordered)
        if len(ordered) < len(self._bounds):
            for span in ordered:
                bins.counts[bisect_left(self._bounds, span)] += 1
            return
        before = 0
        for place, bound in enumerate(self._bounds):
            within = bisect_right(ordered, bound, lo=before)
            bins.counts[place] += within - before
            before = within
        bins.counts[-1] += len(ordered) - before

    def add(self, counts: Iterable[int], total: Span, label: str = "") -> None:
        """Add what was counted elsewhere over the same bounds, and the sum of it."""
        bins = self._of(label)
        for place, count in enumerate(counts):
            bins.counts[place] += count
        bins.sum += total

    def collect(self) -> Iterator[Metric]:
        family = HistogramMetricFamily(self._name, self._words, labels=[self._label] if self._label else [])
        for value, bins in self._bins.items():
            total, buckets = 0, []
            for bound, count in zip((*self._bounds, None), bins.counts, strict=True):
                total += count
                buckets.append(("+Inf" if bound is None else repr(bound / SECOND), total))
            family.add_metric([value] if self._label else [], buckets, bins.sum / SECOND)
        yield family

    def _of(self, label: str) -> _Bins:
        found = self._bins.get(label)
        if found is None:
            if len(self._bins) >= MOST_LABELS:
                return self._bins.setdefault(OTHER, self._empty())
            found = self._bins[label] = self._empty()
        return found

    def _empty(self) -> _Bins:
        return _Bins(len(self._bounds) + 1)
