"""Claims whose grace is over before they could start: the misfire policy of their job decides about them.

They come from the starter. The store decides about each job at once, in batches, whoever holds the executions; what is to
run comes back through the catch-up lane. A claim that is still held after that is put back: its job is behind, and the
planner will decide; or somebody else has locked the job; or its time was not quite over by the database's clock.

What may be lost: nothing. Nothing is kept that the database does not know, and a batch without an answer is repeated:
what was decided then has nothing left to decide.
"""

from collections.abc import Callable, Sequence
from typing import Final
from uuid import UUID

from tocsin.domain.instant import SECOND, Instant, Span
from tocsin.failpoints import Failpoints
from tocsin.queue.claims import Claim
from tocsin.queue.postgres import PostgresQueue
from tocsin.service import AGAIN_NOW, Report
from tocsin.store.misfires import MisfireStore
from tocsin.telemetry import Telemetry

_BATCH: Final = 1000
_LEFT_TO_PLANNER: Final[Span] = 5 * SECOND
"""After this a worker looks again at an execution that the planner was to decide about."""
_SOON: Final[Span] = SECOND // 5


def was_missed(claim: Claim, now: Instant) -> bool:
    """Whether a claim that has not started yet is its misfire policy's to decide about."""
    return claim.missed_after is not None and claim.missed_after < now


class Misfires:
    """Has missed claims decided."""

    name = "misfires"
    interval = 60.0  # woken by `put`

    def __init__(
        self, queue: PostgresQueue, store: MisfireStore, telemetry: Telemetry, failpoints: Failpoints
    ) -> None:
        self._queue = queue
        self._store = store
        self._telemetry = telemetry
        self._failpoints = failpoints
        self._held: list[Claim] = []
        self.wake: Callable[[], None] = lambda: None
        self.decided: Callable[[], None] = lambda: None
        """Called when something may be in the catch-up lane."""

    def __len__(self) -> int:
        return len(self._held)

    def claims(self) -> list[Claim]:
        """Claims that wait for a decision."""
        return self._held

    def put(self, claims: Sequence[Claim]) -> None:
        """Hand over claims whose grace is over."""
        if claims:
            self._held = [*self._held, *claims]
            self.wake()

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
        self.decided()
        return Report(done=len(batch), again_at=AGAIN_NOW if self._held else None)

    async def _put_back(self, batch: list[Claim], behind: frozenset[UUID], now: Instant) -> None:
        """What was decided is not ours any more, and is not touched by this."""
        for claims, wait in (
            ([claim for claim in batch if claim.job_id in behind], _LEFT_TO_PLANNER),
            ([claim for claim in batch if claim.job_id not in behind], _SOON),
        ):
            if claims:
                await self._queue.put_back(claims, now + wait)
