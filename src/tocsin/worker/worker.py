"""One worker: its parts, and which of their signals sets off what.

::

    claimer ──► runner ──► settler        due work: claimed and started in one statement
       │          ▲
       ▼          │
    timetable ─► starter                  work ahead of time: started a moment before its instant, fired on it
                    └─► misfires          what was missed: decided by its policy
                heartbeat                 long work
                line_keeper               work that waits for its host
                stragglers                what was left below the low marks

Parts are handed what they use when they are made. Whatever else they have to tell they send as a signal, and
`_connect` says what listens.
"""

from collections.abc import Awaitable, Iterable, Mapping
from typing import Final

import structlog

from tocsin.clock import Clock
from tocsin.db.notices import Notices
from tocsin.domain.errors import Unavailable
from tocsin.domain.instant import SECOND
from tocsin.failpoints import Failpoints
from tocsin.queue.attempt_log import attempt_log
from tocsin.queue.claiming.late_entries import ENTERED, LateEntries
from tocsin.queue.claims import Claim
from tocsin.queue.queue import Queue
from tocsin.queue.tenant_caps import Rank, TenantCaps
from tocsin.service import Loop
from tocsin.settings import Settings
from tocsin.store.control.pausing import Pausing
from tocsin.store.leases import Renewal
from tocsin.store.misfires import MisfireStore
from tocsin.targets.caller import Caller
from tocsin.targets.script.caller import SCRIPT_HOST
from tocsin.telemetry import Telemetry
from tocsin.worker.claimer import Claimer
from tocsin.worker.heartbeat import Heartbeat
from tocsin.worker.lateness import Lateness
from tocsin.worker.misfires import Misfires
from tocsin.worker.places import Places
from tocsin.worker.runner import Runner
from tocsin.worker.settler import Settler, count_none
from tocsin.worker.slot_returner import SlotReturner
from tocsin.worker.start_lead import StartLead
from tocsin.worker.starter import Starter
from tocsin.worker.stragglers import Stragglers
from tocsin.worker.tallies import Tallies
from tocsin.worker.timetable import Timetable

_SETTLE_TRIES: Final = 3
_WORTH_A_CLAIM: Final = 8
"""A full worker claims again when this part of its places is free: fewer are not worth the statement."""
_log = structlog.get_logger()


