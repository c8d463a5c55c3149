"""Keeps long claims alive, and hears about cancellations and losses.

Most executions end long before their claim's deadline and never cost a heartbeat. Only claims that are still
held when more than half of their time is over are extended, all of them in one statement.
"""

from collections.abc import Callable, Iterable
from typing import Final

import structlog

from tocsin.domain.instant import MILLISECOND, SECOND, Instant, Span
from tocsin.queue.claiming.claiming import Claiming
from tocsin.queue.claims import Claim, ClaimIdentity
from tocsin.service import Report
from tocsin.worker.runner import Runner

_STOPS_AGAIN_IN: Final = 10 * MILLISECOND
_log = structlog.get_logger()


class Heartbeat:
    """Extends claims that are running, waiting to be started, or waiting to be settled."""

    name = "heartbeat"

    def __init__(
        self,
        claiming: Claiming,
        runner: Runner,
        waiting: Callable[[], Iterable[Claim]],
        starting: Callable[[], bool],
        *,
        claim_ttl: float,
    ) -> None:
        self.interval = claim_ttl / 5
        self._claiming = claiming
        self._runner = runner
        self._waiting = waiting
        self._starting = starting
        self._late: Span = round(claim_ttl * 0.5 * SECOND)
        self._asked_to_stop = False
        self._lost: set[ClaimIdentity] = set()

    def look_for_stops(self) -> None:
        """A running execution was asked to stop; the next run finds out whether it is one of ours."""
        self._asked_to_stop = True

    async def run_once(self, now: Instant) -> Report:
        """Extend what needs it; stop what was cancelled; let go of what was lost."""
        stops = self._asked_to_stop
        # The request may concern an execution whose start was not answered yet. The runner has it only after
        # the answer, so look again until no start is under way.
        self._asked_to_stop = stops and self._starting()
        try:
            return await self._beat(now, stops=stops)
        except BaseException:
            self._asked_to_stop |= stops  # no call was asked: the next run asks again
            raise

    async def _beat(self, now: Instant, *, stops: bool) -> Report:
        running, waiting = self._without_lost(self._runner.claims(), [*self._waiting()])
        claims = [claim for claim in (*running, *waiting) if claim.deadline_at - now < self._late]
        if stops:
            claims = list({claim.identity: claim for claim in (*claims, *running)}.values())
        again_at = now + _STOPS_AGAIN_IN if self._asked_to_stop else None
        if not claims:
            return Report(again_at=again_at)
        lost, cancelled = await self._claiming.extend(claims)
        self._lost.update(claim.identity for claim in lost)
        # What is not under way any more ended by itself, while the statement was on its way.
        abandoned = sum([self._runner.abandon(claim) for claim in lost])
        for claim in cancelled:
            self._runner.stop(claim)
        if abandoned:
            _log.warning("claims.lost_while_running", count=abandoned)
        return Report(done=len(claims), again_at=again_at)

    def _without_lost(self, *held: list[Claim]) -> tuple[list[Claim], ...]:
        """A lost claim stays lost: it is not asked for again while its outcome waits to be refused."""
        if not self._lost:
            return held
        self._lost &= {claim.identity for claims in held for claim in claims}
        return tuple([claim for claim in claims if claim.identity not in self._lost] for claims in held)
