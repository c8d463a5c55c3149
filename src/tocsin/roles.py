"""The processes of a fleet: which parts run together, how they start and how they stop.

An *engine* is a scheduler and a worker in one process; `tocsin scheduler` and `tocsin worker` run one half.
All of them reach the others only through PostgreSQL.
"""

import asyncio
import os
import platform
import signal
import sys
from collections.abc import Awaitable, Callable, Sequence
from ipaddress import ip_network
from typing import Any, Final

import structlog

import tocsin
from tocsin.api.app import Application
from tocsin.api.auth import KeyUse
from tocsin.api.context import Context, make_context
from tocsin.api.entrance import Doors, is_loopback
from tocsin.api.server import serve
from tocsin.background import Background
from tocsin.clock import DatabaseClock
from tocsin.dashboard.pages import Dashboard
from tocsin.db.migrations import check_schema, overtaken
from tocsin.db.notices import Notices
from tocsin.db.pool import Database, open_database
from tocsin.db.wall import open_walled
from tocsin.domain.addresses import AddressPolicy
from tocsin.domain.errors import Refused, Unavailable
from tocsin.domain.target import HttpTarget
from tocsin.failpoints import Failpoints
from tocsin.queue.postgres import PostgresQueue
from tocsin.queue.unused_lanes import UnusedLanes
from tocsin.scheduler.backfiller import Backfiller
from tocsin.scheduler.clock_watch import ClockWatch
from tocsin.scheduler.forgetter import Forgetter
from tocsin.scheduler.lane_keeper import LaneKeeper
from tocsin.scheduler.leaser import Leaser, Leases
from tocsin.scheduler.planner import Planner
from tocsin.scheduler.reclaimer import Reclaimer
from tocsin.scheduler.resumer import Resumer
from tocsin.scheduler.retention import Retention
from tocsin.secret_key import secret_box
from tocsin.service import Loop
from tocsin.settings import Settings
from tocsin.store.backfills import BackfillStore
from tocsin.store.control.pausing import Pausing
from tocsin.store.forgetting import ForgettingStore
from tocsin.store.history import HistoryStore
from tocsin.store.leases import LeaseStore, Renewal
from tocsin.store.misfires import MisfireStore
from tocsin.store.plans import PlanStore
from tocsin.store.rewinding import Rewinding
from tocsin.store.secrets import SecretStore
from tocsin.store.unread import Unread
from tocsin.store.webhook_secrets import WebhookSecretStore
from tocsin.telemetry import Telemetry
from tocsin.worker.targets.http import HttpCaller
from tocsin.worker.targets.http_client import HttpClient
from tocsin.worker.targets.http_exchange import HttpLimits
from tocsin.worker.targets.name_servers import NameServers
from tocsin.worker.targets.resolver import Resolver
from tocsin.worker.vault import Vault
from tocsin.worker.worker import Worker

ENGINE: Final = ("scheduler", "worker")
_CLOCK_SAMPLES: Final = 5
_JOIN_PAUSES: Final = (0.2, 0.5, 1.0, 2.0)
_log = structlog.get_logger()


def address_policy(settings: Settings) -> AddressPolicy:
    """Which addresses targets may have."""
    try:
        networks = tuple(ip_network(text) for text in settings.allow_networks)
    except ValueError as error:
        raise Refused(str(error), field="TOCSIN_ALLOW_NETWORKS") from None
    if not all(text.isdigit() and 0 < int(text) < 65536 for text in settings.allow_ports):
        raise Refused("ports are numbers from 1 to 65535, separated by commas", field="TOCSIN_ALLOW_PORTS")
    ports = frozenset(map(int, settings.allow_ports))
    return AddressPolicy(
        allow_loopback=settings.allow_loopback, allowed_networks=networks, allowed_ports=ports
    )


def doors(settings: Settings) -> Doors:
    """Under which names browsers may come."""
    return Doors(loopback_only=is_loopback(settings.host), public_url=settings.public_url)


