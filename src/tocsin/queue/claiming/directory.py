"""The lanes that one worker knows and serves, and what a look at them has shown.

The worker tells the database which lanes to probe. So a look costs one probe per lane that the worker serves,
however many lanes there are, and one more look-up for lanes that are new: those of transactions that were not
over at the look before. Lanes that were removed stay known, and are probed without effect, until everything
is read again, every ten minutes.
"""

from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby
from typing import Any, Final

from tocsin.db.rows import arrays
from tocsin.domain.instant import SECOND, Instant, has_passed
from tocsin.queue.lanes import Lane, LaneView

_FROM_THE_FIRST: Final = "0"
_ALL_EVERY: Final = 600 * SECOND
_USUAL_TENANT: Final = (1, None, None)


class Directory:
    """Lanes in the order in which the database is asked for them."""

    def __init__(
        self, routes: Iterable[str], queues: Iterable[str] = (), owners: Mapping[str, int] | None = None
    ) -> None:
        """What the worker serves: these routes in these queues; none named means all queues. Routes with an
        owner are served for that tenant alone."""
        self._owners = owners or {}
        self._routes = frozenset(routes)
        self._queues = frozenset(queues)
        self._known: frozenset[Lane] = frozenset()
        self._read_at: Instant | None = None
        self.lanes: list[Lane] = []
        self.columns = grouped([])
        self.new_from = _FROM_THE_FIRST
        """The transaction from which on lanes may be new."""
        self.weights: dict[int, int] = {}
        """What tenants weigh, also those with nothing queued, if it is not what most do."""

    @property
    def reads_all(self) -> bool:
        """Whether the next answer has all lanes, not only new ones."""
        return self.new_from == _FROM_THE_FIRST

    def read_all(self, now: Instant) -> None:
        """Have the next look read everything again if the last time is long ago."""
        if self._read_at is None or has_passed(_ALL_EVERY, self._read_at, now):
            self._read_at = now
            self.new_from = _FROM_THE_FIRST

    def learn(self, answer: Mapping[str, Any]) -> bool:
        """Take in new lanes, or all. Whether that changes what is to be probed: then the answer is of no more
        use."""
        whole = self.reads_all
        self.new_from = answer["new_from"]
        names = ("new_queues", "new_priorities", "new_tenants", "new_routes")
        served = [lane for lane in map(Lane, *(answer[name] for name in names)) if self.serves(lane)]
        unknown = [lane for lane in served if lane not in self._known]
        if not unknown and not (whole and len(served) < len(self.lanes)):
            return False
        self._set(served if whole else [*self.lanes, *unknown])
        return True

    def serves(self, lane: Lane) -> bool:
        """Whether this worker can run what waits in a lane, and is there for its queue."""
        return (
            lane.route in self._routes
            and (not self._queues or lane.queue in self._queues)
            and self._owners.get(lane.route, lane.tenant_id) == lane.tenant_id
        )

    def views(self, answer: Mapping[str, Any]) -> tuple[dict[Lane, Instant], list[LaneView]]:
        """When lanes have their next execution; and those of them that may be served now."""
        shown = [self.lanes[place - 1] for place in answer["places"]]
        next_runs = dict(zip(shown, answer["next_runs"], strict=True))
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
            weight, in_flight, fires = unusual.get(tenant, _USUAL_TENANT)
            views.append(LaneView(lane, weight, run_at, in_flight, fires, lane in crowded))
        return next_runs, views

    def _set(self, lanes: list[Lane]) -> None:
        """Lanes are in the order of the index, so that a probe finds in memory what the one before it read.
        Those of a group share their strings: with strings of their own, twenty thousand lanes take a look
        twice as long here."""
        self.lanes = [
            Lane(queue, priority, lane.tenant_id, route)
            for (queue, priority, route), some in groupby(sorted(lanes, key=_place), key=_group)
            for lane in some
        ]
        self._known = frozenset(self.lanes)
        self.columns = grouped(self.lanes)


def grouped(lanes: Sequence[Lane]) -> dict[str, list[Any]]:
    """Lanes in order as parameters: their tenants, and what they have in common, with its first and last
    place from 1 on."""
    columns: dict[str, list[Any]] = {
        "queues": [], "priorities": [], "routes": [], "firsts": [], "lasts": [],
        "tenant_ids": [lane.tenant_id for lane in lanes],
    }  # fmt: skip
    last = 0
    for (queue, priority, route), some in groupby(lanes, key=_group):
        first, last = last + 1, last + sum(1 for _ in some)
        for name, value in zip(columns, (queue, priority, route, first, last), strict=False):
            columns[name].append(value)
    return columns


def _group(lane: Lane) -> tuple[str, int, str]:
    return lane.queue, lane.priority, lane.route


def _place(lane: Lane) -> tuple[str, int, str, int]:
    return *_group(lane), lane.tenant_id


def lane_columns(lanes: Sequence[Lane]) -> dict[str, list[Any]]:
    """The parameters that name lanes in a statement."""
    return arrays(("queues", "priorities", "tenant_ids", "routes"), lanes)
