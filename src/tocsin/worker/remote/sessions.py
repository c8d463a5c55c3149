"""Remote workers as one gateway knows them.

A session is a worker's registration, read from the database when the worker first calls here, and what this
process remembers of it: the request that is parked, the last answer in case it has to be repeated, what
should stop. All of it may be lost with the process; the worker goes on with another gateway.
"""

import asyncio
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from tocsin.domain.ids import execution_text
from tocsin.domain.instant import Instant, Span
from tocsin.domain.protocol import Given, Stop
from tocsin.domain.task_target import task_route
from tocsin.queue.allotment import NO_DEFICITS, Allotment, allot, put_back
from tocsin.queue.claiming.claiming import Claiming
from tocsin.queue.claims import Claim
from tocsin.queue.lanes import Lane, LaneView
from tocsin.store.workers import LEASES_UNTIL_GONE, Seen
from tocsin.worker.remote.served_lanes import Wanted
from tocsin.worker.unanswered import UnansweredClaims


class Parked:
    """A request for work that waits for an answer, at most until an instant."""

    def __init__(self, session: "Session", want: int, until: Instant) -> None:
        self.session = session
        self.want = want
        self.until = until
        self.taking = False
        """Whether a claim for it is under way."""
        self.given: asyncio.Future[list[Claim]] = asyncio.get_running_loop().create_future()

    def give(self, claims: list[Claim]) -> bool:
        """Answer it. Whether it was still waiting."""
        if self.given.done():
            return False
        self.given.set_result(claims)
        return True


class Session:
    """One remote worker."""

    def __init__(self, row: Mapping[str, Any], claiming: Claiming) -> None:
        self.worker_id: int = row["id"]
        self.tenant_id: int = row["tenant_id"]
        self.lease: Span = row["lease"]
        self.capacity: int = row["capacity"]
        self.draining: bool = row["state"] == "draining"
        self.running: int = row["running"]
        self.seen_at: Instant = row["seen_at"]
        self.noted_at: Instant = row["seen_at"]
        self.wanted = frozenset(
            Wanted(self.tenant_id, queue, task_route(task))
            for queue in row["queues"]
            for task in row["tasks"]
        )
        self.claiming = claiming
        self.unanswered = UnansweredClaims(claiming)
        self.parked: Parked | None = None
        self.answering: tuple[int, asyncio.Task[Given]] | None = None
        self.stops: dict[str, str] = {}
        """Executions that should stop and of which the worker was not told yet, with the reason."""
        self._deficits = NO_DEFICITS

    def serves(self, lane: Lane) -> bool:
        """Whether the worker can run what waits in a lane."""
        return Wanted(lane.tenant_id, lane.queue, lane.route) in self.wanted

    def allot(self, views: Sequence[LaneView], room: int, caps: Mapping[int, int]) -> list[Allotment]:
        """What to take of the lanes that the worker serves."""
        own = [view for view in views if self.serves(view.lane)]
        if not own or room <= 0:
            return []
        allotments, self._deficits = allot(self._deficits, own, room, caps)
        return allotments

    def untaken(self, lanes: Iterable[Lane]) -> None:
        """A claim found nothing in these lanes: they have not had their turn."""
        self._deficits = put_back(self._deficits, dict.fromkeys(lanes, 1))

    def stop(self, claim: Claim, reason: str) -> None:
        """Let the worker know that an attempt should end; a parked request is answered at once."""
        self.stops.setdefault(execution_text(claim.key), reason)
        self.wake()

    def take_stops(self) -> list[Stop]:
        """What the worker is told to stop now."""
        stops, self.stops = self.stops, {}
        return [Stop(execution, reason) for execution, reason in stops.items()]

    def wake(self) -> None:
        """Answer a parked request with nothing, unless a claim for it is under way: that answers it."""
        if self.parked is not None and not self.parked.taking:
            self.parked.give([])

    def gone(self, now: Instant) -> bool:
        """Whether the worker was not heard of here for so long that it need not be remembered."""
        return now - self.seen_at > LEASES_UNTIL_GONE * self.lease


class Sessions:
    """The workers that called at this gateway lately."""

    def __init__(self) -> None:
        self._by_id: dict[int, Session] = {}

    def __iter__(self) -> Iterator[Session]:
        return iter(list(self._by_id.values()))

    def __len__(self) -> int:
        return len(self._by_id)

    def get(self, worker_id: int) -> Session | None:
        """A worker that is known here."""
        return self._by_id.get(worker_id)

    def add(self, session: Session) -> Session:
        """A worker has called for the first time. Of several calls at once the first one's session stands: a
        request parked in any other would never be answered."""
        return self._by_id.setdefault(session.worker_id, session)

    def forget(self, worker_id: int) -> None:
        """A worker is gone."""
        self._by_id.pop(worker_id, None)

    def waiting(self) -> list[Parked]:
        """Requests that wait for work, those of the least loaded workers first."""
        parked = [one.parked for one in self if one.parked is not None and not one.parked.given.done()]
        return sorted(parked, key=lambda one: one.session.running / one.session.capacity)

    def take_unnoted(self) -> list[Seen]:
        """Workers that were heard of since the last time this was asked."""
        heard = [one for one in self if one.seen_at > one.noted_at]
        for one in heard:
            one.noted_at = one.seen_at
        return [Seen(one.worker_id, one.seen_at, one.running) for one in heard]
