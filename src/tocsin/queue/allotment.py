"""How a worker's free places are shared between lanes: deficit round-robin, as a pure function.

Strict priority comes first: a less urgent lane gets what the more urgent ones leave. Within a priority the
*tenants* share by their weights, and a tenant's lanes share what it gets, so that more queues do not make a
tenant heavier.

The lanes of a priority form a ring. In each round a lane earns a *deficit* in proportion to its weight, the
heaviest of the ring one execution, and takes as many as it has earned in full. `Deficits` remembers what a
lane has earned so far, and its order is the ring's: the next call goes on where this one stopped. Hence over
time shares follow the weights whatever the room is, also if there is room for one at a time, and no lane
waits longer than the rounds that earn it one.

A lane that is new in the ring comes first, with one execution: a quiet tenant's single execution does not
wait for a round of backlogs. An idle lane leaves the ring only when its turn comes, so a lane cannot be new
twice in a round. An idle lane earns nothing, and an allotment that a lane could not use up is no debt.

Lanes share *starts*, not time. A tenant whose calls take three times as long holds three times the places of
an equal one. Each worker has deficits of its own; a fleet's shares add up to the weights all the same.

Callers: `worker/places.py` for what is due, `worker/claimer.py` for what is claimed ahead, and
`worker/remote/sessions.py` for remote workers.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from math import ceil, floor
from types import MappingProxyType
from typing import Final, NamedTuple

from tocsin.queue.lanes import Lane, LaneView

Deficits = Mapping[Lane, float]
"""What each lane of a ring has earned and not taken, in executions; in the order in which they have their
turns."""
NO_DEFICITS: Final[Deficits] = MappingProxyType({})
_ROUNDING: Final = 1e-9


class Allotment(NamedTuple):
    """How many executions to take from a lane."""

    lane: Lane
    take: int


def allot(
    deficits: Deficits,
    views: Sequence[LaneView],
    room: int,
    caps: Mapping[int, int] = MappingProxyType({}),
) -> tuple[list[Allotment], Deficits]:
    """Share `room` between lanes that have something to take. Returns the allotments, and the deficits once
    they are taken.

    `caps` says how much some tenants may take at most, over all their lanes.
    """
    levels: dict[int, list[LaneView]] = {}
    for view in views:
        levels.setdefault(view.lane.priority, []).append(view)
    after: dict[Lane, float] = {}
    allotments: list[Allotment] = []
    spare = dict(caps)
    for priority in sorted(levels):
        remembered = {lane: owed for lane, owed in deficits.items() if lane.priority == priority}
        ring = _Ring(remembered, levels[priority], spare)
        taken = ring.take(room)
        room -= taken.total()
        allotments += [Allotment(lane, take) for lane, take in taken.items()]
        after |= ring.deficits
    return allotments, after


def put_back(deficits: Deficits, untaken: Mapping[Lane, int]) -> Deficits:
    """The deficits if these allotments have not been taken, though they could be: they are paid before the
    next turn."""
    return {
        **deficits,
        **{lane: deficits.get(lane, 0.0) + take for lane, take in untaken.items() if take > 0},
    }


class _Ring:
    """The lanes of one priority, in the order in which they have their turns. `spare` is what capped tenants
    may take."""

    def __init__(self, remembered: Deficits, level: Sequence[LaneView], spare: dict[int, int]) -> None:
        self._quanta = _quanta(level)
        self._spare = spare
        new = {lane: 1.0 - quantum for lane, quantum in self._quanta.items() if lane not in remembered}
        self._new = list(new)
        self.deficits: dict[Lane, float] = {**new, **remembered}

    def take(self, room: int) -> Counter[Lane]:
        """Share `room`: turns of new lanes, what is owed, whole rounds, then turns until there is no room."""
        taken: Counter[Lane] = Counter()
        self._serve_in_order(self._new, room, taken)
        if max(self.deficits.values()) >= 1:
            self._pay_owed(room - taken.total(), taken)
        if rounds := self._rounds_within(room - taken.total()):
            self._whole_rounds(rounds, taken)
        self._serve_in_order(list(self.deficits), room - taken.total(), taken)
        return taken

    def _pay_owed(self, room: int, taken: Counter[Lane]) -> None:
        """Lanes whose allotments were put back have had those turns: they get what they earned, and stay
        where they are."""
        for lane, owed in list(self.deficits.items()):
            if room <= 0:
                break
            if owed >= 1 and lane in self._quanta:
                room -= self._serve(lane, 0, room, taken)

    def _rounds_within(self, room: int) -> int:
        """The most whole rounds that do not take more than there is room for."""
        if room <= 0:
            return 0
        least = min(self._quanta.values())
        if least == 1 and not self._spare:
            return room // len(self._quanta)
        most = ceil((room + 1) / least)  # by then a lane without a cap would have had more than there is
        within, step = 0, 1
        while step:
            if within + step <= most and self._yield(within + step) <= room:
                within, step = within + step, step * 2
            else:
                step //= 2
        return within

    def _yield(self, rounds: int) -> int:
        """How many claims this number of rounds takes, counting what was earned before."""
        of_tenants: Counter[int] = Counter()
        total = 0
        for lane, quantum in self._quanta.items():
            earned = floor(self.deficits[lane] + rounds * quantum + _ROUNDING)
            if lane.tenant_id in self._spare:
                of_tenants[lane.tenant_id] += earned
            else:
                total += earned
        return total + sum(min(earned, self._spare[tenant]) for tenant, earned in of_tenants.items())

    def _whole_rounds(self, rounds: int, taken: Counter[Lane]) -> None:
        """The order stays as it is. Idle lanes have had their turn, and leave."""
        self.deficits = {lane: owed for lane, owed in self.deficits.items() if lane in self._quanta}
        for lane, quantum in self._quanta.items():
            self._serve(lane, rounds * quantum, None, taken)

    def _serve_in_order(self, lanes: Sequence[Lane], room: int, taken: Counter[Lane]) -> None:
        """These have their turns until there is no room; each goes to the end of the ring, an idle one leaves
        it."""
        for lane in lanes:
            if room <= 0:
                break
            if lane in self._quanta:
                room -= self._serve(lane, self._quanta[lane], room, taken)
            deficit = self.deficits.pop(lane)
            if lane in self._quanta:
                self.deficits[lane] = deficit

    def _serve(self, lane: Lane, earns: float, room: int | None, taken: Counter[Lane]) -> int:
        """Let a lane take what it has earned. What its tenant's cap keeps it from taking is forgotten."""
        deficit = self.deficits[lane] + earns
        earned = floor(deficit + _ROUNDING)
        take = earned if room is None else min(earned, room)
        if lane.tenant_id in self._spare:
            take = min(take, self._spare[lane.tenant_id])
            self._spare[lane.tenant_id] -= take
            deficit = min(deficit, take + (deficit + _ROUNDING) % 1)
        self.deficits[lane] = max(0.0, deficit - take)
        if take:
            taken[lane] += take
        return take


def _quanta(level: Sequence[LaneView]) -> dict[Lane, float]:
    """What lanes earn in a round: the heaviest one execution."""
    weights = {view.lane: float(view.weight) for view in level}
    lanes_of = Counter([lane.tenant_id for lane in weights])
    if len(lanes_of) < len(weights):
        weights = {lane: weight / lanes_of[lane.tenant_id] for lane, weight in weights.items()}
    heaviest = max(weights.values())
    if min(weights.values()) == heaviest:
        return dict.fromkeys(weights, 1.0)
    return {lane: weight / heaviest for lane, weight in weights.items()}
