"""One attempt that a worker makes: its claim, its context, what it has to tell, and how it is stopped."""

import threading
from collections.abc import Callable
from time import monotonic
from typing import Any, Final

import msgspec

from tocsin.domain.protocol import HeldClaim, LogLine, Progress, TaskClaim, TaskSettlement
from tocsin.sdk.context import Context
from tocsin.sdk.outcomes import ClaimLost, Stopped

GRACE: Final = 5.0
"""Seconds that a task has to end once it was asked to. Then it is given up."""
_LINES_AT_ONCE: Final = 200


class Attempt:
    """A claim that is being run."""

    def __init__(self, claim: TaskClaim, task: Any, state: Any = None) -> None:
        self.claim = claim
        self.task = task
        self.context = Context(claim, self._keep, state)
        self.began: float | None = None
        """By the monotonic clock; None while it waits for a place."""
        self.came = monotonic()
        self.admitted = False
        """Whether it has a place: see `Hand`."""
        self.taken = False
        """Whether a runner has it in its hands: from then on it does not go back as if it had not run."""
        self.asked_at: float | None = None
        """When it was asked to stop."""
        self.given_up = False
        self.interrupt: Callable[[Stopped], object] = lambda _: None
        """How the task is made to end, by the runner that runs it."""
        self.kill: Callable[[], None] = lambda: None
        """How the runner gets rid of a task that did not end."""
        self.where: Callable[[], str] = str
        """Where the task is, as the text of a stack; empty if that cannot be seen."""
        self._progress: Progress | None = None
        self._lines: list[LogLine] = []
        self._lock = threading.Lock()

    def handled_by(
        self,
        interrupt: Callable[[Stopped], object],
        *,
        kill: Callable[[], None] = lambda: None,
        where: Callable[[], str] = str,
    ) -> None:
        """Its runner says how the task is reached while it runs."""
        self.interrupt, self.kill, self.where = interrupt, kill, where

    @property
    def lost(self) -> bool:
        """Whether another worker has it by now."""
        return isinstance(self.context.why, ClaimLost)

    @property
    def overdue(self) -> bool:
        """Whether its time is over."""
        return self.began is not None and monotonic() - self.began >= self.claim.timeout_ms / 1000

    @property
    def stray(self) -> bool:
        """Whether it was asked to stop so long ago that it will not."""
        return self.asked_at is not None and monotonic() - self.asked_at >= GRACE

    @property
    def silent(self) -> bool:
        """Whether it has nothing to tell."""
        return self._progress is None and not self._lines

    def begin(self) -> None:
        """Its function is called: its time begins."""
        self.began = monotonic()

    def stop(self, why: Stopped) -> None:
        """Ask it to end."""
        if self.asked_at is None:
            self.asked_at = monotonic()
            self.context.stop(why)
            self.interrupt(why)

    def held(self) -> HeldClaim:
        """What a heartbeat tells of it. Lines are told until they were heard: see `heard`."""
        with self._lock:
            lines = list(self._lines[:_LINES_AT_ONCE])
            return HeldClaim(self.claim.id, self.claim.token, self._progress, lines)

    def heard(self, told: HeldClaim) -> None:
        """The server has heard a heartbeat."""
        with self._lock:
            seen = {line.seq for line in told.logs}
            self._lines = [line for line in self._lines if line.seq not in seen]
            if self._progress is told.progress:
                self._progress = None

    def settled(self, settlement: TaskSettlement) -> TaskSettlement:
        """A settlement, with the lines that were not told yet."""
        with self._lock:
            lines, self._lines = self._lines, []
        return msgspec.structs.replace(settlement, logs=lines) if lines else settlement

    def keep(self, what: LogLine | Progress) -> None:
        """Take in what the task says from another process."""
        self._keep(what)

    def _keep(self, what: LogLine | Progress) -> None:
        with self._lock:
            if isinstance(what, Progress):
                self._progress = what
            else:
                self._lines.append(what)
