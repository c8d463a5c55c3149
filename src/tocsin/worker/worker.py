"""One worker: its parts, and how they wake each other.

::

    claimer ──► runner ──► settler        due work: claimed and started in one statement
       │          ▲
       ▼          │
    timetable ─► starter                  work ahead of time: started a moment before its instant, fired on it
                    └─► misfires          what was missed: decided by its policy
                heartbeat                 long work
                line_keeper               work that waits for its host
                stragglers                what was left below the floors
"""

from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Final

import structlog

from tocsin.clock import Clock
from tocsin.db.notices import Notices
from tocsin.domain.errors import Unavailable
from tocsin.domain.instant import SECOND
from tocsin.failpoints import Failpoints
from tocsin.queue.claims import Claim
from tocsin.queue.postgres import PostgresQueue
from tocsin.queue.shares import Rank, TenantShares
from tocsin.service import Loop
from tocsin.settings import Settings
from tocsin.store.control.pausing import Pausing
from tocsin.store.leases import Renewal
from tocsin.store.misfires import MisfireStore
from tocsin.telemetry import Telemetry
from tocsin.worker.claimer import Claimer
from tocsin.worker.heartbeat import Heartbeat
from tocsin.worker.lateness import Lateness
from tocsin.worker.misfires import Misfires
from tocsin.worker.places import Places
from tocsin.worker.runner import Caller, Runner
from tocsin.worker.settler import Settler
from tocsin.worker.slot_keeper import SlotKeeper
from tocsin.worker.starter import Starter
from tocsin.worker.stragglers import Stragglers
from tocsin.worker.timetable import Timetable

_SETTLE_TRIES: Final = 3
_log = structlog.get_logger()


