"""Writes outcomes down, in batches.

Outcomes gather while the previous batch is being written, so the batch size follows the load by itself: one
at a time when idle, a thousand under a drain. A batch is repeated until the database has answered: settling
is fenced by the claim's token and looks up what an unanswered try achieved, so repetition is harmless. A claim
that was lost meanwhile is counted and dropped: the newer attempt's result stands.
"""

import random
from collections import Counter, deque
from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

import msgspec
import structlog

from tocsin.clock import Clock
from tocsin.domain.ids import execution_text
from tocsin.domain.instant import MILLISECOND, Instant
from tocsin.domain.lifecycle import State
from tocsin.domain.outcome import HOST, Attempt, Outcome, TryAgain, Verdict, decide, fingerprint, judged
from tocsin.failpoints import Failpoints
from tocsin.queue.claims import Again, Claim, Finish, Held
from tocsin.queue.postgres import PostgresQueue
from tocsin.service import AGAIN_NOW, Report
from tocsin.telemetry import Telemetry

_BATCH: Final = 1000
_YIELD: Final = 5 * MILLISECOND
_log = structlog.get_logger()
T = TypeVar("T")
PauseGone = Callable[[Claim, str], Awaitable[bool]]


class Settlement(msgspec.Struct, frozen=True, gc=False):
    """A claim and what became of it. `ended` overrides the outcome for what never started."""

    claim: Claim
    outcome: Outcome
    finished_at: Instant
    ended: State | None = None
    reason: str | None = None
    postponed_to: Instant | None = None
    """When to start again, if no attempt was made."""
    waits_for: str | None = None
    """What it waits for until then, if for anything but its time."""


async def _pause_nothing(_: Claim, __: str) -> bool:
    return False


