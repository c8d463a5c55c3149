"""(b) Drain: how fast due executions run to the end, with full history, beside PostgreSQL's own limit.

The limit is the same claim and settle statements over the same rows from the same number of processes, with
nothing in between: no targets, no policies, no metrics.

    .venv/bin/python -m bench.drain [--count 100000] [--runs 3]

With policies: the same drain where executions belong to a hundred tenants, where each is under one of a
thousand limit keys, where each job must not overlap (skip, queue, collapse and replace in turns; each job has
one execution, so all of them run), and with ten tenants, keys and `skip` together. These stand beside the
plain drain.
"""

import argparse
import asyncio
import multiprocessing
import secrets
import time
from collections.abc import Callable
from typing import NamedTuple

import uvloop

from bench.installation import Installation, installation
from bench.processes import cpu_seconds, resident_mb
from bench.report import Spread
from tocsin.clock import system_now
from tocsin.db.pool import open_database
from tocsin.domain.instant import SECOND
from tocsin.domain.policy import Limit, Overlap, Policies
from tocsin.domain.target import Target
from tocsin.queue.allotment import Allotment
from tocsin.queue.holder import Holder
from tocsin.queue.lanes import Lane
from tocsin.queue.queue import open_queue

LANE = Lane("default", 5, 1, "noop")
ENGINES = 2
LIMIT_KEYS = 1000
SOME, MANY = 10, 100  # tenants
OVERLAPS = (Overlap.SKIP, Overlap.QUEUE, Overlap.COLLAPSE, Overlap.REPLACE)


class Drained(NamedTuple):
    """Executions per second from the first start to the last finish; processor time and memory of the
    engines."""

    rate: float
    cpu_seconds: float
    memory_mb: float


async def drain(
    place: Installation,
    count: int,
    engines: int,
    policies: Callable[[int], Policies] | None = None,
    tenants: int = 1,
) -> float:
    """Executions per second, by the database's own record."""
    return (await drained(place, count, engines, policies=policies, tenants=tenants)).rate


async def drained(
    place: Installation,
    count: int,
    engines: int,
    *,
    target: Target | None = None,
    policies: Callable[[int], Policies] | None = None,
    tenants: int = 1,
    **settings: object,
) -> Drained:
    """The same, with all there is to say."""
    await place.empty()
    # Queues are paused until engines are up and all work is there: neither start-up nor creation is measured.
    for tenant in await place.tenants(tenants):
        await place.pause_queue(tenant)
        await place.add_one_offs(count // tenants, system_now(), target, policies, tenant)
    await place.honour_overlap()
    await place.settle_down()
    await place.start("engine", engines, **settings)
    before = cpu_seconds(place.pids)
    await place.resume_queue()
    await place.wait_until_done()
    used, memory = cpu_seconds(place.pids) - before, resident_mb(place.pids)
    row = await place.database.one(
        "SELECT count(*) / extract(epoch FROM max(finished_at) - min(started_at))::float8 AS rate FROM history"
    )
    await place.stop()
    await place.expect_all_succeeded(count // tenants * tenants)
    return Drained(float(row["rate"]), used, memory)


def free_limit(number: int) -> Policies:
    """A key that has room."""
    return Policies(limit=Limit(f"key-{number % LIMIT_KEYS}", max_parallel=50))


def one_at_a_time(number: int) -> Policies:
    """A job that must not overlap, in one of the ways there are."""
    return Policies(overlap=OVERLAPS[number % len(OVERLAPS)])


def both(number: int) -> Policies:
    """A key that has room, as many of them over all tenants, and a job that must not overlap."""
    return Policies(limit=free_limit(number % (LIMIT_KEYS // SOME)).limit, overlap=Overlap.SKIP)


class Kind(NamedTuple):
    """What may be different from the plain drain."""

    name: str
    policies: Callable[[int], Policies] | None = None
    tenants: int = 1


KINDS = (
    Kind("plain"),
    Kind(f"{MANY} tenants", tenants=MANY),
    Kind(f"each under one of {LIMIT_KEYS:,} limit keys", free_limit),
    Kind("no job may overlap", one_at_a_time),
    Kind(f"{SOME} tenants, limit keys and overlap `skip`", both, SOME),
)


async def kinds(place: Installation, count: int, runs: int) -> dict[str, list[float]]:
    """Drains of all kinds, in turns."""
    rates: dict[str, list[float]] = {kind.name: [] for kind in KINDS}
    for _ in range(runs):
        for kind in KINDS:
            rates[kind.name].append(await drain(place, count, ENGINES, kind.policies, kind.tenants))
    return rates


async def limit(place: Installation, count: int, processes: int) -> float:
    """The same row operations by the same statements, driven as plainly as possible."""
    await place.empty()
    await place.add_one_offs(count, system_now() - SECOND)
    await place.settle_down()
    context = multiprocessing.get_context("spawn")
    ready, go = context.Semaphore(0), context.Event()
    workers = [context.Process(target=_pump, args=(place.url, ready, go)) for _ in range(processes)]
    for worker in workers:
        worker.start()
    for _ in workers:
        await asyncio.to_thread(ready.acquire)
    began = time.perf_counter()
    go.set()
    await place.wait_until_done()
    took = time.perf_counter() - began
    for worker in workers:
        await asyncio.to_thread(worker.join)
    return count / took


def _pump(url: str, ready, go) -> None:  # type: ignore[no-untyped-def]  # noqa: ANN001
    uvloop.run(_pump_until_empty(url, ready, go))


async def _pump_until_empty(url: str, ready, go) -> None:  # type: ignore[no-untyped-def]  # noqa: ANN001
    database = await open_database(url, name="bench limit", size=2, pinned=True)
    queue = open_queue(database, Holder(1), cell=0, claim_ttl=60, routes=["noop"])
    await queue.claiming.claim([Allotment(LANE, 0)], 0, 0, 0)  # prepare the statement
    ready.release()
    go.wait()
    settling: asyncio.Task[object] | None = None
    while True:
        now = system_now()
        claims = await queue.claiming.claim([Allotment(LANE, 1000)], now, secrets.randbits(63), now)
        if settling:
            await settling
        if not claims:
            break
        settling = asyncio.create_task(queue.settling.succeed(claims, now))
    await database.close()


async def main(count: int, runs: int) -> None:
    async with installation() as place:
        for name, rates in (await kinds(place, count, runs)).items():
            print(f"{name:<45} {Spread.of(rates)} per second")
        print(
            f"{'bare statements':<45} {Spread.of([await limit(place, count, ENGINES) for _ in range(runs)])}"
        )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m bench.drain", description=__doc__.partition("\n")[0])
    parser.add_argument("--count", type=int, default=100_000, help="executions to drain")
    parser.add_argument("--runs", type=int, default=3)
    options = parser.parse_args()
    uvloop.run(main(options.count, options.runs))
