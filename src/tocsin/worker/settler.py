"""Writes outcomes down, in batches.

Outcomes gather while the previous batch is being written, so the batch size follows the load by itself: one
at a time when idle, a thousand under a drain. A batch is repeated until the database has answered: settling
is fenced by the claim's token and looks up what an unanswered try achieved, so repetition is harmless. A
claim that was lost meanwhile is counted and dropped: the newer attempt's result stands.
"""

import random
from collections import Counter, deque
from collections.abc import Awaitable, Callable, Sequence
from typing import Final, TypeVar
from uuid import UUID

import msgspec
import structlog

from tocsin.clock import Clock
from tocsin.domain.errors import OwnershipLost, Unavailable
from tocsin.domain.ids import execution_text
from tocsin.domain.instant import MILLISECOND, Instant
from tocsin.domain.lifecycle import State
from tocsin.domain.outcome import SUCCEEDED, Outcome, Verdict, class_of
from tocsin.domain.settling import Ended, Tried, settle, stopped
from tocsin.domain.waits import Reason, kind_of
from tocsin.failpoints import Failpoints
from tocsin.queue.attempt_log import AttemptLog
from tocsin.queue.claims import Again, AnyClaim, Claim, Finish
from tocsin.queue.settling.settling import Settling
from tocsin.service import AGAIN_NOW, Report
from tocsin.signals import Signal
from tocsin.telemetry import Telemetry
from tocsin.worker.traced import traced_settlements, traced_successes

_BATCH: Final = 1000
_YIELD: Final = 5 * MILLISECOND
_YIELDS_BELOW_BATCHES: Final = 20
_log = structlog.get_logger()
T = TypeVar("T")
PauseGone = Callable[[Claim, str], Awaitable[bool]]
PauseFailing = Callable[[Claim, str, int], Awaitable[bool]]
CountSucceeded = Callable[[Sequence[Claim], Sequence[Instant]], None]


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


async def _pause_none(_: Claim, __: str, ___: int) -> bool:
    return False


def count_none(_: Sequence[Claim], __: Sequence[Instant]) -> None:
    """Counts nothing: for workers whose successes are not plotted."""


