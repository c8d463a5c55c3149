"""Remote workers and gateways on virtual time, with seeded faults: answers are lost, gateways and workers
die, gateways freeze and come back, claims go by other gateways than they came, and an application enqueues in
transactions that stay open for a while. What must hold (W1, W2, W3, W6, W8 and T1 of the design) is checked
at every step.
"""

import asyncio
import contextlib
import itertools
import random
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar
from urllib.parse import urlsplit, urlunsplit
from uuid import UUID, uuid4

import asyncpg
import msgspec
import pytest

from tests.simulation.workshop import SHARDS, TENANT, Workshop, play
from tests.support.queues import CELL
from tocsin.db.pool import Database, Record, open_database
from tocsin.db.statements import named
from tocsin.domain.audit import Origin
from tocsin.domain.errors import Conflict, NotFound, Unavailable
from tocsin.domain.ids import ExecutionKey, execution_text, new_job_id, parse_execution_text, shard_of
from tocsin.domain.instant import SECOND, Instant, format_instant
from tocsin.domain.job import Definition
from tocsin.domain.lifecycle import CancelResult
from tocsin.domain.limits import TenantLimits
from tocsin.domain.policy import Limit, Policies, Retry
from tocsin.domain.protocol import (
    Ask,
    ClaimName,
    Heartbeat,
    HeldClaim,
    NewWorker,
    Settled,
    TaskClaim,
    TaskOffer,
    TaskSettlement,
)
from tocsin.domain.schedule import Schedule
from tocsin.domain.task_target import TaskTarget
from tocsin.failpoints import Failpoints
from tocsin.queue.claiming.holding import GRACE
from tocsin.queue.reclaiming.reclaiming import Reclaiming
from tocsin.queue.slots.healing import Healing
from tocsin.scheduler.reclaimer import _judge
from tocsin.service import AGAIN_NOW
from tocsin.settings import Settings
from tocsin.store.jobs import NewJob
from tocsin.store.logins import LoginStore
from tocsin.store.tenants import TenantStore
from tocsin.telemetry import Telemetry
from tocsin.worker.remote.assembly import GatewayParts, make_gateway

T = TypeVar("T")
TASKS = ("a", "b", "unserved")
LIMIT = Limit("two", max_parallel=2)
STEPS = 120


class LossyDatabase(Database):
    """Connections that break now and then, before a statement or after it."""

    def __init__(self, database: Database, rng: random.Random) -> None:
        super().__init__(database._pool, database._timeout, database.presence)
        self._rng = rng
        self.broken = 0.03

    async def _fetch_lossily(self, fetch: Callable[[], Awaitable[T]]) -> T:
        if self._rng.random() < self.broken:
            raise Unavailable("the connection broke before")
        answer = await fetch()
        if self._rng.random() < self.broken:
            raise Unavailable("the connection broke after")
        return answer

    async def fetch(self, query: str, *args: Any) -> list[Record]:
        return await self._fetch_lossily(lambda: super(LossyDatabase, self).fetch(query, *args))

    async def fetchrow(self, query: str, *args: Any) -> Record | None:
        return await self._fetch_lossily(lambda: super(LossyDatabase, self).fetchrow(query, *args))

    async def execute(self, query: str, *args: Any) -> str:
        return await self._fetch_lossily(lambda: super(LossyDatabase, self).execute(query, *args))


class OneStartLost(LossyDatabase):
    """The answer to the first start is lost."""

    lost = False

    async def fetch(self, query: str, *args: Any) -> list[Record]:
        answer = await super().fetch(query, *args)
        if query == start_text() and not self.lost:
            self.lost = True
            raise Unavailable("the connection broke after a start")
        return answer


class Noted(LossyDatabase):
    """What is asked is noted."""

    def __init__(self, database: Database, rng: random.Random) -> None:
        super().__init__(database, rng)
        self.asked: list[tuple[str, str]] = []

    async def _fetch_lossily(self, fetch: Callable[[], Awaitable[T]]) -> T:
        return await fetch()

    async def fetch(self, query: str, *args: Any) -> list[Record]:
        self.asked.append((query, repr(args)))
        return await super().fetch(query, *args)

    async def fetchrow(self, query: str, *args: Any) -> Record | None:
        self.asked.append((query, repr(args)))
        return await super().fetchrow(query, *args)


