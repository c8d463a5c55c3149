"""The heartbeat of a worker, which also watches the time of what runs, and the event loop.

It has a thread and a connection of its own: a blocked loop or a busy interpreter does not keep it from
beating for long, and so loses no claims.
"""

import contextlib
import logging
import threading
from collections.abc import Callable
from time import monotonic
from typing import Final

import msgspec

from tocsin.domain.errors import NotFound, Refused, TocsinError
from tocsin.domain.protocol import (
    BATCH_MAX,
    MAX_TRACE,
    ClaimName,
    Heard,
    Heartbeat,
    HeldClaim,
    Stop,
    TaskError,
    TaskSettlement,
)
from tocsin.sdk.outcomes import Cancelled, ClaimLost, TimedOut
from tocsin.sdk.worker.attempt import Attempt
from tocsin.sdk.worker.hand import BATCH_BYTES, WAITS_AT_MOST, Hand
from tocsin.sdk.worker.link import Link
from tocsin.sdk.worker.loop_watch import LoopWatch
from tocsin.sdk.worker.membership import Membership
from tocsin.sdk.worker.runners import Ended, settlement_of

EXIT_STRAYS: Final = 75
"""The exit code of a worker with too many tasks that did not stop: its supervisor starts it anew."""
_TICK: Final = 0.25
_STRAYS_SHARE: Final = 4
_log = logging.getLogger("tocsin.worker")


class Beats:
    """Heartbeats of what is in hand. `ended` is told what it gives up, `drain` begins the end of the
    worker."""

    def __init__(
        self,
        hand: Hand,
        membership: Membership,
        loop_watch: LoopWatch,
        ended: Ended,
        drain: Callable[[], None],
    ) -> None:
        self._hand = hand
        self._membership = membership
        self._loop_watch = loop_watch
        self._ended = ended
        self._drain = drain
        self._now = threading.Event()
        self._ended_by = threading.Event()
        self._over = False
        self.strays = 0

    @property
    def too_many_strays(self) -> bool:
        """Whether a quarter of the places is taken by what does not end."""
        return too_many(self.strays, self._hand.capacity)

    def run(self, link: Link) -> None:
        """Beat until the end."""
        beat_at = monotonic()
        while not self._over:
            if monotonic() >= beat_at:
                beat_at = monotonic() + self._membership.terms.heartbeat_ms / 1000
                self.beat(link)
            release(link, self._membership.worker, self._hand.take_unbegun(WAITS_AT_MOST))
            self._ended_by.wait(max(0.01, min(_TICK, beat_at - monotonic())))

    def watch_over(self, _: Link) -> None:
        """Watch until the end, apart from heartbeats: one without an answer must not keep what runs from
        being stopped."""
        while not self._over:
            self.watch()
            self._loop_watch.look()
            self._now.wait(_TICK if self._hand.attempts() else 1.0)
            self._now.clear()

    def notice(self) -> None:
        """There is something to watch."""
        self._now.set()

    def finish(self) -> None:
        """Beat no more."""
        self._over = True
        self._ended_by.set()
        self._now.set()

    def beat(self, link: Link) -> None:
        """Say what is held, and hear what is lost or to be stopped."""
        attempts = {attempt.claim.id: attempt for attempt in self._hand.attempts()}
        told = _told(attempts)
        sent_at, worker = monotonic(), self._membership.worker
        try:
            heard = link.heartbeat(worker, Heartbeat(list(told.values()), self._hand.running))
        except NotFound:
            self._membership.register(link, instead_of=worker)
            return
        except Refused:
            raise
        except TocsinError as error:
            _log.warning("heartbeat without an answer: %s", error)
            return
        self._membership.heard(sent_at)
        self._hear(heard, attempts, told)

    def watch(self) -> None:
        """End what is over its time, give up what does not end, and everything once others may have it."""
        untrusted = not self._membership.trusted
        for attempt in self._hand.attempts():
            if untrusted:
                attempt.stop(ClaimLost("no heartbeat was answered in time: another worker may have it"))
            elif attempt.overdue:
                attempt.stop(TimedOut(f"not over within {attempt.claim.timeout_ms / 1000:g} s"))
            if attempt.stray:
                self._leave_stray(attempt)
        if self.too_many_strays:
            self._drain()

    def stop(self, stops: list[Stop]) -> None:
        """Ask these to end: their cancellation was asked for."""
        for stop in stops:
            if (attempt := self._hand.find(stop.id)) is not None:
                attempt.stop(Cancelled(stop.reason))

    def give_up(
        self, attempt: Attempt, error: TaskError | None, stack: str = "", *, stray: bool = False
    ) -> None:
        """Settle an attempt that did not end, without waiting for it. `stack` is where it was; a stray goes
        on."""
        settlement = settlement_of(attempt, attempt.context.why or TimedOut("it was given up"))
        if error is not None:
            settlement = TaskSettlement(attempt.claim.id, attempt.claim.token, "failed", error=error)
        if stack and settlement.error is not None:
            told = msgspec.structs.replace(settlement.error, trace=stack[-MAX_TRACE:])
            settlement = msgspec.structs.replace(settlement, error=told)
        if stray:
            settlement = msgspec.structs.replace(settlement, stray=True)
        self._ended(attempt, settlement)
        attempt.given_up = True
        attempt.kill()

    def _hear(self, heard: Heard, attempts: dict[str, Attempt], told: dict[str, HeldClaim]) -> None:
        for name, held in told.items():
            attempts[name].heard(held)
        for name in heard.lost:
            if name in attempts:
                attempts[name].stop(ClaimLost("another worker has it"))
        self.stop(heard.stop)
        if heard.drain:
            self._drain()

    def _leave_stray(self, attempt: Attempt) -> None:
        """Give up on what does not end. A child process is killed; a thread or a coroutine goes on, without
        a claim."""
        stack = attempt.where()
        stray = attempt.task.run != "process"
        if not stray:
            _log.warning("task %s did not stop, and is killed: %s", attempt.claim.task, attempt.claim.id)
        else:
            self.strays += 1
            _log.warning("task %s did not stop: %s\n%s", attempt.claim.task, attempt.claim.id, stack)
        self.give_up(attempt, None, stack, stray=stray)


def too_many(strays: int, capacity: int) -> bool:
    """Whether strays are at least a quarter of the places, and more than none."""
    return strays * _STRAYS_SHARE >= max(capacity, _STRAYS_SHARE)


def release(link: Link, worker: str, unbegun: list[Attempt]) -> None:
    """Others may have what was not begun here."""
    names = [ClaimName(attempt.claim.id, attempt.claim.token) for attempt in unbegun]
    for first in range(0, len(names), BATCH_MAX):
        with contextlib.suppress(TocsinError):
            link.release(worker, names[first : first + BATCH_MAX])


def _told(attempts: dict[str, Attempt]) -> dict[str, HeldClaim]:
    """What a heartbeat says of what is held, with as many lines of logs as fit."""
    told, size = {}, 0
    for name, attempt in attempts.items():
        held = attempt.held()
        size += sum(len(line.message) + 200 for line in held.logs)
        told[name] = held if size < BATCH_BYTES else HeldClaim(held.id, held.token, held.progress)
    return told
