"""A fleet, its clients and its troubles, all in one process and all drawn from one seed.

The driver does one thing at a time: it lets a part of a node take its turn, lets held-up work go on, lets a
client act, starts a node, or lets time pass. A turn that runs into a fault in its middle is left there while
everything else goes on. When the time of trouble is over, everything is healed and the fleet runs until it is
quiet; what it left behind goes to the checker.
"""

import asyncio
import logging
import random
from pathlib import Path
from typing import Any

import msgspec
import structlog

from tests.simulation.checker import check
from tests.simulation.faults import Faults, SimulatedCrash, spin
from tests.simulation.node import Held, Part, SimulatedNode
from tests.simulation.records import Records, read_records
from tests.simulation.target import Target
from tests.simulation.verdict import Violation
from tests.simulation.virtual_time import (
    START,
    VirtualTime,
    VirtualTimer,
    open_on_virtual_time,
    run_virtually,
)
from tests.simulation.workload import Clients
from tocsin.clock import VirtualClock
from tocsin.db.pool import Database, open_database
from tocsin.domain.instant import SECOND, Instant
from tocsin.settings import Settings

Choice = Part | Held | VirtualTimer
NODES = 3
SHARDS = 8
TROUBLE = 60 * SECOND
_MOST_QUIET = 120 * SECOND
_WATCH = (Path(__file__).parent / "watch.sql").read_text()
_NO_VACUUM = """DO $$ DECLARE name text; BEGIN
    FOR name IN SELECT relname FROM pg_class WHERE relkind = 'r' AND relnamespace = 'tocsin'::regnamespace LOOP
        EXECUTE format('ALTER TABLE %I SET (autovacuum_enabled = off)', name);
    END LOOP;
END $$"""
SETTINGS = Settings(
    lease_ttl=4.0,
    claim_ttl=4.0,
    horizon=8.0,
    claim_ahead=2.0,
    claim_batch=20,
    concurrency=8,
    drain_timeout=0.0,
)


class Run(msgspec.Struct, kw_only=True):
    """One run and its verdict."""

    seed: int
    violations: list[Violation]
    landed: dict[str, int]
    passed: set[str]
    refused: int
    turns: int
    records: Records
    log: list[str]

    def __str__(self) -> str:
        found = "\n".join(f"  {violation}" for violation in self.violations[:10])
        last = "\n".join(self.log[-40:])
        return f"seed {self.seed}, {len(self.violations)} violations:\n{found}\nwhat went before:\n{last}"


def simulate(url: str, seed: int, **changes: Any) -> Run:
    """Run a seed on a fresh database."""
    clock = VirtualClock(START)
    before = structlog.get_config()
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    random.seed(seed)
    try:
        return run_virtually(clock, _simulate(url, seed, clock, **changes))
    finally:
        structlog.configure(**before)


async def _simulate(url: str, seed: int, clock: VirtualClock, **changes: Any) -> Run:
    asyncio.get_running_loop().set_exception_handler(_let_crashes_pass)
    database, time = await open_on_virtual_time(url, clock)
    leasing = await open_database(url, name="test leases", size=1)
    await _prepare(leasing, seed)
    world = World(seed, database, leasing, time, **changes)
    try:
        await world.run()
        return await world.verdict()
    finally:
        await world.end()
        await leasing.close()
        await database.close()