def start_text() -> str:
    return named("tocsin.queue.starting", "start").text


class SimulatedWorker:
    """A remote worker: what it serves, and what it holds as far as it knows."""

    def __init__(self, tasks: tuple[str, ...]) -> None:
        self.name = ""
        self.tasks = tasks
        self.seq = 0
        self.held: dict[str, TaskClaim] = {}


class Application:
    """A program with a login of its own, and transactions that stay open while the world goes on."""

    def __init__(self, url: str, login: str) -> None:
        parts = urlsplit(url)
        self._url = urlunsplit(parts._replace(netloc=f"{login}@{parts.netloc.rpartition('@')[2]}"))
        self.open: list[tuple[asyncpg.Connection, Instant, list[UUID]]] = []
        self.committed: set[UUID] = set()
        self.undone: set[UUID] = set()

    async def begin(self, now: Instant, rng: random.Random) -> None:
        connection = await asyncpg.connect(self._url)
        await connection.execute("BEGIN")
        enqueue = "SELECT tocsin.enqueue($1)"
        made = [await connection.fetchval(enqueue, rng.choice("ab")) for _ in range(rng.randint(1, 3))]
        self.open.append((connection, now, made))

    async def end(self, rng: random.Random) -> Instant | None:
        """End a transaction, well or not. When it began, if it was committed."""
        connection, began, made = self.open.pop(rng.randrange(len(self.open)))
        end = rng.choice(["COMMIT", "COMMIT", "ROLLBACK", "its process dies"])
        if end == "its process dies":
            connection.terminate()
        else:
            await connection.execute(end)
            await connection.close()
        (self.committed if end == "COMMIT" else self.undone).update(made)
        return began if end == "COMMIT" else None


