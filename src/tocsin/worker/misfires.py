"""Claims whose grace is over before they could start: the misfire policy of their job decides about them.

The starter hands them over, and `remote/beginning.py` for remote workers. The store decides about all that
a job has missed, whichever worker claimed it; the rule is in `domain/misfire.py`. Executions that still run
come back through the catch-up lane. A claim that is still held afterwards is put back, for one of three
reasons: the planner is behind with the job and will decide, another transaction had locked the job, or the
grace was not over by the database's clock.

Nothing can be lost: the database knows every claim that is kept here. A batch without an answer is repeated;
executions that the first try decided are left alone.
"""

from collections.abc import Sequence
from typing import Final
from uuid import UUID

from tocsin.domain.instant import SECOND, Instant, Span
from tocsin.failpoints import Failpoints
from tocsin.queue.claims import Claim
from tocsin.queue.settling.settling import Settling
from tocsin.service import AGAIN_NOW, Report
from tocsin.signals import Signal
from tocsin.store.misfires import MisfireStore
from tocsin.telemetry import Telemetry

_BATCH: Final = 1000
_LEFT_TO_PLANNER: Final[Span] = 5 * SECOND
"""After this a worker looks again at an execution that the planner was to decide about."""
_LEFT_TO_OTHERS: Final[Span] = SECOND // 5
"""The same where another transaction had the job locked, or there is more to decide."""


def was_missed(claim: Claim, now: Instant) -> bool:
    """Whether a claim that has not started yet is its misfire policy's to decide about."""
    return claim.missed_after is not None and claim.missed_after < now


class Misfires:
    """Has missed claims decided."""

    name = "misfires"
    interval = 60.0  # woken by `put`

    def __init__(
        self, settling: Settling, store: MisfireStore, telemetry: Telemetry, failpoints: Failpoints
    ) -> None:
        self._settling = settling
        self._store = store
        self._telemetry = telemetry
        self._failpoints = failpoints
        self._held: list[Claim] = []
        self.undecided = Signal("misfires_undecided")
        """Sent when there is something to decide."""
        self.decided = Signal("misfires_decided")
        """Sent when something may be in the catch-up lane."""

    def __len__(self) -> int:
        return len(self._held)

    def claims(self) -> list[Claim]:
        """Claims that wait for a decision."""
        return self._held

    def put(self, claims: Sequence[Claim]) -> None:
        """Hand over claims whose grace is over."""
        if claims:
            self._held = [*self._held, *claims]
            self.undecided.send()

    def give_up(self) -> list[Claim]:
        """Take out whatever has not been decided: the worker stops."""
        held, self._held = self._held, []
        return held

    async def run_once(self, now: Instant) -> Report:
        """Decide about one batch."""
        batch = self._held[:_BATCH]
        if not batch:
            return Report()
        await self._failpoints.reach("misfires.before")
        done = await self._store.decide([(claim.tenant_id, claim.job_id) for claim in batch], now)
        await self._failpoints.reach("misfires.decided")
        await self._put_back(batch, done.behind, now)
        self._held = self._held[len(batch) :]
        self._telemetry.finished.labels("skipped").inc(done.dropped)
        self.decided.send()
        return Report(done=len(batch), again_at=AGAIN_NOW if self._held else None)

    async def _put_back(self, batch: list[Claim], behind: frozenset[UUID], now: Instant) -> None:
        """A claim that was decided is not ours any more, and is not touched by this."""
        for claims, wait in (
            ([claim for claim in batch if claim.job_id in behind], _LEFT_TO_PLANNER),
            ([claim for claim in batch if claim.job_id not in behind], _LEFT_TO_OTHERS),
        ):
            if claims:
                await self._settling.put_back(claims, now + wait)
