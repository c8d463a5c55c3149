"""A gateway's parts, and which of their signals sets off what."""

from datetime import timedelta

import msgspec
import structlog

from tocsin.clock import Clock
from tocsin.db.notices import Notices
from tocsin.db.pool import Database
from tocsin.domain.errors import Unavailable
from tocsin.domain.instant import SECOND, Span
from tocsin.failpoints import Failpoints
from tocsin.queue.attempt_log import attempt_log
from tocsin.queue.claiming.claiming import Claiming
from tocsin.queue.claiming.holding import Holding
from tocsin.queue.claiming.late_entries import ENTERED, LateEntries
from tocsin.queue.claiming.looking import Looking
from tocsin.queue.claims import Claim
from tocsin.queue.holder import Holder
from tocsin.queue.settling.settling import Settling
from tocsin.queue.slots.slots import Slots
from tocsin.queue.starting.gate import Gate
from tocsin.queue.starting.starting import Starting
from tocsin.queue.tenant_caps import Rank, TenantCaps
from tocsin.service import Loop
from tocsin.settings import Settings
from tocsin.store.control.pausing import Pausing
from tocsin.store.leases import LeaseStore, Renewal
from tocsin.store.logs import LogStore
from tocsin.store.misfires import MisfireStore
from tocsin.store.tallies import TallyStore
from tocsin.store.workers import WorkerStore
from tocsin.telemetry import Telemetry
from tocsin.worker.misfires import Misfires
from tocsin.worker.remote.beginning import Beginning
from tocsin.worker.remote.dispatcher import Dispatcher
from tocsin.worker.remote.gateway import Gateway
from tocsin.worker.remote.held import HeldClaims
from tocsin.worker.remote.keeper import Keeper
from tocsin.worker.remote.served_lanes import ServedLanes
from tocsin.worker.remote.sessions import Sessions
from tocsin.worker.remote.settler import RemoteSettler
from tocsin.worker.slot_returner import SlotReturner
from tocsin.worker.stragglers import Stragglers
from tocsin.worker.tallies import Tallies

_log = structlog.get_logger()


class GatewayParts(msgspec.Struct, frozen=True):
    """A gateway, and what must run for it."""

    gateway: Gateway
    settler: RemoteSettler
    held: HeldClaims
    sessions: Sessions
    slots: Slots
    rank: Rank
    loops: list[Loop]
    dispatching: Loop
    settling: Loop
    keeping: Loop
    keeper: Keeper
    slot_keeping: Loop
    late_entries: LateEntries

    def listen(self, notices: Notices) -> None:
        """Let notices from the database wake the parts they concern."""
        notices.hear(ENTERED, self.late_entries.heard)
        notices.on("ready", self.dispatching.wake)
        notices.on("slots", self.slot_keeping.wake)
        notices.on("stop", self._look_at_held)
        notices.on("settled", self._look_at_held)
        notices.on("workers", self._look_at_states)

    def heard(self, renewal: Renewal) -> None:
        """The node's heartbeat learned which workers are live: our share of tenants' limits follows."""
        self.rank.learn(renewal.workers, renewal.now / SECOND)

    async def drain(self) -> None:
        """Answer what is parked, and write down what was told. What cannot be written workers tell another
        gateway."""
        self.gateway.stop()
        for loop in (self.dispatching, self.settling):
            loop.stop()
            await loop.ended()
        try:
            while self.settler.backlog:
                await self.settler.run_once(0)
            await self.slots.give_back_all()
        except Unavailable as error:
            _log.warning("gateway.drained_partly", error=str(error), unsettled=self.settler.backlog)

    def _look_at_held(self) -> None:
        self.keeper.look_at_held()
        self.keeping.wake()

    def _look_at_states(self) -> None:
        self.keeper.look_at_states()
        self.keeping.wake()


def make_gateway(
    database: Database,
    nodes: LeaseStore,
    clock: Clock,
    settings: Settings,
    telemetry: Telemetry,
    failpoints: Failpoints,
    *,
    node_id: int,
    cell: int,
) -> GatewayParts:
    """Put a gateway together; nothing of it runs yet."""
    slots = Slots(database, cell, Holder(node_id))
    lanes = ServedLanes()
    looking = Looking(database, cell, lanes)
    settling = Settling(database, cell, slots)
    control = Pausing(database, settings.horizon)
    tallies = Tallies(TallyStore(database, node_id), clock, telemetry)

    async def pause_failing(claim: Claim, error: str, deaths: int) -> bool:
        if claim.version is None:
            return False
        return await control.pause_failing(
            claim.tenant_id, claim.key, claim.token, claim.version, deaths, error
        )

    def claiming(worker_id: int, lease: Span) -> Claiming:
        ttl = timedelta(microseconds=lease)
        return Claiming(
            database, cell, Holder(node_id, worker_id), ttl, looking.low_marks, slots, offers=False
        )

    settler = RemoteSettler(
        settling,
        clock,
        telemetry,
        failpoints,
        node_id=node_id,
        pause_failing=pause_failing,
        count_succeeded=tallies.succeeded,
        attempts=attempt_log(settings.log_attempts, settings.log_share),
    )
    misfires = Misfires(settling, MisfireStore(database), telemetry, failpoints)
    sessions, held, holding = Sessions(), HeldClaims(), Holding(database, cell)
    rank = Rank(node_id, settings.lease_ttl)
    dispatcher = Dispatcher(
        sessions,
        looking,
        lanes,
        Beginning(Starting(database, cell, Gate(database, cell, slots)), settler, misfires, telemetry),
        held,
        settler,
        TenantCaps(rank, settings.limit_in_flight, settings.limit_fires_per_second),
        telemetry,
        failpoints,
    )
    keeper = Keeper(sessions, held, holding, slots, WorkerStore(database), nodes, node_id)
    gateway = Gateway(
        sessions, held, holding, settler, slots, claiming, WorkerStore(database), LogStore(database), clock
    )
    stragglers = Stragglers(looking)
    dispatching, settling_loop, keeping = Loop(dispatcher, clock), Loop(settler, clock), Loop(keeper, clock)
    deciding, slot_keeping = Loop(misfires, clock), Loop(SlotReturner(slots), clock)
    gateway.parked.connect(dispatching.wake)
    gateway.joined.connect(keeping.wake)
    settler.unsettled.connect(settling_loop.wake)
    settler.requeued.connect(dispatching.wake)
    misfires.undecided.connect(deciding.wake)
    misfires.decided.connect(dispatching.wake)
    stragglers.found.connect(dispatching.wake)
    slots.taken.connect(slot_keeping.wake)
    return GatewayParts(
        gateway,
        settler,
        held,
        sessions,
        slots,
        rank,
        [
            dispatching,
            settling_loop,
            keeping,
            deciding,
            slot_keeping,
            Loop(stragglers, clock),
            Loop(tallies, clock),
        ],
        dispatching,
        settling_loop,
        keeping,
        keeper,
        slot_keeping,
        LateEntries(looking),
    )