def _let_crashes_pass(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """Nobody asks a crashed node's tasks how they ended."""
    if not isinstance(context.get("exception"), SimulatedCrash):
        loop.default_exception_handler(context)


async def _prepare(database: Database, seed: int) -> None:
    """Notes of every change; few shards, so that they are fought for; chance and storage that repeat."""
    await database.execute(_WATCH)
    await database.execute(f"DELETE FROM shards WHERE shard >= {SHARDS}")
    await database.execute(f"UPDATE installation SET shard_count = {SHARDS}")
    await database.execute(_NO_VACUUM)
    await database.execute(f"SELECT setseed({seed % 1000 / 1000})")


class World:
    """Everything of one run."""

    def __init__(
        self, seed: int, database: Database, leasing: Database, time: VirtualTime, *, faults: float = 1.0
    ) -> None:
        self.seed = seed
        self.rng = random.Random(seed)
        self.time = time
        self.database = database
        self.leasing = leasing
        self.faults = Faults(self.rng, time.now, ttl=SETTINGS.claim_ttl, share=faults)
        self.faults.log = self.note
        self.target = Target(seed, time.clock)
        self.clients = Clients(self.rng, leasing, time.clock, SHARDS, SETTINGS.horizon)
        self.nodes: list[SimulatedNode] = []
        self.gone: list[SimulatedNode] = []
        self.births: list[Instant] = []
        self.errors: list[str] = []
        self.log: list[str] = []
        self.turns = 0

    async def run(self) -> None:
        """Trouble, healing, quiet."""
        end = self.time.now() + TROUBLE
        await self.clients.define_all(end + 5 * SECOND, one_offs=14, recurring=6)
        for _ in range(NODES):
            await self._start_node()
        while self.time.now() < end:
            await self._step()
        await self._heal()
        limit = self.time.now() + _MOST_QUIET
        while not await self._is_quiet():
            if self.time.now() > limit:
                self.errors.append("the fleet never became quiet")
                break
            for _ in range(25):
                await self._step()

    async def verdict(self) -> Run:
        records = await read_records(
            self.database,
            promises=list(self.clients.promises.values()),
            cancellations=self.clients.cancellations,
            hits=self.target.hits,
            errors=self.errors,
        )
        return Run(
            seed=self.seed,
            violations=check(records),
            landed=dict(self.faults.landed),
            passed=self.faults.passed,
            refused=round(sum(node.refused() for node in (*self.nodes, *self.gone))),
            turns=self.turns,
            records=records,
            log=self.log,
        )

    async def end(self) -> None:
        for node in self.nodes:
            node.crash()
            await node.bury()

    def note(self, words: str) -> None:
        self.log.append(f"{(self.time.now() - START) / SECOND:9.3f} {words}")

    async def _step(self) -> None:
        """Do the next thing."""
        await self._bury_the_dead()
        now = self.time.now()
        if self.births and self.births[0] <= now:
            self.births.pop(0)
            await self._start_node()
        elif not self.faults.quiet and self.rng.random() < 0.02:
            await self._act()
        elif (choices := self._able(now)) and self.rng.random() < 0.93:
            await self._let(self.rng.choice(choices))
        else:
            await self._pass_time(now, waiting=bool(choices))

    async def _act(self) -> None:
        """Somebody outside the fleet does something: a client, or an operator who stops a node in order."""
        staying = [node for node in self.nodes if not node.leaving and not node.frozen]
        if staying and self.rng.random() < 0.05:
            node = self.rng.choice(staying)
            self.note(f"{node.name}: asked to stop")
            await self._take_turn(node, node.leave())
            return
        before = len(self.clients.did)
        try:
            await self.clients.act()
        except Exception as error:  # noqa: BLE001 - whatever a client meets goes to the checker
            self.errors.append(f"a client met {error!r}")
        for words in self.clients.did[before:]:
            self.note(f"client: {words}")
        if self.rng.random() < 0.5:  # the database's notice may be lost
            for node in self.nodes:
                node.worker.claimer.forget_look()
                node.worker._claiming.wake()

    def _able(self, now: Instant) -> list[tuple[SimulatedNode, Choice]]:
        """What could happen at this instant."""
        choices: list[tuple[SimulatedNode, Choice]] = []
        for node in self.nodes:
            choices += [(node, held) for held in node.released()]
            choices += [(node, part) for part in node.idle_parts() if part.due_at <= now]
            choices += [(node, node.timer)] if (node.rings_at() or now + 1) <= now else []
        return choices

    async def _let(self, choice: tuple[SimulatedNode, Choice]) -> None:
        node, what = choice
        if isinstance(what, VirtualTimer):
            what.ring()
            await spin()
            return
        if isinstance(what, Part):
            await self._take_turn(node, what)
            return
        part = next((part for part in node.parts if part.task is not None and part.task is what.task), None)
        what.release.set_result(None)
        await spin()
        if part is None:
            return
        await self._follow(node, part)

    async def _take_turn(self, node: SimulatedNode, part: Part) -> None:
        self.turns += 1
        part.begin(self.time.now())
        await self._follow(node, part)

    async def _follow(self, node: SimulatedNode, part: Part) -> None:
        """Wait until the part's run is over or was held up."""
        await part.attention.wait()
        part.attention.clear()
        done = part.task is not None and part.task.done()
        if done and (error := part.end(self.time.now())) is not None:
            self.errors.append(f"{node.name}: {error}")
            self.note(f"{node.name}: {error}")
        await spin()

    async def _pass_time(self, now: Instant, *, waiting: bool) -> None:
        """A little time while there is work; else until something wants to happen."""
        span = self.rng.randrange(1000, 400_000)
        if not waiting:
            times = [part.due_at for node in self.nodes for part in node.idle_parts()]
            times += [held.until for node in self.nodes for held in node.held]
            times += [node.frozen_until for node in self.nodes if node.frozen]
            times += [at for node in self.nodes if (at := node.rings_at()) is not None]
            ahead = [time for time in (*times, *self.births) if time > now]
            span = min([SECOND, *(time - now for time in ahead)]) + self.rng.choice((0, 0, 1000, 50_000))
        await self.time.advance(span)
        await spin()

    async def _start_node(self) -> None:
        name = f"node {len(self.nodes) + len(self.gone) + 1}"
        node = await SimulatedNode.join(
            name, self.database, self.leasing, self.time.clock, SETTINGS, self.faults, self.target
        )
        self.nodes.append(node)
        self.note(f"{name}: joined as {node.node_id}")

    async def _bury_the_dead(self) -> None:
        for node in [node for node in self.nodes if node.dead]:
            self.nodes.remove(node)
            self.gone.append(node)
            await node.bury()
            delay = self.rng.choice((0.5, 2, 6)) * SECOND
            self.births = sorted([*self.births, self.time.now() + round(delay)])

    async def _heal(self) -> None:
        """No more faults; whatever stood still goes on; nobody is paused."""
        self.note("healed")
        self.faults.quiet = True
        self.target.moody = False
        await self._bury_the_dead()
        self.births = [self.time.now()] * (NODES - len(self.nodes))
        await self.clients.resume_all()

    async def _is_quiet(self) -> bool:
        row = await self.leasing.one(
            "SELECT (SELECT count(*) FROM executions) + (SELECT count(*) FROM jobs WHERE state IN ('active', 'paused')"
            " AND kind = 'recurring') AS left"
        )
        return row["left"] == 0 and not any(node.held for node in self.nodes)
