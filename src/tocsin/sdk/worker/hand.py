"""What a worker has in hand: the attempts that it runs, those that wait for a place, and the outcomes that it
has not told yet.

Threads of the worker meet here: one takes attempts on, runners end them, two tell what became of them. An
attempt is in hand from its claim until it ended, was given up, or went back; its outcome until the server has
heard of it.

A worker with quick tasks claims ahead: as many more as its places can run in `_AHEAD` seconds, by the mean of
what ran lately. Otherwise each batch would wait for the way to the server and back: with ten places a no-op
was drained at 315/s, ahead at 2,550/s (two shared cores). An attempt that waits longer than `WAITS_AT_MOST`
because a slow task came between goes back, for other workers to run.
"""

import threading
from collections import deque
from collections.abc import Callable
from time import monotonic
from typing import Final

from tocsin.domain.protocol import MAX_HELD, TaskSettlement
from tocsin.sdk.worker.attempt import Attempt

WAITS_AT_MOST: Final = 1.0
"""Seconds that a claimed attempt waits for a place before it goes back; well below the shortest lease, within
which the protocol wants it started."""
BATCH_BYTES: Final = 4 * 1024 * 1024
"""About how much one request carries."""
_AHEAD: Final = 0.05
_WEIGHT: Final = 0.1
"""Of the latest attempt in the mean."""
_SHORTEST: Final = 1e-4
_SLOW: Final = 1.0
_GATHER: Final = 0.01