class Worker:
    """Assembles the parts of a worker over one queue. `callers` by the routes that they serve."""

    def __init__(
        self,
        queue: Queue,
        callers: Mapping[str, Caller],
        clock: Clock,
        settings: Settings,
        telemetry: Telemetry,
        failpoints: Failpoints,
        *,
        node_id: int,
        misfires: MisfireStore,
        control: Pausing | None = None,
        tallies: Tallies | None = None,
    ) -> None:
        self.rank = Rank(node_id, settings.lease_ttl)
        self._queue = queue
        self._clock = clock
        self._settings = settings
        self._control = control
        self._tallies = tallies
        lead = StartLead(clock.monotonic)
        self.timetable = Timetable(lead.span)
        self.lateness = Lateness()
        self.places = Places(settings.concurrency)
        self.settler = Settler(
            queue.settling,
            clock,
            telemetry,
            failpoints,
            node_id=node_id,
            yield_to=self._beginnings_wait,
            pause_gone=self._pause_gone,
            pause_failing=self._pause_failing,
            count_succeeded=count_none if tallies is None else tallies.succeeded,
            attempts=attempt_log(settings.log_attempts, settings.log_share),
        )
        self.runner = Runner(
            callers,
            self.settler,
            self.places,
            self.timetable,
            queue.slots,
            clock,
            telemetry,
            failpoints,
            host_concurrency=settings.host_concurrency,
            rooms={SCRIPT_HOST: settings.script_concurrency},
        )
        self.misfires = Misfires(queue.settling, misfires, telemetry, failpoints)
        self.starter = Starter(
            queue.starting,
            self.timetable,
            self.runner,
            self.places,
            self.misfires,
            self.lateness,
            telemetry,
            failpoints,
            lead,
        )
        self.claimer = Claimer(
            queue,
            self.timetable,
            self.runner,
            self.places,
            self.settler,
            self.misfires,
            telemetry,
            failpoints,
            ahead=settings.claim_ahead,
            batch=settings.claim_batch,
            held_max=settings.held_max,
            lateness=self.lateness,
            tenant_caps=TenantCaps(self.rank, settings.limit_in_flight, settings.limit_fires_per_second),
        )
        self.heartbeat = Heartbeat(
            queue.claiming,
            self.runner,
            self._waiting,
            lambda: bool(self.starter.unanswered),
            claim_ttl=settings.claim_ttl,
        )
        self.stragglers = Stragglers(queue.looking)
        self._claiming = Loop(self.claimer, clock)
        self._starting = Loop(self.starter, clock)
        self._settling = Loop(self.settler, clock)
        self._deciding = Loop(self.misfires, clock)
        self._beating = Loop(self.heartbeat, clock)
        self._keeping = Loop(SlotReturner(queue.slots), clock)
        self._lining = Loop(self.runner.line_keeper, clock)
        self._sweeping = Loop(self.stragglers, clock)
        self._connect()

    def _connect(self) -> None:
        """Which signal sets off what."""
        self.timetable.earlier.connect(self._starting.wake)
        self.places.left.connect(self._claim_if_worth_it)
        self.misfires.undecided.connect(self._deciding.wake)
        self.misfires.decided.connect(self._look_again)
        self.settler.unsettled.connect(self._settling.wake)
        self.settler.settled.connect(self._use_free_places)
        self.settler.requeued.connect(self._look_again)
        self.runner.freed.connect(self._use_free_places)
        self.runner.line_keeper.in_line.connect(self._lining.wake)
        self.stragglers.found.connect(self._look_again)
        self._queue.slots.taken.connect(self._keeping.wake)

    def listen(self, notices: Notices) -> None:
        """Let notices from the database wake the parts they concern."""
        notices.hear(ENTERED, LateEntries(self._queue.looking).heard)
        notices.on("ready", self._look_again)
        notices.on("slots", self._keeping.wake)
        notices.on("stop", self._look_for_stops)

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
            *([Loop(self._tallies, self._clock)] if self._tallies else []),
        ]

    def heard(self, renewal: Renewal) -> None:
        """The node's heartbeat learned which workers are live: our share of tenants' limits follows."""
        self.rank.learn(renewal.workers, renewal.now / SECOND)
        self.lateness.learn(renewal.workers)

    async def drain(self) -> None:
        """Claim nothing more, give back what has not started, finish what has, write it all down."""
        self._sweeping.stop()
        self.stragglers.give_up()
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
        if self._tallies:
            await self._tried(self._tallies.write_all())
        self._settling.stop()
        self._beating.stop()
        self._keeping.stop()
        self._lining.stop()

    async def _tried(self, step: Awaitable[None]) -> None:
        """A step of draining. A claim whose outcome could not be written passes its deadline and is reclaimed
        by another node."""
        try:
            await step
        except Unavailable as error:
            _log.warning("worker.drained_partly", error=str(error), unsettled=self.settler.backlog)

    async def _give_back_held(self) -> None:
        """Give back claims that have not started, also those that may have started without an answer: none of
        them was called."""
        self.runner.give_back(self.starter.unanswered)
        if held := self.timetable.pop_all() + self.misfires.give_up():
            await self._queue.claiming.release(held)
        await self.claimer.give_back_unanswered(self._clock.now())

    async def _settle_the_rest(self) -> None:
        """Write down every outcome. Not beside the settler's own loop: two runs share one batch, and the one
        that ends first would drop what the other has added to it. A broken connection alone must not cost all
        outcomes."""
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

    async def _pause_failing(self, claim: Claim, error: str, deaths: int) -> bool:
        if self._control is None or claim.version is None:
            return False
        return await self._control.pause_failing(
            claim.tenant_id, claim.key, claim.token, claim.version, deaths, error
        )

    def _look_again(self) -> None:
        """Something new may be in the queue."""
        self.claimer.forget_look()
        self._claiming.wake()

    def _look_for_stops(self) -> None:
        self.heartbeat.look_for_stops()
        self._beating.wake()

    def _use_free_places(self) -> None:
        """Wake the parts that had no room, once there is enough for a batch worth its statement."""
        if self.places.blocked and self._many(self.places.unused):
            self._claiming.wake()
        if self.timetable and self.places.unused == 1:
            self._starting.wake()

    def _claim_if_worth_it(self) -> None:
        """The starter left places to what is queued: worth a claim if there are many, or if that is more
        urgent."""
        if self._many(self.places.free) or self.places.urgent(self.timetable.due(0)):
            self._claiming.wake()

    def _many(self, places: int) -> bool:
        return places >= self._settings.concurrency // _WORTH_A_CLAIM

    def _beginnings_wait(self) -> bool:
        """Whether something waits to be started, and not for a place, or a crowd is firing."""
        now, next_at = self._clock.now(), self.timetable.next_at()
        late = next_at is not None and next_at <= now
        return (late and self.places.free > 0 and not self.places.queued) or self.runner.is_firing(now)

    def _waiting(self) -> Iterable[Claim]:
        return (*self.timetable, *self.starter.unanswered, *self.misfires.claims(), *self.settler.claims())