class Settler:
    """Buffers settlements and writes them."""

    name = "settler"
    interval = 60.0  # woken by `put`

    def __init__(
        self,
        queue: PostgresQueue,
        clock: Clock,
        telemetry: Telemetry,
        failpoints: Failpoints,
        *,
        node_id: int,
        yield_to: Callable[[], bool] = lambda: False,
        pause_gone: PauseGone = _pause_nothing,
    ) -> None:
        self._queue = queue
        self._clock = clock
        self._telemetry = telemetry
        self._failpoints = failpoints
        self._node_id = node_id
        self._yield_to = yield_to
        self._pause_gone = pause_gone
        self._buffer: deque[Settlement] = deque()
        self._writing: list[Settlement] = []
        self._succeeded: deque[Claim] = deque()
        self._writing_succeeded: list[Claim] = []
        self._succeeded_at: Instant = 0
        self.wake: Callable[[], None] = lambda: None
        self.settled: Callable[[], None] = lambda: None
        self.requeued: Callable[[], None] = lambda: None
        """Called when something went back into the queue, perhaps to be due soon."""

    @property
    def backlog(self) -> int:
        """Settlements not yet written."""
        return len(self._buffer) + len(self._writing) + len(self._succeeded) + len(self._writing_succeeded)

    def claims(self) -> list[Claim]:
        """Claims still held although their attempt is over."""
        told = [settlement.claim for settlement in (*self._writing, *self._buffer)]
        return [*told, *self._writing_succeeded, *self._succeeded]

    def put(self, settlement: Settlement) -> None:
        """Hand over an outcome."""
        self._buffer.append(settlement)
        self.wake()

    def put_succeeded(self, claims: list[Claim], now: Instant) -> None:
        """Hand over claims that succeeded without more to say.

        They are most of the work under a drain, so they take a short way: no settlement, no decision.
        """
        self._succeeded.extend(claims)
        self._succeeded_at = now
        self.wake()

    async def run_once(self, now: Instant) -> Report:
        """Write one batch. What a failed call leaves is written by the next run."""
        if self._yield_to() and self.backlog < 20 * _BATCH:
            return Report(again_at=now + _YIELD)  # starting what is due comes first
        _fill(self._writing, self._buffer)
        _fill(self._writing_succeeded, self._succeeded)
        done = len(self._writing) + len(self._writing_succeeded)
        if not done:
            return Report()
        await self._failpoints.reach("settler.before")
        if self._writing_succeeded:
            self._count_lost(await self._queue.succeed(self._writing_succeeded, self._succeeded_at))
            self._telemetry.finished.labels(State.SUCCEEDED).inc(len(self._writing_succeeded))
            self._writing_succeeded = []
        if self._writing:
            await self._write(self._writing)
            self._writing = []
        await self._failpoints.reach("settler.written")
        self.settled()
        return Report(done=done, again_at=AGAIN_NOW if self._buffer or self._succeeded else None)

    async def _write(self, settlements: list[Settlement]) -> None:
        finishes: list[Finish] = []
        agains: list[Again] = []
        for settlement in settlements:
            decided = self._decide(settlement)
            if isinstance(decided, Finish):
                if settlement.outcome.gone and decided.state == State.DEAD:
                    await self._pause(settlement)
                finishes.append(decided)
            else:
                agains.append(decided)
        lost = await self._queue.finish(finishes)
        retried = [again for again in agains if again.record is not None]
        postponed = [again for again in agains if again.record is None]
        if retried:
            lost += await self._queue.finish([again.stopped for again in await self._queue.retry(retried)])
        if postponed:
            lost += await self._queue.finish(
                [again.stopped for again in await self._queue.postpone(postponed)]
            )
            self._telemetry.postponed.inc(sum(again.waits_for == HOST for again in postponed))
        self._count(finishes, retried, lost)
        if agains:
            self.requeued()

    async def _pause(self, settlement: Settlement) -> None:
        """Pause the job before its execution ends, while the claim still proves that the answer counts."""
        claim, reason = settlement.claim, settlement.outcome.error or "the target is gone"
        if await self._pause_gone(claim, reason):
            _log.warning("job.paused_target_gone", execution=execution_text(claim.key))

    def _decide(self, settlement: Settlement) -> Finish | Again:
        claim = settlement.claim
        if settlement.ended is not None:
            return Finish(claim, settlement.ended, settlement.finished_at, reason=settlement.reason)
        if settlement.postponed_to is not None:
            stopped = _stopped(settlement, settlement.outcome)
            return Again(claim, settlement.postponed_to, None, stopped, settlement.waits_for)
        retry = claim.work.policies.retry
        outcome = judged(settlement.outcome, retry)
        attempts_made = claim.attempt - claim.earlier_attempts
        decision = decide(outcome, retry, attempts_made, settlement.finished_at, random.random())
        if isinstance(decision, TryAgain):
            record = _record(claim, outcome, settlement.finished_at, self._node_id)
            return Again(claim, decision.run_at, record, _stopped(settlement, outcome))
        error = outcome.error if decision.state is not State.SUCCEEDED else None
        return Finish(
            claim,
            decision.state,
            settlement.finished_at,
            msgspec.json.encode(outcome).decode(),
            settlement.reason or error,
            fingerprint(error) if error and decision.state is State.DEAD else None,
        )

    def _count(self, finishes: list[Finish], agains: list[Again], lost: list[Held]) -> None:
        for state, number in Counter(finish.state for finish in finishes).items():
            self._telemetry.finished.labels(state).inc(number)
        self._telemetry.retried.inc(len(agains))
        self._count_lost(lost)

    def _count_lost(self, lost: list[Held]) -> None:
        if lost:
            self._telemetry.stale_writes.labels("settle").inc(len(lost))
            _log.warning("claims.lost_before_settling", count=len(lost), first=execution_text(lost[0].key))


def _fill(batch: list[T], waiting: deque[T]) -> None:
    """Top a batch up; what a failed write left in it goes first."""
    while waiting and len(batch) < _BATCH:
        batch.append(waiting.popleft())


def _stopped(settlement: Settlement, outcome: Outcome) -> Finish:
    """How an execution ends that is not tried again because somebody asked it to stop."""
    return Finish(
        settlement.claim,
        State.CANCELLED,
        settlement.finished_at,
        msgspec.json.encode(outcome).decode(),
        "asked to stop while it ran",
    )


def _record(claim: Claim, outcome: Outcome, finished_at: Instant, node_id: int) -> str:
    record = Attempt(
        claim.attempt,
        outcome.verdict,
        claim.started_at,
        max(finished_at, claim.started_at or finished_at),
        node_id,
        outcome.error,
        outcome.detail,
    )
    return msgspec.json.encode(record).decode()


def lost_by_stopping(claim: Claim, now: Instant) -> Settlement:
    """The settlement of a call that the worker had to give up to stop in time."""
    return Settlement(
        claim, Outcome(Verdict.FAILED, error="the worker stopped before the call was over"), now
    )