class Node:
    """One process of the fleet with some of its roles."""

    def __init__(self, settings: Settings, roles: Sequence[str], url: str) -> None:
        self._settings = settings
        self._roles = roles
        self._url = url
        self._clock = DatabaseClock()
        self._telemetry = Telemetry(roles)
        self._failpoints = Failpoints.from_text(settings.failpoints)
        self._name = f"{platform.node()}:{os.getpid()}"
        self._closing: list[Callable[[], Awaitable[object]]] = []
        self._background = Background(self._restarted)
        self._stop = asyncio.Event()
        self._refusal: Refused | Unavailable | None = None

    async def run(self, stop: asyncio.Event) -> None:
        """Join the fleet, work until `stop`, leave it in order."""
        self._stop = stop
        database, lease_store, node_id = await self._join()
        structlog.contextvars.bind_contextvars(node=node_id)
        leases = Leases(self._clock, self._settings.lease_ttl)
        notices = Notices(self._url, f"tocsin notices {node_id}")

        scheduler = self._scheduler(database, lease_store, leases, notices, node_id)
        worker = await self._worker(database, notices, node_id) if "worker" in self._roles else None
        leaser = self._leaser(lease_store, leases, node_id, _wake_all(scheduler), worker)
        leasing = Loop(leaser, self._clock)
        notices.on("shards", leasing.wake)
        api, key_use = None, None
        if "api" in self._roles:
            context = await self._context(database, notices)
            key_use = KeyUse(context.authenticator, context.keys)
            api = self._api(context, stop)
            self._background.start("streams", lambda: _end_streams(context, stop))

        loops = [leasing, *scheduler, *(worker.loops if worker else [])]
        loops += [Loop(key_use, self._clock)] if key_use else []
        _log.info(
            "node.joined", roles=list(self._roles), name=self._name, clock_uncertainty_ms=self._uncertainty()
        )
        for loop in loops:
            self._background.start(loop.service.name, loop.run)
        listening = Background(self._restarted)
        listening.start("notices", notices.run)
        await (api or stop.wait())
        if not stop.is_set():
            self._refusal = Unavailable("the API server ended although nobody stopped it")
            _log.error("api.ended", reason=self._refusal.detail)
        _log.info("node.draining")
        for loop in scheduler:
            loop.stop()
        if worker:
            await worker.drain()
        for loop in loops:
            loop.stop()
        await self._background.end(patience=5)
        await listening.end(patience=0)
        if key_use:
            await self._note_last_use(key_use)
        await self._leave(leaser)
        await self._close()
        _log.info("node.left")
        if self._refusal is not None:
            raise self._refusal

    def _restarted(self, part: str) -> None:
        self._telemetry.parts_restarted.labels(part).inc()

    async def _join(self) -> tuple[Database, LeaseStore, int]:
        """Join the fleet. A database that goes away in the middle of it is tried again a few times."""
        for pause in _JOIN_PAUSES:
            try:
                return await self._join_once()
            except Unavailable as error:
                _log.warning("node.join_failed", error=str(error), retry_in=pause)
                await self._close()
                await asyncio.sleep(pause)
        return await self._join_once()

    async def _join_once(self) -> tuple[Database, LeaseStore, int]:
        heartbeat_database = await self._open("lease", size=2)
        database = await self._open("engine", size=8, pinned=True)
        await _check_schema(heartbeat_database)
        store = LeaseStore(heartbeat_database, self._settings.lease_ttl)
        for _ in range(_CLOCK_SAMPLES):
            await self._clock.ask(store.now)
        return database, store, await self._register(store)

    async def _register(self, store: LeaseStore, node_id: int | None = None) -> int:
        return await store.register(
            self._name, self._roles, tocsin.__version__, node_id, queues=self._settings.queues
        )

    async def _close(self) -> None:
        """Let go of everything that was opened, the last first."""
        while self._closing:
            await self._closing.pop()()

    async def _open(self, purpose: str, *, size: int, pinned: bool = False) -> Database:
        database = await open_database(
            self._url,
            name=f"tocsin {purpose} {os.getpid()}",  # by which the reclaimer knows transactions of the fleet
            timeout=self._settings.statement_timeout,
            size=size,
            pinned=pinned,
        )
        self._closing.append(database.close)
        return database

    def _leaser(
        self,
        store: LeaseStore,
        leases: Leases,
        node_id: int,
        changed: Callable[[], None],
        worker: Worker | None,
    ) -> Leaser:
        return Leaser(
            store,
            self._clock,
            leases,
            node_id=node_id,
            ttl=self._settings.lease_ttl,
            plans="scheduler" in self._roles,
            telemetry=self._telemetry,
            failpoints=self._failpoints,
            rejoin=lambda: self._register(store, node_id),
            changed=changed,
            heard=lambda renewal: self._heard(renewal, worker),
        )

    def _heard(self, renewal: Renewal, worker: Worker | None) -> None:
        """What a heartbeat learned. A schema that this build cannot work on ends the process, in order."""
        if worker:
            worker.heard(renewal)
        if renewal.overtaken_by is not None and not self._stop.is_set():
            self._refusal = overtaken(renewal.overtaken_by)
            _log.error("node.overtaken", migration=renewal.overtaken_by, reason=self._refusal.detail)
            self._stop.set()

    def _scheduler(
        self, database: Database, nodes: LeaseStore, leases: Leases, notices: Notices, node_id: int
    ) -> list[Loop]:
        if "scheduler" not in self._roles:
            return []
        settings = self._settings
        planner = Planner(
            PlanStore(database, node_id, Unread("job", self._telemetry)),
            leases,
            horizon=settings.horizon,
            wake_within=settings.claim_ahead,
            telemetry=self._telemetry,
            failpoints=self._failpoints,
        )
        queue = PostgresQueue(database, node_id, settings.claim_ttl)
        planning = Loop(planner, self._clock)
        backfilling = Loop(
            Backfiller(BackfillStore(database, Unread("backfill", self._telemetry)), leases), self._clock
        )
        notices.on("plan", planning.wake)
        notices.on("backfill", backfilling.wake)
        resuming = Loop(
            Resumer(Pausing(database, settings.horizon), leases, Unread("pause", self._telemetry)),
            self._clock,
        )
        notices.on("pauses", resuming.wake)
        services: list[Any] = [
            Reclaimer(queue, leases, self._telemetry, self._failpoints, claim_ttl=settings.claim_ttl),
            ClockWatch(self._clock, Rewinding(database, settings.lease_ttl), leases, planning.wake),
            LaneKeeper(UnusedLanes(database), leases),
            Retention(HistoryStore(database), nodes, leases, settings.history_days, settings.audit_days),
            Forgetter(
                ForgettingStore(database, settings.history_days, settings.audit_days), leases, self._clock
            ),
        ]
        return [planning, backfilling, resuming, *(Loop(service, self._clock) for service in services)]

    async def _worker(self, database: Database, notices: Notices, node_id: int) -> Worker:
        limits = HttpLimits(
            connections=self._settings.concurrency, connections_per_origin=self._settings.host_concurrency
        )
        names = NameServers(self._settings.name_servers)
        client = HttpClient(Resolver(names.lookup), address_policy(self._settings), limits=limits)
        self._closing += [names.close, client.close]
        starting = await self._open("start", size=1, pinned=True)
        worker = Worker(
            PostgresQueue(
                database,
                node_id,
                self._settings.claim_ttl,
                starting=starting,
                queues=self._settings.queues,
            ),
            {HttpTarget: HttpCaller(client, self._clock, self._vault(database))},
            self._clock,
            self._settings,
            self._telemetry,
            self._failpoints,
            node_id=node_id,
            misfires=MisfireStore(database),
            control=Pausing(database, self._settings.horizon),
        )
        worker.listen(notices)
        return worker

    def _vault(self, database: Database) -> Vault:
        box = secret_box(self._settings)
        if box is None:
            _log.warning("secrets.no_key", hint="set TOCSIN_SECRET_KEY; until then nothing is signed")
        left = self._telemetry.left_for_newer.labels("secret").inc
        return Vault(SecretStore(database, box), WebhookSecretStore(database, box), left)

    async def _context(self, operator: Database, notices: Notices) -> Context:
        """What the API works with: its own connections behind the wall, the operator's beside it."""
        database, wall = await open_walled(
            self._url,
            name=f"tocsin api {os.getpid()}",
            timeout=self._settings.statement_timeout,
            size=10,
            mode=self._settings.row_security,
        )
        self._closing.append(database.close)
        row = await database.one("SELECT shard_count FROM installation")
        context = make_context(
            database,
            self._clock,
            self._telemetry,
            address_policy(self._settings),
            shard_count=row["shard_count"],
            lease_ttl=self._settings.lease_ttl,
            horizon=self._settings.horizon,
            patience=self._settings.statement_timeout,
            operator=operator,
            defaults=self._settings.tenant_limits,
            wall=wall,
            box=secret_box(self._settings),
            doors=doors(self._settings),
            echo=self._settings.echo,
        )
        for word in ("keys", "tenants"):
            notices.on(word, context.authenticator.forget)
        return context

    def _api(self, context: Context, stop: asyncio.Event) -> asyncio.Task[None]:
        settings = self._settings
        serving = serve(
            Application(context, Dashboard(doors(settings)) if settings.dashboard else None),
            settings.host,
            settings.port,
            stop,
            trusted_proxies=settings.trusted_proxies,
            share_port=settings.share_port,
        )
        return asyncio.create_task(serving, name="api")

    async def _note_last_use(self, key_use: KeyUse) -> None:
        try:
            await key_use.run_once(self._clock.now())
        except Unavailable as error:
            _log.warning("key_use.lost", error=str(error))

    async def _leave(self, leaser: Leaser) -> None:
        try:
            await leaser.leave()
        except Unavailable as error:
            _log.warning("node.left_without_goodbye", error=str(error))

    def _uncertainty(self) -> float:
        return round(self._clock.uncertainty * 1000, 3)


