"""The lanes that one worker knows, and what a look at them has shown.

The worker tells the database which lanes to probe. So a look costs one probe per lane that it serves, however many there are,
and one more look-up for lanes that are new: those of transactions that were not over at the look before. Lanes that were
removed are known, and probed in vain, until everything is read again, every ten minutes.

A lane is a tuple, and its columns are lists of one component each: another component is one list more.
"""

from collections.abc import Iterable, Mapping
from typing import Any, Final

from tocsin.domain.instant import SECOND, Instant, has_passed
from tocsin.queue.lanes import Lane, LaneView

_ALL: Final = "0"
_ALL_EVERY: Final = 600 * SECOND
_USUAL: Final = (1, None, None)


class Directory:
    """Lanes in the order in which the database is asked for them."""

    def __init__(self, queues: Iterable[str] = ()) -> None:
        """`queues` are those that the worker serves; none named means all."""
        self._queues = frozenset(queues)
        self._known: frozenset[Lane] = frozenset()
        self._read_at: Instant | None = None
        self.lanes: list[Lane] = []
        self.columns: tuple[list[Any], ...] = ([], [], [])
        self.new_from = _ALL
        """The transaction from which on lanes may be new."""
        self.weights: dict[int, int] = {}
        """What tenants weigh, also those with nothing queued, if it is not what most do."""

    def read_all(self, now: Instant) -> None:
        """Have the next look read everything again if the last time is long ago."""
        if self._read_at is None or has_passed(_ALL_EVERY, self._read_at, now):
            self._read_at = now
            self.new_from = _ALL

    def learn(self, answer: Mapping[str, Any]) -> bool:
        """Take in new lanes, or all. Whether that changes what is to be probed: then the answer is of no more use."""
        whole = self.new_from == _ALL
        self.new_from = answer["new_from"]
        read = map(Lane, answer["new_queues"], answer["new_priorities"], answer["new_tenants"])
        served = [lane for lane in read if not self._queues or lane.queue in self._queues]
        unknown = [lane for lane in served if lane not in self._known]
        if not unknown and not (whole and len(served) < len(self.lanes)):
            return False
        self._set(served if whole else [*self.lanes, *unknown])
        return True

    def views(self, answer: Mapping[str, Any]) -> tuple[dict[Lane, Instant], list[LaneView]]:
        """When lanes have their next execution; and those of them that may be served now."""
        next_runs = {
            self.lanes[place - 1]: run_at
            for place, run_at in zip(answer["places"], answer["next_runs"], strict=True)
        }
        crowded = {self.lanes[place - 1] for place in answer["crowded"]}
        suspended = frozenset(answer["suspended"])
        paused = frozenset(zip(answer["paused_tenants"], answer["paused_queues"], strict=True))
        numbers = zip(answer["weights"], answer["in_flight"], answer["fires_per_second"], strict=True)
        unusual = dict(zip(answer["unusual"], numbers, strict=True))
        self.weights = {tenant: weight for tenant, (weight, _, _) in unusual.items() if weight != 1}
        views = []
        for lane, run_at in next_runs.items():
            tenant = lane.tenant_id
            if tenant in suspended or (paused and (tenant, lane.queue) in paused):
                continue
            weight, in_flight, fires = unusual.get(tenant, _USUAL)
            views.append(LaneView(lane, weight, run_at, in_flight, fires, lane in crowded))
        return next_runs, views

    def _set(self, lanes: list[Lane]) -> None:
        self.lanes = lanes
        self._known = frozenset(lanes)
        self.columns = tuple(map(list, zip(*lanes, strict=True))) or ([], [], [])
