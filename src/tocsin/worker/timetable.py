"""Claims that wait in memory for their instant, `exact` ones for a moment before it.

What enters: executions claimed up to a couple of seconds ahead. What leaves: those whose run time has come, to
be started; and everything at once when the worker drains. What may be lost: nothing. The timetable is a copy;
if the process dies, the claims in the database pass their deadline and are given to others.
"""

import heapq
from collections.abc import Iterator, Sequence
from functools import lru_cache

import msgspec

from tocsin.domain.instant import Instant
from tocsin.domain.policy import Policies, Precision
from tocsin.queue.claims import Claim
from tocsin.worker.alarm import ARMED_BEFORE


class Timetable:
    """A heap of claims by run time."""

    def __init__(self) -> None:
        self._heap: list[tuple[Instant, int, Claim]] = []
        self._order = 0

    def __len__(self) -> int:
        return len(self._heap)

    def __iter__(self) -> Iterator[Claim]:
        return (claim for _, _, claim in self._heap)

    def add(self, claims: Sequence[Claim]) -> bool:
        """Hold claims. True if the next instant is now an earlier one."""
        before = self.next_at()
        for claim in claims:
            self._order += 1  # ties keep their order and never compare claims
            start_at = claim.run_at - ARMED_BEFORE if is_exact(claim.policies) else claim.run_at
            heapq.heappush(self._heap, (start_at, self._order, claim))
        after = self.next_at()
        return after is not None and (before is None or after < before)

    def next_at(self) -> Instant | None:
        """When the next claim is to be started."""
        return self._heap[0][0] if self._heap else None

    def pop_due(self, now: Instant, limit: int) -> list[Claim]:
        """Take out at most `limit` claims whose time has come."""
        due: list[Claim] = []
        while self._heap and self._heap[0][0] <= now and len(due) < limit:
            due.append(heapq.heappop(self._heap)[2])
        return due

    def pop_all(self) -> list[Claim]:
        """Take everything out."""
        claims = list(self)
        self._heap.clear()
        return claims


@lru_cache(maxsize=8192)
def is_exact(policies: str | None) -> bool:
    """Whether a job's policies ask for an exact instant."""
    return policies is not None and _precision(policies) is Precision.EXACT


def _precision(policies: str) -> Precision:
    return msgspec.json.decode(policies, type=Policies).precision