class Settler:
    """Buffers settlements and writes them."""

    name = "settler"
    interval = 60.0  # woken by `put`

    def __init__(
        self,
        settling: Settling,
        clock: Clock,
        telemetry: Telemetry,
        failpoints: Failpoints,
        *,
        node_id: int,
        yield_to: Callable[[], bool] = lambda: False,
        pause_gone: PauseGone = _pause_nothing,
        pause_failing: PauseFailing = _pause_none,
        count_succeeded: CountSucceeded = count_none,
        attempts: AttemptLog | None = None,
    ) -> None:
        """`yield_to` says whether something more urgent wants the database: starting what is due.
        `count_succeeded` hears of each batch that succeeded and was written, and when each of it ended."""
        self._settling = settling
        self._clock = clock
        self._telemetry = telemetry
        self._failpoints = failpoints
        self._node_id = node_id
        self._yield_to = yield_to
        self._pause_gone = pause_gone
        self._pause_failing = pause_failing
        self._count_succeeded = count_succeeded
        self._attempts = attempts
        self._buffer: deque[Settlement] = deque()
        self._writing: list[Settlement] = []
        self._succeeded: deque[Claim] = deque()
        self._writing_succeeded: list[Claim] = []
        self._succeeded_at: Instant = 0
        self.unsettled = Signal("unsettled")
        """Sent when there is something to write."""
        self.settled = Signal("settled")
        self.requeued = Signal("requeued")
        """Sent when something went back into the queue, perhaps to be due soon."""

    @property
    def backlog(self) -> int:
        """Settlements not yet written."""
        return len(self._buffer) + len(self._writing) + len(self._succeeded) + len(self._writing_succeeded)

    def claims(self) -> list[Claim]:
        """Claims still held although their attempt is over."""
        told = [settlement.claim for settlement in (*self._writing, *self._buffer)]
        return [*told, *self._writing_succeeded, *self._succeeded]

    def put(self, settlement: Settlement) -> None:
        """Hand over an outcome. A success that has nothing to tell takes the short way, whatever its
        target."""
        if settlement.outcome is SUCCEEDED and settlement.claim.target is not None:
            self.put_succeeded([settlement.claim], settlement.finished_at)
            return
        self._buffer.append(settlement)
        self.unsettled.send()

    def put_succeeded(self, claims: list[Claim], now: Instant) -> None:
        """Hand over claims that succeeded without more to say.

        They are most of the work under a drain, so they take a short way: no settlement, no decision.
        """
        self._succeeded.extend(claims)
        self._succeeded_at = now
        self.unsettled.send()

    async def run_once(self, now: Instant) -> Report:
        """Write one batch. If that fails, the next run writes the rest."""
        if self._yield_to() and self.backlog < _YIELDS_BELOW_BATCHES * _BATCH:
            return Report(again_at=now + _YIELD)  # beginning what is due comes first
        _fill(self._writing, self._buffer)
        _fill(self._writing_succeeded, self._succeeded)
        done = len(self._writing) + len(self._writing_succeeded)
        if not done:
            return Report()
        await self._failpoints.reach("settler.before")
        if self._writing_succeeded:
            lost = await self._settling.succeed(self._writing_succeeded, self._succeeded_at)
            self._count_lost(lost)
            ends = [self._succeeded_at] * len(self._writing_succeeded)
            self._tell_succeeded(self._writing_succeeded, ends, lost)
            self._telemetry.finished.labels(State.SUCCEEDED).inc(len(self._writing_succeeded))
            self._count_successes(self._writing_succeeded)
            if self._attempts is not None and self._attempts.successes:
                gone = set(map(id, lost))
                told = [claim for claim in self._writing_succeeded if id(claim) not in gone]
                self._attempts.succeeded(told, self._succeeded_at)
            if self._telemetry.tracing is not None:
                self._telemetry.tracing.attempts(
                    traced_successes(self._writing_succeeded, self._succeeded_at, lost)
                )
            self._writing_succeeded = []
        if self._writing:
            await self._write_apart(self._writing)
            self._writing = []
        await self._failpoints.reach("settler.written")
        self.settled.send()
        return Report(done=done, again_at=AGAIN_NOW if self._buffer or self._succeeded else None)

    async def _write_apart(self, settlements: list[Settlement], error: Exception | None = None) -> None:
        """Write a batch. If that fails although the database is there, one of them is to blame. The batch is
        then written in ever smaller parts until that one is found; the others are written all the same."""
        try:
            await self._write(settlements)
        except (Unavailable, OwnershipLost):
            raise
        except Exception as failed:  # noqa: BLE001 - see above
            if len(settlements) > 1:
                middle = len(settlements) // 2
                await self._write_apart(settlements[:middle])
                await self._write_apart(settlements[middle:])
            elif error is None:
                _log.error("settler.cannot_write", execution=_name(settlements), exc_info=failed)
                await self._write_apart([_without_words(settlements[0], failed)], failed)
            else:  # its claim passes its deadline: that ends it, or lets it try again
                _log.error("settler.gave_up", execution=_name(settlements), exc_info=failed)
                self._count_lost([settlements[0].claim])

    async def _write(self, settlements: list[Settlement]) -> None:
        finishes: list[Finish] = []
        agains: list[Again] = []
        succeeded: list[Settlement] = []
        deaths: Counter[UUID] = Counter()
        states: list[str] = []
        for settlement in settlements:
            decided = self._decide(settlement)
            states.append(decided.state if isinstance(decided, Finish) else State.QUEUED)
            if isinstance(decided, Finish):
                finishes.append(decided)
                if decided.state == State.SUCCEEDED:
                    succeeded.append(settlement)
                    if deaths:
                        deaths[settlement.claim.job_id] = 0
                elif decided.state == State.DEAD:
                    await self._pause_if_due(settlement, deaths)
            else:
                agains.append(decided)
        lost = await self._settling.finish(finishes)
        retried = [again for again in agains if again.record is not None]
        postponed = [again for again in agains if again.record is None]
        if retried:
            lost += await self._settling.finish(
                [again.stopped for again in await self._settling.retry(retried)]
            )
        if postponed:
            lost += await self._settling.finish(
                [again.stopped for again in await self._settling.postpone(postponed)]
            )
            self._telemetry.postponed.inc(sum(_waits_for_host(again) for again in postponed))
        self._count(finishes, retried, lost)
        self._count_attempts(settlements)
        self._tell_attempts(settlements, states, lost)
        if self._telemetry.tracing is not None:
            self._telemetry.tracing.attempts(traced_settlements(settlements, finishes, lost))
        self._tell_succeeded([one.claim for one in succeeded], [one.finished_at for one in succeeded], lost)
        if agains:
            self.requeued.send()

    async def _pause_if_due(self, settlement: Settlement, deaths: Counter[UUID]) -> None:
        """A job whose target is gone is paused, and so is one of which too many in a row failed for good.
        `deaths` are of this batch, by job: history does not have them yet."""
        claim = settlement.claim
        deaths[claim.job_id] += 1
        try:
            if settlement.outcome.gone:
                await self._pause(settlement)
            elif claim.work.policies.pause_after is not None:
                error = settlement.outcome.error or "no error was told"
                if await self._pause_failing(claim, error, deaths[claim.job_id]):
                    _log.warning("job.paused_failing", execution=execution_text(claim.key))
        except (Unavailable, OwnershipLost):
            raise
        except Exception as failed:  # noqa: BLE001 - its end is written down all the same
            _log.error("settler.cannot_pause", execution=execution_text(claim.key), exc_info=failed)

    async def _pause(self, settlement: Settlement) -> None:
        """Pause the job before its execution ends, while the claim still proves that the answer counts."""
        claim, reason = settlement.claim, settlement.outcome.error or "the target is gone"
        if await self._pause_gone(claim, reason):
            _log.warning("job.paused_target_gone", execution=execution_text(claim.key))

    def _decide(self, settlement: Settlement) -> Finish | Again:
        claim, finished_at = settlement.claim, settlement.finished_at
        if settlement.ended is not None:
            return Finish(claim, settlement.ended, finished_at, reason=settlement.reason)
        if settlement.postponed_to is not None:
            end = _finish(settlement, stopped(settlement.outcome))
            return Again(claim, settlement.postponed_to, None, end, settlement.waits_for)
        counted = claim.attempt - claim.earlier_attempts
        due_at = None if claim.earlier_attempts else claim.due_at
        tried = Tried(
            claim.attempt, counted, claim.started_at, finished_at, self._node_id, claim.worker_id, due_at
        )
        decided = settle(tried, settlement.outcome, claim.work.policies.retry, random.random())
        if isinstance(decided, Ended):
            return _finish(settlement, decided)
        return Again(claim, decided.run_at, decided.record, _finish(settlement, decided.if_stopped))

    def _count(self, finishes: list[Finish], agains: list[Again], lost: list[AnyClaim]) -> None:
        for state, number in Counter(finish.state for finish in finishes).items():
            self._telemetry.finished.labels(state).inc(number)
        self._telemetry.retried.inc(len(agains))
        self._count_lost(lost)

    def _tell_attempts(self, settlements: list[Settlement], states: list[str], lost: list[AnyClaim]) -> None:
        """Lines in the log, where the settings ask for them. Of what was lost another node tells."""
        if self._attempts is None:
            return
        gone = set(map(id, lost))
        for one, state in zip(settlements, states, strict=True):
            if _attempted(one) and id(one.claim) not in gone:
                self._attempts.finished(one.claim, state, class_of(one.outcome), one.finished_at)

    def _count_successes(self, claims: list[Claim]) -> None:
        """Under a drain nearly every batch has one route."""
        routes = [claim.route for claim in claims]
        same = routes.count(routes[0]) == len(routes)
        for route, number in ({routes[0]: len(routes)} if same else Counter(routes)).items():
            self._telemetry.attempts.labels(_kind(route), Verdict.SUCCEEDED).inc(number)

    def _count_attempts(self, settlements: list[Settlement]) -> None:
        """By kind of target and class of outcome; how long they ran, unless `count_succeeded` sees to it."""
        attempts: Counter[tuple[str, str]] = Counter()
        for settlement in settlements:
            if not _attempted(settlement):
                continue
            claim, outcome = settlement.claim, settlement.outcome
            attempts[_kind(claim.route), class_of(outcome)] += 1
            if outcome.verdict is not Verdict.SUCCEEDED:
                began = claim.fired_at or claim.started_at or settlement.finished_at
                self._telemetry.run.observe((max(0, settlement.finished_at - began),), claim.queue)
        for labels, number in attempts.items():
            self._telemetry.attempts.labels(*labels).inc(number)

    def _tell_succeeded(self, claims: list[Claim], ends: list[Instant], lost: list[AnyClaim]) -> None:
        """Those that were lost before are counted by the part that ended them."""
        if lost:
            gone = set(map(id, lost))
            kept = [place for place, claim in enumerate(claims) if id(claim) not in gone]
            claims, ends = [claims[place] for place in kept], [ends[place] for place in kept]
        if claims:
            self._count_succeeded(claims, ends)

    def _count_lost(self, lost: list[AnyClaim]) -> None:
        if lost:
            self._telemetry.stale_writes.labels("settle").inc(len(lost))
            _log.warning("claims.lost_before_settling", count=len(lost), first=execution_text(lost[0].key))


