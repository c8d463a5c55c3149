"""What goes wrong, drawn from the seed.

Whenever a node passes a point, `Faults` may strike. Points are the named failpoints of the product and, so
that every exchange with the database can fail on either side, `before` and `after` each statement. A fault
is:

- *crash*: the node is gone at this very line, with everything it held in memory;
- *freeze*: the whole node stands still for a while, often past its leases and claims, and then goes on as if
  nothing had happened: a zombie;
- *stall*: only this piece of work stands still while the node's other parts go on;
- *loss*: the database cannot be reached; `after` a statement that means it was committed but its answer is
  lost.
"""

import asyncio
import random
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Protocol

import tocsin
from tocsin.db.pool import Database, Record
from tocsin.db.statements import named, statement
from tocsin.domain.errors import Unavailable
from tocsin.domain.instant import SECOND, Instant
from tocsin.failpoints import Failpoints

# The named failpoints, and how likely something happens there. A pause between a look and the write that
# follows from it makes the zombies that fencing is for; planners and reclaimers pass seldom, so they are
# struck more often.
NAMED = {
    "leaser.renewed": 0.02,
    "planner.read": 0.08,
    "planner.before_write": 0.16,
    "planner.written": 0.06,
    "reclaimer.wrote": 0.15,
    "reclaimer.released": 0.15,
    "claimer.claimed": 0.025,
    "starter.before": 0.05,
    "starter.started": 0.025,
    "misfires.before": 0.1,
    "misfires.decided": 0.1,
    "runner.before_call": 0.04,
    "runner.called": 0.025,
    "settler.before": 0.07,
    "settler.written": 0.02,
}
_BEFORE_A_WRITE = {
    "planner.read",
    "planner.before_write",
    "starter.before",
    "misfires.before",
    "settler.before",
    "runner.before_call",
}


class SimulatedCrash(BaseException):
    """The process died here. Not an `Exception`, so that nothing survives it by accident."""


class Victim(Protocol):
    """A node, as far as faults are concerned."""

    name: str

    def crash(self) -> None: ...
    async def hold(self, until: Instant, *, everything: bool) -> None: ...


class Faults:
    """Decides by seed whether a point is passed unharmed."""

    def __init__(
        self, rng: random.Random, now: Callable[[], Instant], *, ttl: float, share: float = 1.0
    ) -> None:
        self._rng = rng
        self._now = now
        self._ttl = ttl
        self._share = share
        self.quiet = False
        self.landed: Counter[str] = Counter()
        self.passed: set[str] = set()
        self.log: Callable[[str], None] = lambda _: None

    def failpoints(self, victim: Victim) -> Failpoints:
        """The failpoints of a node, all of them armed."""
        points = Failpoints()
        for point in NAMED:
            points.arm(point, self._action(victim, point))
        return points

    async def at(self, victim: Victim, point: str, *, likely: float, kinds: dict[str, float]) -> None:
        """`victim` passes `point`."""
        self.passed.add(point)
        if self.quiet or self._rng.random() >= likely * self._share:
            return
        kind = self._rng.choices(list(kinds), list(kinds.values()))[0]
        self.landed[f"{kind} at {point}"] += 1
        self.landed[kind] += 1
        self.log(f"{victim.name}: {kind} at {point}")
        match kind:
            case "crash":
                victim.crash()
                raise SimulatedCrash(point)
            case "loss":
                raise Unavailable(f"the database did not answer: {point}")
            case _:
                await victim.hold(self._now() + self._length(), everything=kind == "freeze")

    def _action(self, victim: Victim, point: str) -> Callable[[], Any]:
        late = point in _BEFORE_A_WRITE
        kinds = (
            {"crash": 3.0, "freeze": 6.0, "stall": 2.0}
            if late
            else {"crash": 3.0, "freeze": 1.0, "stall": 1.0}
        )
        return lambda: self.at(victim, point, likely=NAMED[point], kinds=kinds)

    def _length(self) -> int:
        """From a hiccup to several times what leases and claims last."""
        return round(
            self._rng.choice((0.3, 0.8, 1.5, 3.0, 4.0)) * self._rng.uniform(0.8, 1.2) * self._ttl * SECOND
        )


class FaultyDatabase(Database):
    """A node's way to the database. Shares the connections of all nodes; only the faults are its own."""

    def __init__(self, database: Database, faults: Faults, victim: Victim) -> None:
        super().__init__(database._pool, database._timeout, database.presence)
        self._faults = faults
        self._victim = victim

    async def fetch(self, query: str, *args: Any) -> list[Record]:
        await self._before(query)
        rows = await super().fetch(query, *args)
        await self._after(query)
        # Where a statement leaves the order open, storage decides; a seed must not depend on that.
        return sorted(rows, key=repr) if name_of(query) in _UNORDERED else rows

    async def fetchrow(self, query: str, *args: Any) -> Record | None:
        await self._before(query)
        row = await super().fetchrow(query, *args)
        await self._after(query)
        return row

    async def execute(self, query: str, *args: Any) -> str:
        await self._before(query)
        done = await super().execute(query, *args)
        await self._after(query)
        return done

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[Any]:
        """A crash or a loss inside rolls back; after the commit it only hides what was done."""
        async with super().transaction() as session:
            yield session
            # Standing still here would hold locks that the driver of the simulation could wait for.
            await self._faults.at(
                self._victim, "before commit", likely=0.02, kinds={"crash": 1.0, "loss": 1.0}
            )
        await self._after("commit")

    async def _before(self, query: str) -> None:
        await self._faults.at(
            self._victim,
            f"before {name_of(query)}",
            likely=0.008,
            kinds={"crash": 1.0, "loss": 2.0, "freeze": 1.0, "stall": 1.0},
        )

    async def _after(self, query: str) -> None:
        await self._faults.at(
            self._victim,
            f"after {name_of(query)}",
            likely=0.012,
            kinds={"crash": 1.0, "loss": 3.0, "freeze": 1.0},
        )


_UNORDERED = {"claim", "due_jobs", "look_below", "overdue", "start", "start_alone"}


def name_of(query: str) -> str:
    """A statement's short name, the same whether or not a test has edited its text."""
    return _NAMES.get(query) or " ".join(query.split()[:3])


def know(text: str, name: str) -> None:
    """A test has edited the text of a statement."""
    _NAMES[text] = name


def _names() -> dict[str, str]:
    root = Path(tocsin.__file__).parents[1]
    found = {}
    for file in root.glob("tocsin/**/sql/*.sql"):
        package = ".".join(file.parents[1].relative_to(root).parts)
        found[statement(package, file.stem)] = file.stem
        found[named(package, file.stem).text] = file.stem
    return found


_NAMES = _names()


async def spin() -> None:
    """Let everything that is able to run do so."""
    for _ in range(12):
        await asyncio.sleep(0)
