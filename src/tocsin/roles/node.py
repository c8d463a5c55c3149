"""The life of a node: join the fleet, run its roles until it is told to stop, leave in order.

An *engine* is a scheduler and a worker in one process; `tocsin scheduler` and `tocsin worker` run one half,
`tocsin api` the API. All of them reach the others only through PostgreSQL.
"""

import asyncio
from collections.abc import Callable, Sequence
from functools import partial

import structlog

from tocsin.background import Background
from tocsin.db.migrations import overtaken
from tocsin.domain.errors import Refused, Unavailable
from tocsin.roles.api import ApiRole, make_api
from tocsin.roles.disks import free_shares
from tocsin.roles.engine import make_worker, scheduler_loops
from tocsin.roles.joining import Membership, join, register
from tocsin.roles.process import Process, TaskHost
from tocsin.scheduler.leaser import Leaser, Leases
from tocsin.service import Loop
from tocsin.settings import Settings
from tocsin.store.leases import Renewal
from tocsin.worker.remote.assembly import GatewayParts
from tocsin.worker.worker import Worker

Limited = Worker | GatewayParts
"""What keeps to its share of tenants' limits."""
_log = structlog.get_logger()


class Node:
    """One process of the fleet with some of its roles."""

    def __init__(
        self, settings: Settings, roles: Sequence[str], url: str, tasks: TaskHost | None = None
    ) -> None:
        self.process = Process(settings, roles, url)
        self.process.tasks = tasks
        self.background = Background(self._restarted)
        self._roles = roles
        self._stop = asyncio.Event()
        self._refusal: Refused | Unavailable | None = None

    async def run(self, stop: asyncio.Event) -> None:
        """Join the fleet, work until `stop`, leave it in order."""
        self._stop = stop
        process = self.process
        member = await join(process)
        structlog.contextvars.bind_contextvars(node=member.node_id)
        leases = Leases(process.clock, process.settings.lease_ttl)
        scheduler = scheduler_loops(process, member, leases) if "scheduler" in self._roles else []
        worker = await make_worker(process, member) if "worker" in self._roles else None
        api = await make_api(process, member) if "api" in self._roles else None
        limited = [part for part in (worker, api and api.gateway) if part]
        leaser = self._leaser(member, leases, _wake_all(scheduler), limited)
        leasing = Loop(leaser, process.clock)
        member.notices.on("shards", leasing.wake)
        serving = api.serve(stop, self.background) if api else None

        loops = [leasing, *scheduler, *(worker.loops if worker else []), *(api.loops if api else [])]
        loops += process.tasks.loops if process.tasks else []
        process.presence.on_back(_wake_all(loops))
        self._tell_joined()
        for loop in loops:
            self.process.telemetry.expect_part(loop.service.name)
            self.background.start(loop.service.name, partial(loop.run, self._failed))
        listening = Background(self._restarted)
        listening.start("notices", member.notices.run)
        await (serving or stop.wait())
        self._notice_ended_api()
        _log.info("node.draining")
        for loop in scheduler:
            loop.stop()
        if worker:
            await worker.drain()
        if api and api.gateway:
            await api.gateway.drain()
        for loop in loops:
            loop.stop()
        await self.background.end(patience=5)
        await listening.end(patience=0)
        await self._leave(leaser, api)
        if self._refusal is not None:
            raise self._refusal

    def _restarted(self, part: str) -> None:
        self.process.telemetry.parts_restarted.labels(part).inc()

    def _failed(self, part: str, kind: str) -> None:
        self.process.telemetry.part_errors.labels(part, kind).inc()

    def _leaser(
        self, member: Membership, leases: Leases, changed: Callable[[], None], limited: Sequence[Limited]
    ) -> Leaser:
        process, store = self.process, member.lease_store
        return Leaser(
            store,
            process.clock,
            leases,
            node_id=member.node_id,
            ttl=process.settings.lease_ttl,
            plans="scheduler" in self._roles,
            telemetry=process.telemetry,
            failpoints=process.failpoints,
            rejoin=lambda: register(process, store, member.node_id),
            changed=changed,
            heard=lambda renewal: self._heard(renewal, limited),
        )

    def _heard(self, renewal: Renewal, limited: Sequence[Limited]) -> None:
        """What a heartbeat learned. A schema that this build cannot work on ends the process, in order."""
        self.process.telemetry.note_pace(renewal.now)
        self.process.telemetry.clock_uncertainty.set(self.process.clock.uncertainty)
        for place, free in free_shares(self.process.settings):
            self.process.telemetry.disk_free.labels(place).set(free)
        for part in limited:
            part.heard(renewal)
        if renewal.overtaken_by is not None and not self._stop.is_set():
            self._refusal = overtaken(renewal.overtaken_by)
            _log.error("node.overtaken", migration=renewal.overtaken_by, reason=self._refusal.detail)
            self._stop.set()

    def _tell_joined(self) -> None:
        process = self.process
        uncertainty = round(process.clock.uncertainty * 1000, 3)
        _log.info("node.joined", roles=list(self._roles), name=process.name, clock_uncertainty_ms=uncertainty)

    def _notice_ended_api(self) -> None:
        if not self._stop.is_set():
            self._refusal = Unavailable("the API server ended although nobody stopped it")
            _log.error("api.ended", reason=self._refusal.detail)

    async def _leave(self, leaser: Leaser, api: ApiRole | None) -> None:
        """Write down what is left, give the leases back, let go of everything."""
        if api:
            await api.note_last_use()
        try:
            await leaser.leave()
        except Unavailable as error:
            _log.warning("node.left_without_goodbye", error=str(error))
        await self.process.close()
        _log.info("node.left")


def _wake_all(loops: Sequence[Loop]) -> Callable[[], None]:
    def wake() -> None:
        for loop in loops:
            loop.wake()

    return wake
