"""A whole fleet in one event loop, on virtual time: the API, a planner, a reclaimer and a gateway.

Nothing here runs by itself. The driver says how time goes on: `tidy` plans and reclaims what is due, `claim`
takes due attempts, `settle` writes down what became of them, and `look` says when something is due next.
"""

import asyncio
import itertools
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from typing import Any, Final, TypeVar
from urllib.parse import unquote, urlsplit

import msgspec

import tocsin
from tocsin.api.app import Application
from tocsin.api.context import make_context
from tocsin.clock import VirtualClock
from tocsin.db.pool import Database, Record, open_database
from tocsin.domain.addresses import AddressPolicy
from tocsin.domain.audit import Origin
from tocsin.domain.cells import CELL
from tocsin.domain.errors import NotFound
from tocsin.domain.instant import SECOND, Instant, Span
from tocsin.domain.limits import TenantLimits
from tocsin.domain.protocol import Ask, Heartbeat, HeldClaim, NewWorker, TaskClaim, TaskOffer, TaskSettlement
from tocsin.domain.sealing import SecretBox
from tocsin.domain.task_target import task_of
from tocsin.failpoints import Failpoints
from tocsin.queue.claiming.entered_lanes import EnteredLanes
from tocsin.queue.reclaiming.reclaiming import Reclaiming
from tocsin.queue.slots.healing import Healing
from tocsin.scheduler.backfiller import Backfiller
from tocsin.scheduler.leaser import Leaser, Leases
from tocsin.scheduler.operations import Operations
from tocsin.scheduler.planner import Planner
from tocsin.scheduler.queue_keeper import QueueKeeper
from tocsin.scheduler.reclaimer import Reclaimer
from tocsin.scheduler.resumer import Resumer
from tocsin.service import AGAIN_NOW, Service
from tocsin.settings import Settings
from tocsin.store.acting import Acting
from tocsin.store.backfills import BackfillStore
from tocsin.store.control.pausing import Pausing
from tocsin.store.gathering import Gathering
from tocsin.store.keys import KeyStore
from tocsin.store.leases import LeaseStore
from tocsin.store.logins import LoginStore
from tocsin.store.plans import PlanStore
from tocsin.store.queues import QueueStore
from tocsin.store.tenants import TenantStore, tenant_of
from tocsin.telemetry import Telemetry
from tocsin.testing.virtual_time import START, VirtualTime
from tocsin.worker.remote.assembly import GatewayParts, make_gateway

T = TypeVar("T")
KEY: Final = "tocsin-sandbox-key"
"""The key of the sandbox's own API: it guards nothing."""
TENANT: Final = 1
LEASE: Final[Span] = 30 * SECOND
_DECADE: Final = 10 * 365 * 86_400.0
_SETTINGS: Final = Settings(lease_ttl=_DECADE, horizon=1.0)
_BATCH: Final = 100
_KEPT: Final = frozenset(
    {"api_keys", "installation", "login_limits", "migrations", "nodes", "shards", "tenant_logins", "tenants"}
)
LOGIN: Final = "tocsin_sandbox_app"
"""A login for the application under test, which enqueues in its own transactions."""
_LOGIN_RIGHTS: Final = (
    f"DO $$ BEGIN CREATE ROLE {LOGIN} LOGIN; EXCEPTION WHEN duplicate_object OR unique_violation THEN NULL; END $$",
    f"DO $$ BEGIN EXECUTE format('GRANT CREATE ON DATABASE %I TO {LOGIN}', current_database()); END $$",
    f"GRANT CREATE ON SCHEMA public TO {LOGIN}",
    f"GRANT SELECT ON tocsin.jobs, tocsin.executions TO {LOGIN}",
)
"""It may have tables of its own, and see what it has enqueued before it commits."""
_TABLES: Final = (
    "SELECT c.relname AS name FROM pg_class c WHERE c.relnamespace = 'tocsin'::regnamespace"
    " AND c.relkind IN ('r', 'p') AND NOT c.relispartition"
)
_AT_EACH_INSTANT: Final = ("misfires", "slot_returner")
"""Parts of a gateway that run beside claims and settlements."""
_LOOK: Final = (
    "SELECT (SELECT min(next_fire_at) FROM jobs WHERE cell = $1 AND state = 'active' AND kind = 'recurring') AS planner,"
    " (SELECT min(deadline_at) FROM executions WHERE cell = $1 AND claim_token IS NOT NULL) AS reclaimer,"
    " (SELECT min(paused_until) FROM jobs WHERE cell = $1 AND state = 'paused') AS resumer,"
    " (SELECT min(paused_until) FROM queues WHERE paused_until IS NOT NULL) AS queue_keeper,"
    " (SELECT min(resume_at) FROM backfills WHERE state = 'running') AS backfiller,"
    " (SELECT tocsin_now() FROM operations WHERE state = 'running' LIMIT 1) AS operations,"
    " EXISTS (SELECT FROM lanes_entered) AS entered,"
    " (SELECT jsonb_agg(jsonb_build_array(route, queue, (extract(epoch FROM run_at) * 1000000)::bigint)) FROM"
    "  (SELECT route, queue, min(run_at) AS run_at FROM executions WHERE cell = $1 AND claim_token IS NULL"
    "   GROUP BY route, queue) AS lane) AS lanes"
)
"""When each part has something to do, under its name, and the first run time of each lane."""


