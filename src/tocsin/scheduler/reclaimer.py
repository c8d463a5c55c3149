"""Brings back executions whose worker vanished.

A claim has a deadline on the database's clock. Past it the claim is void: an execution that had not started
goes back as it was, one that had started counts as a lost attempt and is retried by the job's policy or dies.
What a worker held for later need not wait for that: once its node has left the fleet, whatever it has not started goes
back at once, and should it come back to life, the token refuses its start.
The rows are locked from the look at the deadline to the write, so of several reclaimers, or a reclaimer and a
worker that settles at the last moment, exactly one succeeds.
"""

import random
from typing import Final

import msgspec
import structlog

from tocsin.domain.errors import Unreadable
from tocsin.domain.instant import MILLISECOND, SECOND, Instant, has_passed
from tocsin.domain.outcome import Attempt, Outcome, TryAgain, Verdict, decide, fingerprint
from tocsin.domain.policy import Policies, Retry
from tocsin.failpoints import Failpoints
from tocsin.queue.claims import Finish, Overdue, Requeue
from tocsin.queue.postgres import PostgresQueue
from tocsin.queue.work import read_policies
from tocsin.scheduler.leaser import Leases
from tocsin.service import AGAIN_NOW, Report
from tocsin.telemetry import Telemetry

_BATCH: Final = 1000
_HEAL_EVERY: Final = 30 * SECOND
_SHORTEST: Final = 200 * MILLISECOND
_LOST: Final = "the worker was lost: its claim passed the deadline"
_GUARD_SHARD: Final = 0
_log = structlog.get_logger()


class Reclaimer:
    """Runs on the node that leases shard 0, so that an idle fleet asks once, not once per node."""

    name = "reclaimer"

    def __init__(
        self,
        queue: PostgresQueue,
        leases: Leases,
        telemetry: Telemetry,
        failpoints: Failpoints,
        *,
        claim_ttl: float,
    ) -> None:
        # A claim made right after a look is not overdue before the next one.
        self.interval = claim_ttl / 4
        self._queue = queue
        self._leases = leases
        self._telemetry = telemetry
        self._failpoints = failpoints
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
            await self._queue.heal()
            self._healed_at = now
        next_look = now + round(self.interval * SECOND)
        soonest = await self._queue.soonest_deadline(now, until=next_look)
        if soonest is None:
            return Report(again_at=next_look)
        if soonest > now:  # not so often that a busy fleet's moving deadlines matter
            return Report(again_at=max(soonest, now + _SHORTEST))
        requeued, ended = await self._queue.reclaim(_BATCH, lambda overdue: _judge(overdue, now))
        await self._failpoints.reach("reclaimer.wrote")
        if not requeued + ended:
            return Report(again_at=now + _SHORTEST)  # somebody else has them
        self._healed_at = 0  # the slots of those that ran them
        self._telemetry.reclaimed.inc(requeued + ended)
        _log.warning("claims.reclaimed", requeued=requeued, ended=ended)
        return Report(done=requeued + ended, again_at=AGAIN_NOW)

    async def _release_lost(self) -> int:
        """Give back what vanished workers held for later: when one has left, and when this node has become the guard."""
        alive = self._leases.workers
        if not alive or (self._workers and self._workers <= alive):
            self._workers = alive
            return 0
        released = await self._queue.release_lost(_BATCH)
        await self._failpoints.reach("reclaimer.released")
        if released:
            _log.warning("claims.released", count=released)
        if released < _BATCH:
            self._workers = alive
            self._healed_at = 0
        return released


def _judge(overdue: Overdue, now: Instant) -> Requeue | Finish:
    if overdue.started_at is None:
        return Requeue(overdue, now, None)
    verdict = Verdict.CANCELLED if overdue.cancel_requested else Verdict.LOST
    outcome = Outcome(verdict, error=_LOST)
    attempts_made = overdue.attempt - overdue.earlier_attempts
    retry = _retry_of(overdue)
    decision = decide(outcome, retry, attempts_made, now, random.random()) if retry else TryAgain(now)
    if isinstance(decision, TryAgain):
        record = Attempt(overdue.attempt, verdict, overdue.started_at, now, overdue.node_id, _LOST)
        # A lost worker is no fault of the target: the next attempt need not wait.
        return Requeue(overdue, now, msgspec.json.encode(record).decode())
    return Finish(
        overdue, decision.state, now, msgspec.json.encode(outcome).decode(), _LOST, fingerprint(_LOST)
    )


def _retry_of(overdue: Overdue) -> Retry | None:
    """None if this version cannot read it: then another attempt is the way to lose nothing."""
    if overdue.policies is None:
        return Policies().retry
    try:
        return read_policies(overdue.policies).retry
    except Unreadable:
        return None