class Hand:
    """Attempts and outcomes, under one lock. Each kind of waiter has a condition of its own: an attempt that
    ends wakes no thread that has nothing to do."""

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self.draining = False
        self.running = 0
        """How many have a place."""
        lock = threading.Lock()
        self._room = threading.Condition(lock)
        self._news = threading.Condition(lock)
        self._quiet = threading.Condition(lock)
        self._changed = lock
        self._held: dict[str, Attempt] = {}
        self._line: deque[Attempt] = deque()
        self._outcomes: deque[TaskSettlement] = deque()
        self._being_told = 0
        self._enough = 1
        self._mean = _SLOW
        self._asking = False
        self._over = False

    def attempts(self) -> list[Attempt]:
        """What is held, as it is now."""
        with self._changed:
            return list(self._held.values())

    def find(self, execution: str) -> Attempt | None:
        """The attempt of an execution, if it is held."""
        return self._held.get(execution)

    def hold(self, attempt: Attempt) -> Attempt | None:
        """Take an attempt on: it stands in line. Returns an earlier one of the same execution, which has lost
        it."""
        with self._changed:
            before = self._held.get(attempt.claim.id)
            self._held[attempt.claim.id] = attempt
            self._line.append(attempt)
            return before

    def admit(self) -> list[Attempt]:
        """Give places to those that stand in line, as far as there are any."""
        with self._changed:
            return self._admit()

    def take(self, attempt: Attempt) -> bool:
        """A runner is about to call an attempt's function. False: it went back, and must not run here."""
        with self._changed:
            attempt.taken = not attempt.given_up
            return attempt.taken

    def end(self, attempt: Attempt, settlement: TaskSettlement) -> list[Attempt]:
        """An attempt is over. One that was given up before, or belongs to another worker by now, is not told.
        Returns those that have a place now."""
        with self._changed:
            if self._held.get(attempt.claim.id) is attempt:
                del self._held[attempt.claim.id]
            self._leave(attempt)
            if not attempt.given_up and not attempt.lost:
                self._outcomes.append(attempt.settled(settlement))
                if self._asking or self.draining:
                    self._news.notify()
            if self._free() >= self._enough or self.running == 0:
                self._room.notify()
            if not self._held:
                self._quiet.notify_all()
            return self._admit()

    def take_unbegun(self, waiting_for: float = 0.0) -> list[Attempt]:
        """Let go of attempts that have waited for a place for this many seconds; without a number, of all
        that were not begun. An attempt that has a place may wait for a child process: sent back, it would be
        claimed again at once."""
        since = monotonic() - waiting_for
        with self._changed:
            unbegun = [
                one
                for one in self._held.values()
                if not one.taken and one.came <= since and not (waiting_for and one.admitted)
            ]
            for attempt in unbegun:
                attempt.given_up = True
                del self._held[attempt.claim.id]
            if unbegun:
                self._line = deque(one for one in self._line if not one.given_up)
                for attempt in unbegun:
                    self._leave(attempt)
                self._mean = _SLOW  # it claims ahead again once tasks have been quick for a while
                self._room.notify()
            if not self._held:
                self._quiet.notify_all()
            return unbegun

    def tell(self, outcome: TaskSettlement) -> None:
        """Have one more outcome told."""
        with self._changed:
            self._outcomes.append(outcome)
            self._news.notify()

    def take_back(self, outcomes: list[TaskSettlement]) -> None:
        """Outcomes that could not be told: they are told first next time."""
        with self._changed:
            self._outcomes.extendleft(reversed(outcomes))
            self._being_told -= len(outcomes)
            self._news.notify()

    def told(self, number: int) -> None:
        """The server has heard this many of the outcomes that were taken."""
        with self._changed:
            self._being_told -= number
            self._quiet.notify_all()

    def take_outcomes(self, most: int) -> list[TaskSettlement]:
        """What has ended, as much as fits a request."""
        taken: list[TaskSettlement] = []
        size = 0
        with self._changed:
            while self._outcomes and len(taken) < most and size < BATCH_BYTES:
                taken.append(self._outcomes.popleft())
                size += _size_of(taken[-1])
            self._being_told += len(taken)
        return taken

    def wait_for_place(self, most: int) -> int:
        """How many more to claim, once there is room for some; 0: take no more. A request is worth more than
        one: while fewer than a quarter are free, those that end within a moment are waited for."""
        until = None
        with self._changed:
            while not self.draining:
                free = self._free()
                self._enough = max(1, self._wanted() // 4)
                if free >= self._enough or (until is not None and free > 0 and monotonic() >= until):
                    return min(free, most)
                if free > 0 and until is None:
                    until = monotonic() + _GATHER
                self._room.wait(1 if free <= 0 else _GATHER)
        return 0

    def wait_for_outcomes(self) -> None:
        """Until there are some that no claim takes along, or all is over."""
        with self._changed:
            while not self._over and not (self._outcomes and (self._asking or self.draining)):
                self._news.wait(1)

    def wait_until_empty(self, patience: Callable[[], float]) -> None:
        """Until nothing is held, or for `patience` seconds, which may become fewer meanwhile."""
        self._wait(patience, lambda: not self._held)

    def wait_until_told(self, patience: Callable[[], float]) -> None:
        """Until every outcome was heard, or as long."""
        self._wait(patience, lambda: not self._outcomes and not self._being_told)

    def asks(self, *, asking: bool) -> None:
        """Whether a claim is under way: it takes no more outcomes along."""
        with self._changed:
            self._asking = asking
            if self._outcomes:
                self._news.notify()

    def drain(self) -> None:
        """Take no more on."""
        with self._changed:
            self.draining = True
            self._room.notify_all()
            self._news.notify_all()

    def finish(self) -> None:
        """End all waits."""
        with self._changed:
            self._over = True
            self._news.notify_all()

    def _wanted(self) -> int:
        """How many to hold: one for each place, and those that places come to in a moment."""
        ahead = int(self.capacity * _AHEAD / max(self._mean, _SHORTEST))
        return min(self.capacity + ahead, MAX_HELD)

    def _free(self) -> int:
        return self._wanted() - len(self._held)

    def _admit(self) -> list[Attempt]:
        admitted: list[Attempt] = []
        while self._line and self.running < self.capacity and not self.draining:  # else they go back
            attempt = self._line.popleft()
            attempt.admitted = True
            self.running += 1
            admitted.append(attempt)
        return admitted

    def _leave(self, attempt: Attempt) -> None:
        """An attempt gives its place up, once."""
        if attempt.admitted:
            attempt.admitted = False
            self.running -= 1
            if attempt.began is not None:
                self._mean += _WEIGHT * (monotonic() - attempt.began - self._mean)
        elif not attempt.taken and attempt in self._line:
            self._line.remove(attempt)

    def _wait(self, patience: Callable[[], float], over: Callable[[], bool]) -> None:
        began = monotonic()
        with self._changed:
            while not over() and (left := began + patience() - monotonic()) > 0:
                self._quiet.wait(min(left, 0.5))


def _size_of(settlement: TaskSettlement) -> int:
    """About how many bytes a settlement has; its result is what may be large."""
    result = settlement.result
    size = len(result) if isinstance(result, str) else 256 if result is None else 64 * 1024
    return size + sum(len(line.message) + 200 for line in settlement.logs)
