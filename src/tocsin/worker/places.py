"""Which executions get a worker's free places when fewer places are free than executions are due.

Two parts fill places: the starter with claims from the timetable, the claimer with due executions from the
queue. Both ask here, and each takes its own part of one allotment over the lanes of both. So a place goes by
priority, then by tenants' weights, whether or not an execution was claimed ahead. A tenant whose crowd was
claimed ahead cannot keep other tenants from their places.

If an allotment gives places to the other part's lanes, those lanes stay owed them.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from tocsin.queue.allotment import NO_DEFICITS, Allotment, allot, put_back
from tocsin.queue.lanes import Lane, LaneView
from tocsin.signals import Signal

_USUAL_WEIGHT: Final = 1


class Places:
    """The places of one worker: which calls have them, and what its lanes are owed of them. A place is room
    for one call."""

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self._deficits = NO_DEFICITS
        self._weights: Mapping[int, int] = {}
        self.running = 0
        """Places of calls under way. The runner keeps count."""
        self.armed = 0
        """Places of calls that wait for their instant (`Armed`)."""
        self.left = Signal("places_left")
        """Sent when the starter leaves places to what is queued."""
        self.blocked = False
        """Whether the claimer found work but no room for it."""
        self.claiming = 0
        """Places that a claim under way may fill, where they are short."""
        self.starting = 0
        """Places that a start under way may fill."""
        self.queued: Sequence[LaneView] = ()
        """Lanes from which the claimer would take more if it had places."""

    @property
    def unused(self) -> int:
        """How many more calls may begin."""
        return self.capacity - self.running - self.armed

    @property
    def free(self) -> int:
        """How many more executions may be asked for."""
        return self.unused - self.claiming - self.starting

    def learn(self, weights: Mapping[int, int]) -> None:
        """A look at the queue tells what tenants weigh, also those of which everything is claimed."""
        self._weights = weights

    def for_queued(
        self, views: Sequence[LaneView], room: int, caps: Mapping[int, int], claimed: Mapping[Lane, int]
    ) -> list[Allotment]:
        """What the claimer may take of lanes with something due, beside what is `claimed` and due as well."""
        free = self.free
        waiting = sum(claimed.values())
        if free >= waiting + room:
            allotments, self._deficits = allot(self._deficits, views, room, caps)
            return allotments
        caps = {tenant: cap + _claimed_of(tenant, claimed) for tenant, cap in caps.items()}
        allotments, after = allot(self._deficits, self._union(views, claimed), min(room, free), caps)
        theirs = {lane: min(take, claimed.get(lane, 0)) for lane, take in allotments}
        self._deficits = put_back(after, theirs)
        mine = [Allotment(lane, take - theirs[lane]) for lane, take in allotments if take > theirs[lane]]
        self.claiming = sum(allotment.take for allotment in mine)
        return mine

    def unserved(self, lanes: Iterable[Lane]) -> None:
        """Another worker was quicker, and a claim found nothing in these lanes. They have not had their
        turn."""
        self._deficits = put_back(self._deficits, dict.fromkeys(lanes, 1))

    def for_claimed(self, claimed: Mapping[Lane, int], room: int) -> Mapping[Lane, int]:
        """What the starter may take of the lanes of claims in the timetable, beside what is queued."""
        queued = {view.lane for view in self.queued}
        left, taken, owed = Counter(claimed), Counter[Lane](), Counter[Lane]()
        while room > 0 and left:
            allotments, self._deficits = allot(self._deficits, self._union(self.queued, left), room)
            room = 0
            for lane, take in allotments:
                mine = min(take, left[lane])
                taken[lane] += mine
                left[lane] -= mine
                if lane in queued:
                    owed[lane] += take - mine
                else:
                    room += take - mine  # the timetable has no more of it, so others may have them
            left = +left
        self._deficits = put_back(self._deficits, owed)
        return +taken

    def urgent(self, claimed: Mapping[Lane, int]) -> bool:
        """Whether something queued is more urgent than all that is claimed."""
        queued = min((view.lane.priority for view in self.queued), default=None)
        return queued is not None and all(lane.priority > queued for lane in claimed)

    def _union(self, views: Sequence[LaneView], claimed: Mapping[Lane, int]) -> list[LaneView]:
        known = {view.lane for view in views}
        return [
            *views,
            *(
                LaneView(lane, self._weights.get(lane.tenant_id, _USUAL_WEIGHT), 0)
                for lane in claimed
                if lane not in known
            ),
        ]


def _claimed_of(tenant: int, claimed: Mapping[Lane, int]) -> int:
    return sum(count for lane, count in claimed.items() if lane.tenant_id == tenant)