class Worker:
    """Assembles the parts of a worker over one queue."""

    def __init__(
        self,
        queue: PostgresQueue,
        callers: Mapping[type, Caller],
        clock: Clock,
        settings: Settings,
        telemetry: Telemetry,
        failpoints: Failpoints,
        *,
        node_id: int,
        misfires: MisfireStore,
        control: Pausing | None = None,
    ) -> None:
        self.rank = Rank(node_id, settings.lease_ttl)
        self._queue = queue
        self._clock = clock
        self._settings = settings
        self._control = control
        self.timetable = Timetable()
        self.lateness = Lateness()
        self.settler = Settler(
            queue,
            clock,
            telemetry,
            failpoints,
            node_id=node_id,
            yield_to=lambda: self.starter.overdue(clock.now()),
            pause_gone=self._pause_gone,
        )
        self.runner = Runner(
            callers,
            self.settler,
            clock,
            telemetry,
            failpoints,
            concurrency=settings.concurrency,
            host_concurrency=settings.host_concurrency,
        )
        self.places = Places(self.runner)
        self.starter = Starter(
            queue, self.timetable, self.runner, self.places, self.lateness, telemetry, failpoints
        )
        self.misfires = Misfires(queue, misfires, telemetry, failpoints)
        self.claimer = Claimer(
            queue,
            self.timetable,
            self.runner,
            self.places,
            self.settler,
            telemetry,
            failpoints,
            ahead=settings.claim_ahead,
            batch=settings.claim_batch,
            held_max=settings.held_max,
            lateness=self.lateness,
            shares=TenantShares(self.rank, settings.limit_in_flight, settings.limit_fires_per_second),
        )
        self.heartbeat = Heartbeat(
            queue,
            self.runner,
            self._waiting,
            lambda: bool(self.starter.unanswered),
            claim_ttl=settings.claim_ttl,
        )
        self._claiming = Loop(self.claimer, clock)
        self._starting = Loop(self.starter, clock)
        self._settling = Loop(self.settler, clock)
        self._deciding = Loop(self.misfires, clock)
        self._beating = Loop(self.heartbeat, clock)
        self._keeping = Loop(SlotKeeper(queue.slots), clock)
        self._lining = Loop(self.runner.line_keeper, clock)
        self._look_again = _both(self.claimer.forget_look, self._claiming.wake)
        self._stragglers = Stragglers(queue, self._look_again)
        self._sweeping = Loop(self._stragglers, clock)
        self._wire()

    @property
    def loops(self) -> list[Loop]:
        """What must be running."""
        return [
            self._claiming,
            self._starting,
            self._settling,
            self._beating,
            self._keeping,
            self._lining,
            self._sweeping,
            self._deciding,
        ]

    def heard(self, renewal: Renewal) -> None:
        """The node's heartbeat learned who else works: our share of tenants' limits follows."""
        self.rank.learn(renewal.workers, renewal.now / SECOND)
        self.lateness.learn(renewal.workers)

    def listen(self, notices: Notices) -> None:
        """Let notices from the database wake the parts they concern."""
        notices.on("ready", self._look_again)
        notices.on("slots", self._keeping.wake)
        notices.on("stop", _both(self.heartbeat.look_for_stops, self._beating.wake))

    async def drain(self) -> None:
        """Claim nothing more, give back what has not started, finish what has, write it all down."""
        self._sweeping.stop()
        self._stragglers.give_up()
        self._claiming.stop()
        self._starting.stop()
        # A claim or start under way still adds to the timetable or the runner; only then is all of it there.
        await self._claiming.ended()
        await self._starting.ended()
        self._deciding.stop()
        await self._deciding.ended()
        await self._tried(self._give_back_held())
        await self.runner.drain(self._settings.drain_timeout)
        await self._tried(self._settle_the_rest())
        await self._tried(self._queue.slots.give_back_all())
        self._settling.stop()
        self._beating.stop()
        self._keeping.stop()
        self._lining.stop()

    async def _tried(self, step: Awaitable[None]) -> None:
        """A step of draining. What could not be written down passes its deadline and is reclaimed by others."""
        try:
            await step
        except Unavailable as error:
            _log.warning("worker.drained_partly", error=str(error), unsettled=self.settler.backlog)

    async def _give_back_held(self) -> None:
        """What has not started goes back, also what may have started without an answer: nothing of it was called."""
        self.runner.give_back(self.starter.unanswered)
        if held := self.timetable.pop_all() + self.misfires.give_up():
            await self._queue.release(held)
        await self.claimer.give_back_unanswered(self._clock.now())

    async def _settle_the_rest(self) -> None:
        """Write down every outcome. Not beside the settler's own loop: two runs share one batch, and the one that ends first
        would drop what the other has added to it. A broken connection alone must not cost all outcomes."""
        self._settling.stop()
        await self._settling.ended()
        for tries_left in reversed(range(_SETTLE_TRIES)):
            try:
                while self.settler.backlog:
                    await self.settler.run_once(0)
            except Unavailable:
                if not tries_left:
                    raise

    async def _pause_gone(self, claim: Claim, reason: str) -> bool:
        if self._control is None or claim.target is None:
            return False
        return await self._control.pause_gone(claim.tenant_id, claim.key, claim.token, claim.target, reason)

    def _wire(self) -> None:
        self.claimer.earlier = self._starting.wake
        self.starter.left_places = self._left_places
        self.claimer.undecided = self.misfires.__len__
        self.starter.missed = self.misfires.put
        self.misfires.wake = self._deciding.wake
        self.misfires.decided = self._look_again
        self.settler.wake = self._settling.wake
        self.settler.settled = self._room_made
        self.settler.requeued = self._look_again
        self.runner.freed = self._room_made
        self.runner.line_keeper.others_wait = self._others_wait
        self.runner.line_keeper.wake = self._lining.wake
        self.claimer.rooms_in_line = self.runner.line_keeper.lines.rooms
        self._queue.slots.taken = self._keeping.wake
        self.runner.abandoned = self._abandoned

    def _room_made(self) -> None:
        """Wake those that had no room, once there is enough for a batch worth its statement."""
        if self.claimer.blocked and self.runner.free >= self._settings.concurrency // 8:
            self._claiming.wake()
        if self.timetable and self.runner.free == 1:
            self._starting.wake()

    def _others_wait(self) -> bool:
        """Whether there is work for a place beside what stands in line for a host."""
        next_at = self.timetable.next_at()
        return self.claimer.blocked or (next_at is not None and next_at <= self._clock.now())

    def _left_places(self) -> None:
        """The starter left places to what is queued: worth a claim if there are enough, or if that is more urgent."""
        enough = self.places.free >= self._settings.concurrency // 8
        if enough or self.places.urgent(self.timetable.due(0)):
            self._claiming.wake()

    def _abandoned(self, claim: Claim) -> None:
        """Its slot is not in use any more; whoever waits for it may have it."""
        self._queue.slots.leave([claim])
        self._keeping.wake()

    def _waiting(self) -> Iterable[Claim]:
        return (*self.timetable, *self.starter.unanswered, *self.misfires.claims(), *self.settler.claims())


def _both(first: Callable[[], None], second: Callable[[], None]) -> Callable[[], None]:
    def call() -> None:
        first()
        second()

    return call
