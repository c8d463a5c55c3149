"""Brings back executions whose worker vanished.

A claim has a deadline on the database's clock. Past it the claim is void: an execution that had not started
goes back as it was, one that had started counts as a lost attempt and is retried by the job's policy or dies.
What a worker held for later need not wait for that: once its node has left the fleet, whatever it has not
started goes back at once, and should it come back to life, the token refuses its start. The rows are locked
from the look at the deadline to the write, so of several reclaimers, or a reclaimer and a worker that settles
at the last moment, exactly one succeeds.
"""

import random
from collections.abc import Awaitable, Callable, Sequence
from typing import Final
from uuid import UUID

import structlog

from tocsin.domain.errors import Unreadable
from tocsin.domain.ids import execution_text
from tocsin.domain.instant import MILLISECOND, SECOND, Instant, format_span, has_passed, parse_span
from tocsin.domain.lifecycle import State
from tocsin.domain.outcome import Outcome, Verdict
from tocsin.domain.policy import TIMEOUT, Policies
from tocsin.domain.settling import Ended, Retried, Tried, record_of, settle
from tocsin.domain.stored_job import read_policies
from tocsin.domain.target import DEFAULT_TIMEOUT
from tocsin.failpoints import Failpoints
from tocsin.queue.attempt_log import AttemptLog
from tocsin.queue.claiming.holding import GRACE
from tocsin.queue.claims import Finish, Overdue, Requeue
from tocsin.queue.reclaiming.reclaiming import Reclaiming
from tocsin.queue.slots.healing import Healing
from tocsin.scheduler.leaser import Leases
from tocsin.service import AGAIN_NOW, Report
from tocsin.telemetry import Telemetry

_BATCH: Final = 1000
_HEAL_EVERY: Final = 30 * SECOND
_SHORTEST: Final = 200 * MILLISECOND
_LOST: Final = "the worker was lost: its claim passed the deadline"
_GUARD_SHARD: Final = 0
_log = structlog.get_logger()
PauseLost = Callable[[int, UUID, int, str], Awaitable[bool]]
"""Tenant, job, its version, and the error of an execution of it that failed for good."""


async def _pause_none(_: int, __: UUID, ___: int, ____: str) -> bool:
    return False


class Reclaimer:
    """Runs on the node that leases shard 0, so that an idle fleet asks once, not once per node."""

    name = "reclaimer"

    def __init__(
        self,
        reclaiming: Reclaiming,
        healing: Healing,
        leases: Leases,
        telemetry: Telemetry,
        failpoints: Failpoints,
        *,
        claim_ttl: float,
        pause_lost: PauseLost = _pause_none,
        attempts: AttemptLog | None = None,
    ) -> None:
        # A claim made right after a look is not overdue before the next one.
        self.interval = claim_ttl / 4
        self._reclaiming = reclaiming
        self._healing = healing
        self._leases = leases
        self._telemetry = telemetry
        self._failpoints = failpoints
        self._pause_lost = pause_lost
        self._attempts = attempts
        self._healed_at: Instant = 0
        self._workers: frozenset[int] = frozenset()

    async def run_once(self, now: Instant) -> Report:
        """Reclaim what is overdue."""
        if _GUARD_SHARD not in self._leases.trusted():
            self._workers = frozenset()
            return Report(again_at=now + SECOND)
        if released := await self._release_lost():
            return Report(done=released, again_at=AGAIN_NOW)
        if has_passed(_HEAL_EVERY, self._healed_at, now):
            await self._healing.heal()
            self._healed_at = now
        next_look = now + round(self.interval * SECOND)
        soonest = await self._reclaiming.soonest_deadline(now, until=next_look)
        if soonest is None:
            return Report(again_at=next_look)
        if soonest > now:  # not so often that a busy fleet's moving deadlines matter
            return Report(again_at=max(soonest, now + _SHORTEST))
        dead: list[Overdue] = []
        judged: list[Requeue | Finish] = []

        def judge(overdue: Overdue) -> Requeue | Finish:
            judged.append(_judge(overdue, now, dead))
            return judged[-1]

        requeued, ended = await self._reclaiming.reclaim(_BATCH, judge)
        await self._failpoints.reach("reclaimer.wrote")
        await self._pause_failing(dead)
        if not requeued + ended:
            return Report(again_at=now + _SHORTEST)  # another node has them
        self._healed_at = 0  # the slots of those that ran them
        self._telemetry.reclaimed.inc(requeued + ended)
        _log.warning("claims.reclaimed", requeued=requeued, ended=ended)
        self._tell_lost(judged, now)
        return Report(done=requeued + ended, again_at=AGAIN_NOW)

    def _tell_lost(self, judged: Sequence[Requeue | Finish], now: Instant) -> None:
        """A line for each attempt that had begun."""
        if self._attempts is None:
            return
        for one in judged:
            if isinstance(one.claim, Overdue) and one.claim.started_at is not None:
                self._attempts.lost(one.claim, one.state if isinstance(one, Finish) else State.QUEUED, now)

    async def _pause_failing(self, dead: Sequence[Overdue]) -> None:
        """A worker that vanishes time and again with a job may do so because of the job."""
        for job in {overdue.job_id: overdue for overdue in dead}.values():
            if job.version is None or not _pauses(job):
                continue
            if await self._pause_lost(job.tenant_id, job.job_id, job.version, _LOST):
                _log.warning("job.paused_failing", execution=execution_text(job.key))

    async def _release_lost(self) -> int:
        """Give back what vanished workers held for later: when one has left, and when this node has become
        the guard."""
        alive = self._leases.workers
        if not alive or (self._workers and self._workers <= alive):
            self._workers = alive
            return 0
        released = await self._reclaiming.release_lost(_BATCH)
        await self._failpoints.reach("reclaimer.released")
        if released:
            self._telemetry.released.inc(released)
            _log.warning("claims.released", count=released)
        if released < _BATCH:
            self._workers = alive
            self._healed_at = 0
        return released


