"""(k) Tasks: functions of users, in workers of theirs.

    .venv/bin/python -m bench.tasks [--only drain lag herd idle] [--count 20000] [--runs 3]

Drain: calls that are due run to the end, with full history, by one worker. Each function notes its start, as
the jobs of the peers do, and as many have to be noted as there were. Beside it stand one engine that runs
no-ops without any function, and 64 connections that claim one execution at a time and run nothing.

Lag and herd: from the instant to the function's own note, at random instants and at one. Idle: what a hundred
workers with nothing to do ask of the gateway and the database.
"""

import argparse
import asyncio
import random
from collections.abc import Awaitable, Callable
from typing import NamedTuple, TypeVar

import uvloop

from bench.drain import drain
from bench.herd import lag_of
from bench.idle import SETTLE, queries
from bench.installation import Installation, installation
from bench.peers.record import payload
from bench.processes import cpu_seconds
from bench.report import Spread
from bench.task_workers import bare_workers, gateway
from tocsin.clock import system_now
from tocsin.domain.instant import MILLISECOND, SECOND
from tocsin.domain.task_target import TaskTarget

CONNECTIONS = 64
WORKERS = 10
IDLE_WORKERS = 100
T = TypeVar("T")


class Kind(NamedTuple):
    """A way to run a task."""

    name: str
    task: str = "noop"
    inside: bool = False
    """In a worker of the fleet, straight from the database."""
    processes: int = 1


KINDS = (
    Kind("one remote worker, `def`"),
    Kind("one remote worker, `async def`", "noop_async"),
    Kind('one remote worker, `run="process"` on two children', "noop_process", processes=2),
    Kind("`tocsin worker --app`, `def`", inside=True),
)
ENGINE = "one engine, no-ops without a function"
ONE_AT_A_TIME = f"{CONNECTIONS} connections, one execution at a time, without a function"


def call_of(task: str) -> TaskTarget:
    """A call with as much payload as the peers' jobs have."""
    return TaskTarget(f"bench.{task}", payload(0.0))


async def drain_of(place: Installation, count: int, kind: Kind) -> float:
    """Tasks per second, from the first start to the last finish."""
    async with gateway(place) as workers:
        await _hold(place, count, kind.task)
        await (workers.serve_inside() if kind.inside else workers.serve(processes=kind.processes))
        rate = await _let_go(place, count)
        await workers.stop()
        _all(count, workers.starts())
        return rate


async def drain_one_at_a_time(place: Installation, count: int) -> float:
    """Executions per second, each claimed by a request of its own that settles the one before."""
    async with gateway(place) as workers:
        await _hold(place, count, "noop")
        async with bare_workers(workers.port, CONNECTIONS):
            return await _let_go(place, count)


async def drains(
    place: Installation, count: int, runs: int, tell: Callable[[str], None]
) -> dict[str, list[float]]:
    """All kinds, in turns, beside what has no functions to run."""
    ways: dict[str, Callable[[], Awaitable[float]]] = {
        kind.name: lambda kind=kind: drain_of(place, count, kind)  # type: ignore[misc]
        for kind in KINDS
    }
    ways[ONE_AT_A_TIME] = lambda: drain_one_at_a_time(place, count)
    ways[ENGINE] = lambda: drain(place, count, 1)
    rates: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(runs):
        for name, way in ways.items():
            rates[name].append(await way())
            tell(f"{name}: {rates[name][-1]:,.0f} per second")
    return rates


async def lags(place: Installation, count: int, seconds: int, seed: int) -> list[float]:
    """Milliseconds from due to the function's first line, at random instants, through a parked request."""
    rng = random.Random(seed)
    async with gateway(place) as workers:
        await workers.serve()
        start = system_now() + 5 * SECOND
        for due_at in [start + rng.randrange(seconds * SECOND) for _ in range(count)]:
            await place.add_one_offs(1, due_at, call_of("noop"))
        await place.wait_until_done()
        await workers.stop()
        return _all(count, [one.start - one.due for one in workers.starts()])


async def herd_lags(place: Installation, count: int, number: int = WORKERS) -> list[float]:
    """The same for tasks that are all due at one instant, over `number` workers."""
    async with gateway(place) as workers:
        await place.add_one_offs(count, system_now() + 3600 * SECOND, call_of("noop"))
        await place.settle_down()
        await workers.serve(number)
        instant = system_now() + 6 * SECOND
        await place.database.execute("UPDATE executions SET due_at = $1, run_at = $1", instant)
        await place.wait_until_done()
        await workers.stop()
        return _all(count, [one.start - instant / MILLISECOND for one in workers.starts()])


class Added(NamedTuple):
    """What idle workers add to an idle API."""

    queries: float
    cpu_percent: float


async def idle_workers(place: Installation, seconds: float) -> Added:
    """Per second, by a hundred parked workers; their own processes are not counted."""
    async with gateway(place) as workers:
        alone = await _cost(place, seconds)
        async with bare_workers(workers.port, IDLE_WORKERS):
            together = await _cost(place, seconds)
    return Added(together.queries - alone.queries, together.cpu_percent - alone.cpu_percent)


async def _cost(place: Installation, seconds: float) -> Added:
    await asyncio.sleep(SETTLE)
    pids = [*place.pids, *place.server_pids]
    asked, busy = await queries(place), cpu_seconds(pids)
    await asyncio.sleep(seconds)
    asked, busy = await queries(place) - asked, cpu_seconds(pids) - busy
    return Added(asked / seconds, 100 * busy / seconds)


async def _hold(place: Installation, count: int, task: str) -> None:
    """Due work that waits in a paused queue."""
    await place.pause_queue()
    await place.add_one_offs(count, system_now(), call_of(task))
    await place.settle_down()


async def _let_go(place: Installation, count: int) -> float:
    """Have it run. Per second, by the database's own record."""
    await place.resume_queue()
    await place.wait_until_done()
    await place.expect_all_succeeded(count)
    row = await place.database.one(
        "SELECT count(*) / extract(epoch FROM max(finished_at) - min(started_at))::float8 AS rate FROM history"
    )
    return float(row["rate"])


def _all(count: int, noted: list[T]) -> list[T]:
    """A measurement whose functions did not all run, or ran twice, is none."""
    assert len(noted) == count, f"{len(noted):,} functions ran instead of {count:,}"
    return noted


async def main(only: list[str], count: int, runs: int) -> None:
    async with installation() as place:
        if "drain" in only:
            for name, rates in (await drains(place, count, runs, print)).items():
                print(f"{name:<70} {Spread.of(rates)} per second", flush=True)
        for run in range(runs):
            if "lag" in only:
                print(f"at random instants: {lag_of(await lags(place, 200, 10, run))}", flush=True)
            if "herd" in only:
                found = lag_of(await herd_lags(place, count))
                print(f"{count:,} at one instant, {WORKERS} workers: {found}", flush=True)
        if "idle" in only:
            print(f"{IDLE_WORKERS} idle workers add {await idle_workers(place, 30)}")


if __name__ == "__main__":
    parts = ["drain", "lag", "herd", "idle"]
    parser = argparse.ArgumentParser(prog="python -m bench.tasks", description=__doc__.partition("\n")[0])
    parser.add_argument("--only", nargs="+", choices=parts, default=parts, help="what to measure")
    parser.add_argument("--count", type=int, default=20_000, help="tasks to drain, or at one instant")
    parser.add_argument("--runs", type=int, default=3)
    options = parser.parse_args()
    uvloop.run(main(options.only, options.count, options.runs))