class Answer(msgspec.Struct, frozen=True):
    """What the API answered."""

    status: int
    headers: list[tuple[bytes, bytes]]
    body: bytes


class Look(msgspec.Struct, frozen=True):
    """When something is due: for each part that plans or tidies, and for each task and queue."""

    parts: dict[str, Instant]
    lanes: dict[tuple[str, str], Instant]

    def next_after(self, now: Instant) -> Instant | None:
        """When time should stop next."""
        return min((at for at in (*self.parts.values(), *self.lanes.values()) if at > now), default=None)


class SteadyClock(VirtualClock):
    """A virtual clock that may be set back, while its monotonic seconds only grow."""

    def set(self, now: Instant) -> None:
        """Let it be `now`, as if no time had passed."""
        self._start += now - self._now
        self._now = now


class Fleet:
    """See the module's text. All of it belongs to the loop that opened it."""

    def __init__(
        self, database: Database, clock: SteadyClock, tables: Sequence[str], node_id: int, shards: int
    ) -> None:
        self.clock = clock
        self.time = VirtualTime(clock, database)
        self._database = database
        self._empty = "".join(f"DELETE FROM {table};" for table in tables)  # noqa: S608 - of our own schema
        self._node_id = node_id
        self._shards = shards
        self._telemetry = Telemetry()
        self._leases = Leases(clock, _DECADE)
        self._seq = itertools.count(1)
        self._calls = 0
        """Requests under way."""
        self._workers: dict[frozenset[tuple[str, str]], str] = {}
        self._assemble()

    @classmethod
    async def open(cls, url: str, clock: SteadyClock) -> "Fleet":
        """A fleet over a fresh database that is on virtual time."""
        database = await open_database(url, name="tocsin sandbox", size=4, pinned=True)
        await VirtualTime(clock, database).tell()
        names = [row["name"] for row in await database.fetch(_TABLES)]
        node_id = await LeaseStore(database, _DECADE).register(
            "sandbox", ("api", "scheduler", "worker"), tocsin.__version__
        )
        await KeyStore(database).put_bootstrap(KEY)
        row = await database.one("SELECT shard_count FROM installation")
        fleet = cls(
            database, clock, [name for name in names if name not in _KEPT], node_id, row["shard_count"]
        )
        await fleet._take_shards()
        await fleet._bind_login()
        return fleet

    async def close(self) -> None:
        """Let go of the database."""
        await self._database.close()

    async def reset(self) -> None:
        """As it was in the beginning: nothing is there, and the clock is at its first instant."""
        await self._database.execute(self._empty)
        self.clock.set(START)
        await self.time.tell()
        self._workers = {}
        self._assemble()

    async def ask(
        self, method: str, path: str, headers: Iterable[tuple[bytes, bytes]], body: bytes
    ) -> Answer:
        """One request to the API."""
        parts = urlsplit(path)
        scope = {
            "type": "http", "asgi": {"version": "3.0"}, "http_version": "1.1", "scheme": "http", "root_path": "",
            "method": method, "path": unquote(parts.path), "raw_path": parts.path.encode(),
            "query_string": parts.query.encode(), "client": ("127.0.0.1", 1), "server": ("127.0.0.1", 80),
            "headers": [(name.lower(), value) for name, value in headers],
        }  # fmt: skip
        pending = [{"type": "http.request", "body": body, "more_body": False}]
        sent: list[Mapping[str, Any]] = []

        async def receive() -> Mapping[str, Any]:
            return pending.pop() if pending else await asyncio.get_running_loop().create_future()

        async def send(message: Mapping[str, Any]) -> None:
            sent.append(message)

        self._calls += 1
        try:
            await self._attended(self._application(scope, receive, send))
        finally:
            self._calls -= 1
            self._wanted.set()  # it may have enqueued something, and no notice says so here
        return Answer(
            sent[0]["status"], list(sent[0]["headers"]), b"".join(one.get("body", b"") for one in sent[1:])
        )

    async def look(self) -> Look:
        """What waits for whom."""
        row = dict(await self._database.one(_LOOK, CELL))
        if row.pop("entered"):
            await EnteredLanes(self._database, CELL).keep()
        lanes = msgspec.json.decode(row.pop("lanes") or "[]")
        return Look(
            {part: at for part, at in row.items() if at is not None},
            {(task, queue): at for route, queue, at in lanes if (task := task_of(route))},
        )

    async def tidy(self, look: Look) -> int:
        """Let all parts work that have something to do at this instant. Returns how many did something."""
        now, done = self.clock.now(), 0
        for service in self._beside:
            await service.run_once(now)
        for name, service in self._parts.items():
            if look.parts.get(name, now + 1) <= now:
                while (report := await service.run_once(now)).again_at == AGAIN_NOW:
                    done += 1
                done += report.done
        return done

    async def claim(self, lanes: Iterable[tuple[str, str]]) -> list[TaskClaim]:
        """Take what is due of these tasks in these queues: as a remote worker would."""
        given = await self._as_worker(
            lanes, lambda worker: self._gateway.gateway.claim(TENANT, worker, Ask(next(self._seq), _BATCH))
        )
        return given.claims

    async def settle(self, lanes: Iterable[tuple[str, str]], settlements: Sequence[TaskSettlement]) -> None:
        """Write down what became of attempts."""
        await self._as_worker(lanes, lambda worker: self._gateway.gateway.settle(TENANT, worker, settlements))

    async def beat(self, lanes: Iterable[tuple[str, str]], claims: Iterable[TaskClaim]) -> set[str]:
        """Hold on to attempts. Returns those that should stop, or are no longer held here."""
        beat = Heartbeat([HeldClaim(claim.id, claim.token) for claim in claims])
        heard = await self._as_worker(
            lanes, lambda worker: self._gateway.gateway.heartbeat(TENANT, worker, beat)
        )
        return {*heard.lost, *(stop.id for stop in heard.stop)}

    async def fetch(self, query: str, *args: Any) -> list[Record]:
        """Rows of the database."""
        return await self._database.fetch(query, *args)

    async def _as_worker(
        self, lanes: Iterable[tuple[str, str]], call: Callable[[str], Coroutine[Any, Any, T]]
    ) -> T:
        """Call as the worker that serves these. One that was silent for days is not known any more."""
        served = frozenset(lanes)
        try:
            return await self._attended(call(await self._worker(served)))
        except NotFound:
            del self._workers[served]
            return await self._attended(call(await self._worker(served)))

    async def _attended(self, call: Coroutine[Any, Any, T]) -> T:
        """Wait for a call, while the parts of the gateway that it waits for do their work."""
        calling = asyncio.create_task(call)
        calling.add_done_callback(lambda _: self._wanted.set())
        while not calling.done():
            await self._wanted.wait()
            self._wanted.clear()
            await self.attend()
        return await calling

    async def attend(self) -> None:
        """Let the gateway answer what is parked, and write what was told, once."""
        async with self._attending:
            for loop in (self._gateway.settling, self._gateway.dispatching):
                while (await loop.service.run_once(self.clock.now())).again_at == AGAIN_NOW:
                    pass

    async def let_go(self) -> None:
        """Answer all that is parked: those who wait have waited enough."""
        for session in self._gateway.sessions:
            session.wake()

    def served(self) -> set[tuple[str, str]]:
        """Tasks and queues for which remote workers have called here."""
        return {
            (task_of(one.route) or "", one.queue)
            for session in self._gateway.sessions
            for one in session.wanted
        }

    async def move(self, to: Instant) -> None:
        """Let time pass until `to`. Requests that are under way would run out of time, so they end before,
        but for those that are parked: they wait for that."""
        while self._calls > len(self._gateway.sessions.waiting()):  # noqa: ASYNC110 - no event says so
            await asyncio.sleep(0)
        await self.time.advance_to(to)

    async def _worker(self, lanes: frozenset[tuple[str, str]]) -> str:
        """The name of a worker, registered when it is asked for."""
        if lanes not in self._workers:
            new = NewWorker(
                "sandbox",
                [TaskOffer(task) for task in sorted({task for task, _ in lanes})],
                queues=tuple(sorted({queue for _, queue in lanes})),
                capacity=10_000,
                lease=f"{LEASE // SECOND}s",
            )
            registered = await self._gateway.gateway.register(TENANT, "sandbox", new)
            self._workers[lanes] = registered.worker
        return self._workers[lanes]

    def _assemble(self) -> None:
        """Parts without any memory of what was."""
        database, clock, points = self._database, self.clock, Failpoints()
        store = LeaseStore(database, _DECADE)
        self._gateway: GatewayParts = make_gateway(
            database, store, clock, _SETTINGS, self._telemetry, points, node_id=self._node_id, cell=CELL
        )
        self._wanted = asyncio.Event()
        self._attending = asyncio.Lock()
        self._gateway.gateway.parked.connect(self._wanted.set)
        self._gateway.settler.unsettled.connect(self._wanted.set)
        self._application = Application(
            make_context(
                database, clock, self._telemetry, AddressPolicy(), shard_count=self._shards, lease_ttl=_DECADE,
                horizon=_SETTINGS.horizon, box=SecretBox([bytes(32)]), gateway=self._gateway.gateway,
            )
        )  # fmt: skip
        pausing = Pausing(database, _SETTINGS.horizon)
        self._beside: list[Service] = [
            loop.service for loop in self._gateway.loops if loop.service.name in _AT_EACH_INSTANT
        ]
        self._parts: dict[str, Service] = {
            "planner": Planner(
                PlanStore(database, self._node_id), self._leases, horizon=_SETTINGS.horizon,
                wake_within=_SETTINGS.claim_ahead, telemetry=self._telemetry, failpoints=points,
            ),
            "reclaimer": Reclaimer(
                Reclaiming(database, CELL), Healing(database, CELL), self._leases, self._telemetry, points,
                claim_ttl=_SETTINGS.claim_ttl, pause_lost=pausing.pause_lost,
            ),
            "resumer": Resumer(pausing, self._leases),
            "queue_keeper": QueueKeeper(QueueStore(database), self._leases),
            "backfiller": Backfiller(BackfillStore(database), self._leases),
            "operations": Operations(Acting(database, _SETTINGS.horizon, points), Gathering(database, points)),
        }  # fmt: skip

    async def _bind_login(self) -> None:
        for statement in _LOGIN_RIGHTS:
            await self._database.execute(statement)
        tenant = tenant_of(await TenantStore(self._database).get("default"))
        logins = LoginStore(self._database, _SETTINGS.horizon, TenantLimits())
        await logins.bind(tenant, LOGIN, Origin("sandbox"))

    async def _take_shards(self) -> None:
        """Once, for ever: there is no other node to share them with."""
        store = LeaseStore(self._database, _DECADE)
        leaser = Leaser(
            store, self.clock, self._leases, node_id=self._node_id, ttl=_DECADE, plans=True,
            telemetry=self._telemetry, failpoints=Failpoints(), rejoin=asyncio.Event().wait,
        )  # fmt: skip
        await leaser.run_once(self.clock.now())