def _attempted(settlement: Settlement) -> bool:
    """Whether an attempt was made: not of what never started, was put off, or whose job is gone."""
    never = settlement.ended is not None or settlement.postponed_to is not None
    return not never and settlement.claim.target is not None


def _waits_for_host(again: Again) -> bool:
    return again.waits_for is not None and kind_of(again.waits_for) == Reason.HOST


def _kind(route: str) -> str:
    """The kind of target that a route leads to: routes of tasks have the task's name in them."""
    return route.partition(":")[0]


def _fill(batch: list[T], waiting: deque[T]) -> None:
    """Top a batch up; what a failed write left in it goes first."""
    room = _BATCH - len(batch)
    if room >= len(waiting):
        batch.extend(waiting)
        waiting.clear()
    else:
        batch.extend([waiting.popleft() for _ in range(room)])


def _finish(settlement: Settlement, ended: Ended) -> Finish:
    reason = settlement.reason or ended.reason
    at = settlement.finished_at
    return Finish(settlement.claim, ended.state, at, ended.outcome, reason, ended.fingerprint)


def _name(settlements: Sequence[Settlement]) -> str:
    return execution_text(settlements[0].claim.key)


def _without_words(settlement: Settlement, error: Exception) -> Settlement:
    """The same end, told in words of our own."""
    outcome = settlement.outcome
    words = f"what the target told could not be stored: {type(error).__name__}"
    plain = msgspec.structs.replace(
        outcome, error=outcome.error and words, detail={"unstored": words}, result=None
    )
    reason = settlement.reason and words
    return msgspec.structs.replace(settlement, outcome=plain, reason=reason)


def lost_by_stopping(claim: Claim, now: Instant) -> Settlement:
    """The settlement of a call that the worker had to give up to stop in time."""
    return Settlement(
        claim, Outcome(Verdict.FAILED, error="the worker stopped before the call was over"), now
    )
