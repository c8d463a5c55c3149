"""A node of the simulated fleet: the product's own parts, driven turn by turn.

Each part is a real service behind a real `Loop`; the simulation asks the loop when the part wants to run and
runs it itself, so that it decides what happens next and can stop in the middle. What is in memory belongs to
the node object: dropping the object is what a crash does.
"""

import asyncio
import contextlib
from typing import Any

from tests.simulation.faults import Faults, FaultyDatabase, SimulatedCrash, spin
from tests.simulation.target import Target
from tests.simulation.virtual_time import VirtualTimer
from tests.support.queues import CELL, whole_queue
from tocsin.clock import VirtualClock
from tocsin.db.pool import Database
from tocsin.db.statements import named
from tocsin.domain.errors import OwnershipLost, Unavailable
from tocsin.domain.instant import SECOND, Instant
from tocsin.queue.reclaiming.reclaiming import Reclaiming
from tocsin.queue.slots.healing import Healing
from tocsin.scheduler.leaser import Leaser, Leases
from tocsin.scheduler.planner import Planner
from tocsin.scheduler.reclaimer import Reclaimer
from tocsin.service import Loop, Report, Service
from tocsin.settings import Settings
from tocsin.store.leases import LeaseStore
from tocsin.store.misfires import MisfireStore
from tocsin.store.plans import PlanStore
from tocsin.targets.noop.caller import NoopCaller
from tocsin.telemetry import Telemetry
from tocsin.worker.worker import Worker

ROLES = ("scheduler", "worker")
_WRITE_PLAN = named("tocsin.store", "write_plan")
_STOPPED_BY_LEAVING = ("planner", "reclaimer", "claimer", "starter")


class Held:
    """A piece of work that a fault made wait."""

    def __init__(self, until: Instant, task: "asyncio.Task[Any] | None") -> None:
        self.until = until
        self.task = task
        self.release: asyncio.Future[None] = asyncio.get_running_loop().create_future()


class Part:
    """One service of a node, and when it wants to run."""

    def __init__(self, loop: Loop, now: Instant) -> None:
        self.loop = loop
        self.name = loop.service.name
        self.next_at = now
        self.task: asyncio.Task[Any] | None = None
        self.pause = SECOND // 10
        self.attention = asyncio.Event()

    @property
    def due_at(self) -> Instant:
        return 0 if self.loop._wake.is_set() else self.next_at

    def begin(self, now: Instant) -> None:
        self.loop._wake.clear()
        self.task = asyncio.create_task(self.loop.service.run_once(now))
        self.task.add_done_callback(lambda _: self.attention.set())

    def end(self, now: Instant) -> str | None:
        """Take note of how a run ended. Returns what should not have happened."""
        task, self.task = self.task, None
        if task is None or task.cancelled():
            return None
        error = task.exception()
        if error is None:
            self.pause = SECOND // 10
            self.next_at = now + round(self.loop._until(task.result()) * SECOND)
            return None
        self.next_at = now + self.pause
        self.pause = min(self.pause * 2, 3 * SECOND)
        expected = (Unavailable, OwnershipLost, SimulatedCrash)
        return None if isinstance(error, expected) else f"{self.name} raised {error!r}"