async def _check_schema(database: Database) -> None:
    await check_schema(database)
    row = await database.one("SELECT EXISTS (SELECT FROM tenants) AS seen")
    if not row["seen"]:
        raise Refused(
            "the policies of the tables hide everything from this login",
            field="database_url",
            hint="connect as the owner of the tables; after restoring them under another owner, run `tocsin migrate`",
        )


def stop_on_signals() -> asyncio.Event:
    """An event that SIGTERM, SIGINT, or the death of the supervisor sets."""
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for signum in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(signum, stop.set)
    if os.environ.get("TOCSIN_SUPERVISED"):
        # The supervisor holds the other end of our standard input; when it dies in any way, we read the end.
        loop.add_reader(sys.stdin.fileno(), stop.set)
    return stop


async def wait_for_database(url: str, stop: asyncio.Event) -> None:
    """Come up although the database does not yet: try until it answers."""
    while not stop.is_set():
        try:
            database = await open_database(url, name="tocsin probe", timeout=5, size=1)
        except Unavailable as error:
            _log.warning("database.unavailable", error=str(error))
            await asyncio.sleep(1)
        else:
            await database.close()
            return


async def _end_streams(context: Context, stop: asyncio.Event) -> None:
    """Open streams would hold the stop up for as long as connections get to finish."""
    await stop.wait()
    context.pulse.stop()


def _wake_all(loops: Sequence[Loop]) -> Callable[[], None]:
    def wake() -> None:
        for loop in loops:
            loop.wake()

    return wake