class Simulation:
    """Two gateways, some workers, and a record of everything that was promised."""

    def __init__(self, shop: Workshop, seed: int) -> None:
        self.shop = shop
        self.rng = random.Random(seed)
        self.database = LossyDatabase(shop.database, self.rng)
        self.gateways: dict[int, GatewayParts] = {}
        """By the numbers of their nodes."""
        self.frozen: dict[int, list[Callable[[GatewayParts], Awaitable[Any]]]] = {}
        """Gateways that stand still, each with the requests that it has not read."""
        self.workers: list[SimulatedWorker] = []
        self.handed: dict[tuple[str, str], SimulatedWorker] = {}
        """Execution and token to the worker that got it."""
        self.kept: set[str] = set()
        """Executions that a worker began to run."""
        self.cancelled: set[str] = set()
        self.verdicts: dict[str, str] = {}
        """What a worker says about a claim, by its token: the same whenever it repeats it."""
        self.settled: dict[str, str] = {}
        """Executions that succeeded, and the token under which that was acknowledged."""
        self.made: list[ExecutionKey] = []
        self.application: Application | None = None

    async def gateway(self) -> None:
        node_id = await self.shop.leases.register("gateway", ["api"], "simulated")
        self.gateways[node_id] = make_gateway(
            self.database, self.shop.leases, self.shop.time.clock, Settings(), Telemetry(), Failpoints(),
            node_id=node_id, cell=CELL,
        )  # fmt: skip

    async def worker(self) -> None:
        worker = SimulatedWorker(self.rng.choice([("a",), ("b",), ("a", "b")]))
        await self.introduce(worker)
        self.workers.append(worker)

    async def introduce(self, worker: SimulatedWorker) -> None:
        new = NewWorker("simulated", [TaskOffer(task) for task in worker.tasks], capacity=5, lease="6s")
        registered = await self.certainly(lambda: self.any_awake().gateway.register(TENANT, "key", new))
        worker.name = registered.worker

    def awake(self) -> list[int]:
        return [node_id for node_id in self.gateways if node_id not in self.frozen]

    def any_awake(self) -> GatewayParts:
        return self.gateways[self.awake()[0]]

    async def certainly(self, call: Callable[[], Awaitable[T]]) -> T:
        while True:
            with contextlib.suppress(Unavailable):
                return await call()

    async def ask(self, worker: SimulatedWorker, call: Callable[[GatewayParts], Awaitable[T]]) -> T | None:
        """Ask a gateway, any of them, and let it work until it has answered. None: there was no answer."""
        node_id = self.rng.choice(list(self.gateways))
        if node_id in self.frozen:
            self.frozen[node_id].append(call)
            return None
        parts = self.gateways[node_id]
        answering = asyncio.ensure_future(call(parts))
        for _ in range(40):
            await self.turn(parts)
            if answering.done():
                break
        if not answering.done():
            answering.cancel()
        try:
            return await answering
        except (Unavailable, asyncio.CancelledError):
            return None
        except NotFound:  # it was silent for too long: it registers again, and goes on with what it holds
            await self.introduce(worker)
            return None

    async def turn(self, parts: GatewayParts) -> None:
        for loop in parts.loops:
            await asyncio.sleep(0)
            if loop.service.name == "tallies":
                continue
            with contextlib.suppress(Unavailable):
                report = await loop.service.run_once(self.shop.time.now())
                if report.again_at == AGAIN_NOW and loop.service.name == "settler":
                    await loop.service.run_once(self.shop.time.now())

    async def step(self) -> None:
        act = self.rng.choices(
            [self.enqueue, self.claim, self.settle, self.beat, self.release, self.cancel, self.tick, self.lose_worker, self.lose_gateway, self.freeze_one, self.thaw_one, self.begin, self.end_one],
            [20, 30, 25, 8, 4, 5, 10, 2, 2, 5, 4, 8, 8],
        )[0]  # fmt: skip
        await act()
        await self.check()

    async def enqueue(self) -> None:
        task = self.rng.choices(TASKS, [5, 5, 1])[0]
        await self.enqueue_task(task, LIMIT if self.rng.random() < 0.4 else None)

    async def enqueue_limited(self) -> None:
        await self.enqueue_task("a", LIMIT)

    async def enqueue_task(self, task: str, limit: Limit | None) -> None:
        retry = Retry(max_attempts=100, initial_backoff=0, max_backoff=0)
        await self.enqueue_under(Policies(retry=retry, limit=limit), task)

    async def enqueue_under(self, policies: Policies, task: str) -> None:
        now = self.shop.time.now()
        definition = Definition(Schedule(at=format_instant(now)), TaskTarget(task), policies=policies)
        job_id = new_job_id(now)
        await self.shop.jobs.define(
            [NewJob(job_id, TENANT, shard_of(job_id, SHARDS), definition, now, now)], now
        )
        if task != "unserved":
            self.made.append(ExecutionKey(job_id, now))

    async def begin(self) -> None:
        if self.application is not None and len(self.application.open) < 4:
            await self.application.begin(self.shop.time.now(), self.rng)

    async def end_one(self) -> None:
        """A transaction ends. Gateways hear of a commit by its notice, or that notices may have been lost."""
        if self.application is None or not self.application.open:
            return
        if (began := await self.application.end(self.rng)) is not None:
            lost = self.rng.random() < 0.3
            for parts, task in itertools.product(self.gateways.values(), "ab"):
                parts.late_entries.heard(None if lost else f"{began}:{TENANT}:5:default:task:{task}")

    async def claim(self) -> None:
        worker = self.rng.choice(self.workers)
        worker.seq += 1
        ask = Ask(worker.seq, self.rng.randint(1, 3))
        given = await self.ask(worker, lambda parts: parts.gateway.claim(TENANT, worker.name, ask))
        if given is None and self.rng.random() < 0.5:  # repeated, perhaps at another gateway
            given = await self.ask(worker, lambda parts: parts.gateway.claim(TENANT, worker.name, ask))
        for claim in given.claims if given else ():
            assert claim.task in worker.tasks, "W2: a worker got a task that it does not know"
            assert claim.id not in self.cancelled, "W3: what was answered as cancelled was handed out"
            self.check_committed(parse_execution_text(claim.id).job_id)
            holder = self.handed.setdefault((claim.id, claim.token), worker)
            assert holder is worker, "W6: two workers got an execution under one token"
            worker.held[claim.id] = claim

    def _some(self) -> tuple[SimulatedWorker, TaskClaim] | None:
        holding = [(worker, claim) for worker in self.workers for claim in worker.held.values()]
        return self.rng.choice(holding) if holding else None

    async def settle(self) -> None:
        if (some := self._some()) is None:
            return
        worker, claim = some
        first = claim.token not in self.verdicts
        drawn = self.rng.choices(["succeeded", "failed", "postponed", "skipped"], [6, 2, 1, 1])[0]
        verdict: Any = self.verdicts.setdefault(claim.token, drawn)
        if verdict != "postponed":  # which is as if it had not been tried
            self.kept.add(claim.id)
        told = TaskSettlement(
            claim.id, claim.token, verdict, result=claim.token if verdict == "succeeded" else None
        )
        before = await self._token(claim.id)
        answer = await self.ask(worker, lambda parts: parts.gateway.settle(TENANT, worker.name, [told]))
        if answer is None:
            return  # it is repeated some time, or passes its deadline
        del worker.held[claim.id]
        if not answer and verdict == "succeeded":
            self.settled[claim.id] = claim.token
        if answer:
            assert answer[0].status == "lost"
            assert await self._token(claim.id) != claim.token, "W1: what is said to be lost is not"
            final = verdict in (
                "succeeded",
                "skipped",
            )  # of others an answer lost to the gateway looks the same
            assert before != claim.token or not (first and final), "W1: a settlement was not written"

    async def beat(self) -> None:
        worker = self.rng.choice(self.workers)
        beat = Heartbeat([HeldClaim(claim.id, claim.token) for claim in worker.held.values()])
        heard = await self.ask(worker, lambda parts: parts.gateway.heartbeat(TENANT, worker.name, beat))
        for lost in heard.lost if heard else ():
            worker.held.pop(lost, None)

    async def release(self) -> None:
        if (some := self._some()) is None or some[1].id in self.kept:
            return
        worker, claim = some
        names = [ClaimName(claim.id, claim.token)]
        if (
            await self.ask(worker, lambda parts: parts.gateway.release(TENANT, worker.name, names))
            is not None
        ):
            del worker.held[claim.id]

    async def cancel(self) -> None:
        if not self.made:
            return
        key = self.rng.choice(self.made)
        with contextlib.suppress(Conflict, NotFound):
            done = await self.shop.executions.cancel(TENANT, key, "enough")
            if done.answer is CancelResult.CANCELLED:
                assert execution_text(key) not in self.kept, "W3: what ran was answered as never called"
                self.cancelled.add(execution_text(key))

    async def tick(self) -> None:
        await self.shop.time.advance(self.rng.choice([SECOND // 10, SECOND, 3 * SECOND]))
        for node_id in self.awake():
            await self.shop.leases.renew(node_id, "[]")
        now = self.shop.time.now()
        await Reclaiming(self.shop.database, CELL).reclaim(100, lambda overdue: _judge(overdue, now, []))
        await Healing(self.shop.database, CELL).heal()

    async def lose_worker(self) -> None:
        self.workers.remove(self.rng.choice(self.workers))
        await self.worker()

    async def lose_gateway(self) -> None:
        lost = self.rng.choice(list(self.gateways))
        del self.gateways[lost]
        self.frozen.pop(lost, None)
        await self.gateway()

    async def freeze_one(self) -> None:
        if len(self.awake()) > 1:
            self.freeze(self.rng.choice(self.awake()))

    async def thaw_one(self) -> None:
        if self.frozen:
            await self.thaw(self.rng.choice(list(self.frozen)))

    def freeze(self, node_id: int) -> None:
        """A gateway stands still, perhaps until the others take it for dead."""
        self.frozen[node_id] = []

    async def thaw(self, node_id: int) -> None:
        """It goes on: with what it remembers, and with requests whose workers have given up."""
        parts, unread = self.gateways[node_id], self.frozen.pop(node_id)
        late = [asyncio.ensure_future(call(parts)) for call in unread]
        for _ in range(40):
            await self.turn(parts)
        for answer in late:
            answer.cancel()
        await asyncio.gather(*late, return_exceptions=True)

    async def check(self) -> None:
        running = await self.shop.plain.one(
            "SELECT count(*) AS number FROM executions WHERE limit_key = 'two' AND started_at IS NOT NULL"
        )
        assert running["number"] <= 2, "W8: more run under a limit key than may"

    def check_committed(self, job_id: UUID) -> None:
        if self.application is not None:
            unsettled = {made for *_, some in self.application.open for made in some}
            assert job_id not in unsettled | self.application.undone, (
                "T1: what was not committed was handed out"
            )

    async def _token(self, execution: str) -> str | None:
        row = await self.shop.live(parse_execution_text(execution))
        return None if row is None or row["claim_token"] is None else str(row["claim_token"])

    async def end(self) -> None:
        """Without further faults everything ends, and what was acknowledged is what history says."""
        self.database.broken = 0.0
        while self.frozen:
            await self.thaw(self.rng.choice(list(self.frozen)))
        while self.application is not None and self.application.open:
            await self.end_one()
        self.workers.append(SimulatedWorker(("a", "b")))  # the others may all know the same one
        await self.introduce(self.workers[-1])
        for _ in range(800):  # past the ten minutes after which a worker looks at the bottom of its lanes
            await self.claim()
            while self._some() is not None:
                await self.settle()
            await self.check()
            live = "SELECT count(*) AS number FROM executions WHERE route <> 'task:unserved'"
            if not (await self.shop.plain.one(live))["number"]:
                break
            await self.tick()
        else:
            left = await self.shop.plain.fetch("SELECT * FROM executions WHERE route <> 'task:unserved'")
            raise AssertionError(f"something never ends: {[dict(row) for row in left]}")
        for execution, token in self.settled.items():
            (row,) = await self.shop.past(parse_execution_text(execution))
            assert (row["state"], str(row["claim_token"])) == ("succeeded", token), "W1"
            result = await self.shop.executions.result(TENANT, parse_execution_text(execution))
            assert result == f'"{token}"'
        await self.check_enqueued()

    async def check_enqueued(self) -> None:
        """Of each call that was committed there is one end, and nothing of any other."""
        if self.application is None:
            return
        rows = await self.shop.plain.fetch("SELECT job_id, count(*) AS ends FROM history GROUP BY job_id")
        ends = {row["job_id"]: row["ends"] for row in rows}
        assert {job_id: ends.get(job_id) for job_id in self.application.committed} == dict.fromkeys(
            self.application.committed, 1
        ), "T1: what was committed did not run"
        assert not self.application.undone & ends.keys(), "T1: what was not committed ran"


@pytest.fixture
def login(url: str) -> str:
    """A login that is bound to the tenant."""
    name = f"app_{uuid4().hex[:12]}"

    async def make() -> None:
        database = await open_database(url, name="test", size=1)
        try:
            await database.execute(f"CREATE ROLE {name} LOGIN")
            tenant = await TenantStore(database).find("default")
            assert tenant is not None
            await LoginStore(database, 45.0, TenantLimits()).bind(tenant, name, Origin("test"))
        finally:
            await database.close()

    asyncio.run(make())
    return name


@pytest.mark.parametrize("seed", range(4))
def test_gateways_and_workers_that_fail_break_no_promise(url: str, login: str, seed: int) -> None:
    async def story(shop: Workshop) -> None:
        simulation = Simulation(shop, seed)
        simulation.application = Application(url, login)
        for _ in range(2):
            await simulation.gateway()
        for _ in range(3):
            await simulation.worker()
        for act in (simulation.begin, simulation.freeze_one):  # so that each happens, whatever is drawn
            await act()
        for _ in range(STEPS):
            await simulation.step()
        await simulation.end()
        assert simulation.settled, "nothing happened"

    play(url, story)


@pytest.mark.parametrize("returns", [False, True], ids=["its worker vanishes", "its worker asks again"])
def test_a_start_without_an_answer_keeps_no_slot_for_ever(url: str, *, returns: bool) -> None:
    async def story(shop: Workshop) -> None:
        simulation = Simulation(shop, 1)
        simulation.database = OneStartLost(shop.database, simulation.rng)
        simulation.database.broken = 0.0
        await simulation.gateway()
        worker = SimulatedWorker(("a", "b"))
        await simulation.introduce(worker)
        for _ in range(6):
            await simulation.enqueue_limited()
        simulation.workers.append(worker)
        for _ in range(100):  # a busy machine may answer an ask before its gateway came to start anything
            await simulation.claim()
            if simulation.database.lost:
                break
        else:
            raise AssertionError("no start was lost: this proves nothing")
        if not returns:
            simulation.workers.remove(worker)
        await simulation.end()
        assert len(simulation.settled) > 0

    play(url, story)


class Calm(Simulation):
    """Nothing fails by itself: for tests that show one fact."""

    def __init__(self, shop: Workshop) -> None:
        super().__init__(shop, 1)
        self.database.broken = 0.0

    async def hire(self) -> SimulatedWorker:
        worker = SimulatedWorker(("a",))
        await self.introduce(worker)
        self.workers.append(worker)
        return worker

    async def claim_for(self, worker: SimulatedWorker, node_id: int) -> list[TaskClaim]:
        """What a worker gets of one gateway."""
        worker.seq += 1
        parts, ask = self.gateways[node_id], Ask(worker.seq, 5)
        answering = asyncio.ensure_future(parts.gateway.claim(TENANT, worker.name, ask))
        while not answering.done():
            await self.turn(parts)
        return (await answering).claims


def test_a_gateway_that_was_frozen_until_its_slots_were_given_on_starts_nothing_on_them(url: str) -> None:
    async def story(shop: Workshop) -> None:
        simulation = Calm(shop)
        for _ in range(2):
            await simulation.gateway()
        frozen, other = simulation.gateways
        lost, waiting, returning = [await simulation.hire() for _ in range(3)]
        for _ in range(6):
            await simulation.enqueue_limited()
        assert len(await simulation.claim_for(lost, frozen)) == 2
        simulation.freeze(frozen)
        for _ in range(100):
            await simulation.tick()
            if claims := await simulation.claim_for(waiting, other):
                break
        assert len(claims) == 2, "the slots of a gateway that stands still are never given on"
        await simulation.thaw(frozen)
        for _ in range(10):
            assert await simulation.claim_for(returning, frozen) == []
            await simulation.check()
            await shop.time.advance(SECOND // 10)

    play(url, story)


def test_a_worker_that_hangs_and_heartbeats_loses_its_claim_half_a_minute_after_the_timeout(url: str) -> None:
    timeout = 5 * SECOND

    async def story(shop: Workshop) -> None:
        simulation = Calm(shop)
        await simulation.gateway()
        (node_id,) = simulation.gateways
        worker = await simulation.hire()
        await simulation.enqueue_under(Policies(timeout="5s", retry=Retry(max_attempts=1)), "a")
        (claim,) = await simulation.claim_for(worker, node_id)
        began, beat = shop.time.now(), Heartbeat([HeldClaim(claim.id, claim.token)])
        heard_until = began
        for _ in range(100):
            heard = await simulation.gateways[node_id].gateway.heartbeat(TENANT, worker.name, beat)
            if heard.lost:
                break
            heard_until = shop.time.now()
            await simulation.tick()
        else:
            raise AssertionError("it keeps its claim for ever")
        assert began + timeout + GRACE - 3 * SECOND <= heard_until < began + timeout + GRACE
        assert heard.lost == [claim.id]
        late = TaskSettlement(claim.id, claim.token, "succeeded")
        assert (
            await simulation.ask(worker, lambda one: one.gateway.settle(TENANT, worker.name, [late]))
        ) == [Settled(claim.id, "lost")]
        (row,) = await shop.past(parse_execution_text(claim.id))
        assert row["state"] == "dead"
        assert msgspec.json.decode(row["outcome"])["verdict"] == "timed_out"

    play(url, story)


def test_tasks_that_nobody_serves_cost_the_others_no_statement_and_are_named_in_none(url: str) -> None:
    async def story(shop: Workshop) -> None:
        simulation = Calm(shop)
        simulation.database = noted = Noted(shop.database, simulation.rng)
        await simulation.gateway()
        (node_id,) = simulation.gateways
        worker = await simulation.hire()

        async def claims() -> list[str]:
            """The statements of some claims, each of one task."""
            noted.asked.clear()
            for _ in range(10):
                await simulation.enqueue_task("a", None)
                assert len(await simulation.claim_for(worker, node_id)) == 1
                await shop.time.advance(SECOND // 10)
            assert not [args for _, args in noted.asked if "unserved" in args], "an unserved lane was probed"
            return sorted(query for query, _ in noted.asked)

        await claims()  # lanes are met
        before = await claims()
        for number in range(50):
            await simulation.enqueue_task(f"unserved.{number}", None)
        await claims()  # the new lanes are met, once
        assert await claims() == before

    play(url, story)