def _judge(overdue: Overdue, now: Instant, dead: list[Overdue]) -> Requeue | Finish:
    """What becomes of it. Those that fail for good by that are added to `dead`. Started does not mean called:
    an armed execution, or one in line for its host, has `started_at` too, and whether the call went out is
    unknown."""
    if overdue.started_at is None:
        return Requeue(overdue, now, None)
    policies = _policies_of(overdue)
    outcome = _outcome_of(overdue, policies, now)
    counted = overdue.attempt - overdue.earlier_attempts
    due_at = None if overdue.earlier_attempts else overdue.due_at
    tried = Tried(
        overdue.attempt, counted, overdue.started_at, now, overdue.node_id, overdue.worker_id, due_at
    )
    decided = settle(tried, outcome, policies.retry, random.random()) if policies else None
    if isinstance(decided, Ended):
        if decided.state == State.DEAD:
            dead.append(overdue)
        return Finish(overdue, decided.state, now, decided.outcome, decided.reason, decided.fingerprint)
    # A lost worker is no fault of the target: the next attempt need not wait.
    at = decided.run_at if isinstance(decided, Retried) and outcome.verdict is Verdict.TIMED_OUT else now
    return Requeue(overdue, at, record_of(tried, outcome))


def _pauses(overdue: Overdue) -> bool:
    policies = _policies_of(overdue)
    return policies is not None and policies.pause_after is not None


def _outcome_of(overdue: Overdue, policies: Policies | None, now: Instant) -> Outcome:
    """Of a remote worker that is past its time: it may live, and was not allowed to go on."""
    if overdue.cancel_requested:
        return Outcome(Verdict.CANCELLED, error=_LOST)
    timeout = (
        DEFAULT_TIMEOUT
        if policies is None or policies.timeout is None
        else parse_span(policies.timeout, "timeout")
    )
    started_at = overdue.deadline_at if overdue.started_at is None else overdue.started_at
    if overdue.worker_id is not None and now >= started_at + timeout + GRACE:
        return Outcome(
            Verdict.TIMED_OUT,
            error=f"the worker did not end it within {format_span(timeout)}",
            failure=TIMEOUT,
        )
    return Outcome(Verdict.LOST, error=_LOST)


def _policies_of(overdue: Overdue) -> Policies | None:
    """None if this version cannot read them: then another attempt is the way to lose nothing."""
    if overdue.policies is None:
        return Policies()
    try:
        return read_policies(overdue.policies)
    except Unreadable:
        return None