class SimulatedNode:
    """One process of the fleet."""

    def __init__(self, name: str, node_id: int, clock: VirtualClock) -> None:
        self.name = name
        self.node_id = node_id
        self.clock = clock
        self.dead = False
        self.leaving = False
        self.frozen_until: Instant = 0
        self.held: list[Held] = []
        self.parts: list[Part] = []
        self.telemetry = Telemetry()

    @classmethod
    async def join(
        cls,
        name: str,
        database: Database,
        leasing: Database,
        clock: VirtualClock,
        settings: Settings,
        faults: Faults,
        target: Target,
    ) -> "SimulatedNode":
        """Start a node: register it in the fleet and put its parts together as `tocsin.roles.engine` does."""
        node_id = await LeaseStore(leasing, settings.lease_ttl).register(name, ROLES, "simulated")
        node = cls(name, node_id, clock)
        points = faults.failpoints(node)
        lease_store = LeaseStore(FaultyDatabase(leasing, faults, node), settings.lease_ttl)
        engine = WritingDatabase(database, faults, node)
        node.leases = Leases(clock, settings.lease_ttl)
        node.worker = Worker(
            whole_queue(engine, node_id, settings.claim_ttl),
            {"http": target.caller(node.awake), "noop": NoopCaller()},
            clock,
            settings,
            node.telemetry,
            points,
            node_id=node_id,
            misfires=MisfireStore(engine),
        )
        node.timer = VirtualTimer(clock, node.worker.runner)
        planner = Planner(
            PlanStore(engine, node_id),
            node.leases,
            horizon=settings.horizon,
            wake_within=settings.claim_ahead,
            telemetry=node.telemetry,
            failpoints=points,
        )
        reclaimer = Reclaimer(
            Reclaiming(engine, CELL),
            Healing(engine, CELL),
            node.leases,
            node.telemetry,
            points,
            claim_ttl=settings.claim_ttl,
        )
        schedulers = [Loop(service, clock) for service in (planner, reclaimer)]
        node.leaser = Leaser(
            lease_store,
            clock,
            node.leases,
            node_id=node_id,
            ttl=settings.lease_ttl,
            plans=True,
            telemetry=node.telemetry,
            failpoints=points,
            rejoin=lambda: lease_store.register(name, ROLES, "simulated", node_id),
            changed=lambda: [loop.wake() for loop in schedulers],
        )
        loops = [Loop(node.leaser, clock), *schedulers, *node.worker.loops]
        node.parts = [Part(loop, clock.now()) for loop in loops]
        return node

    @property
    def frozen(self) -> bool:
        return self.clock.now() < self.frozen_until

    def idle_parts(self) -> list[Part]:
        """Parts that could run: those of a frozen or dead node cannot."""
        if self.dead or self.frozen:
            return []
        stopped = _STOPPED_BY_LEAVING if self.leaving else ()
        return [part for part in self.parts if part.task is None and part.name not in stopped]

    def released(self) -> list[Held]:
        """Held work that may go on."""
        now = self.clock.now()
        return [] if self.dead or self.frozen else [held for held in self.held if held.until <= now]

    def rings_at(self) -> Instant | None:
        """When the next instant comes of what has started and waits for it."""
        return None if self.dead or self.frozen else self.timer.ring_at

    def crash(self) -> None:
        self.dead = True

    async def hold(self, until: Instant, *, everything: bool) -> None:
        """Stand still at a fault; the simulation is told, and goes on with something else."""
        held = Held(until, asyncio.current_task())
        self.held.append(held)
        if everything:
            self.frozen_until = max(self.frozen_until, until)
        for part in self.parts:
            if part.task is held.task:
                part.attention.set()
        try:
            await held.release
        finally:
            self.held.remove(held)

    async def awake(self) -> None:
        """Answers that arrive while the process stands still are seen when it goes on."""
        while self.frozen:
            await asyncio.sleep((self.frozen_until - self.clock.now()) / SECOND)

    async def bury(self) -> None:
        """Drop everything that a crashed node had under way."""
        calls = [task for _, task in self.worker.runner._tasks.values()]
        for task in [*calls, *(part.task for part in self.parts if part.task)]:
            if task.done():
                task.cancelled() or task.exception()
            else:
                task.cancel()
        await spin()

    def leave(self) -> Part:
        """Begin to stop in order. Returns the part that does it."""
        self.leaving = True
        part = Part(Loop(_Leaving(self), self.clock), self.clock.now())
        self.parts.append(part)
        return part

    def refused(self) -> float:
        """How many stale writes of this node the database refused."""
        samples = next(iter(self.telemetry.stale_writes.collect())).samples
        return sum(sample.value for sample in samples if sample.name.endswith("_total"))


class _Leaving(Service):
    """What `tocsin.roles.node.Node` does after SIGTERM."""

    name = "leaving"
    interval = 1.0

    def __init__(self, node: SimulatedNode) -> None:
        self._node = node

    async def run_once(self, now: Instant) -> Report:
        await self._node.worker.drain()
        with contextlib.suppress(Unavailable):
            await self._node.leaser.leave()
        self._node.dead = True
        return Report()


class WritingDatabase(FaultyDatabase):
    """Tells the watching triggers who writes a plan, and with which epochs."""

    async def fetchrow(self, query: str, *args: Any) -> Any:
        if "INTO executions" not in query or "moved" not in query or "own AS" not in query:
            return await super().fetchrow(query, *args)
        await self._before(query)
        given = dict(zip(_WRITE_PLAN.names, args, strict=True))
        node_id, shards, epochs = given["node_id"], given["shards"], given["epochs"]
        writer = ",".join([str(node_id), *(f"{s}:{e}" for s, e in zip(shards, epochs, strict=True))])
        async with Database.transaction(self) as session:
            await session.fetchrow("SELECT set_config('simulation.writer', $1, true)", writer)
            row = await session.fetchrow(query, *args)
        await self._after(query)
        return row
