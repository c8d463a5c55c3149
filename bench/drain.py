"""(b) Drain: how fast due executions run to the end, with full history, beside PostgreSQL's own limit.

The limit is the same claim and settle statements over the same rows from the same number of processes, with
nothing in between: no targets, no policies, no metrics.
"""

import asyncio
import multiprocessing
import secrets
import time
from collections.abc import Callable

import uvloop

from bench.installation import Installation
from tocsin.clock import system_now
from tocsin.db.pool import open_database
from tocsin.domain.instant import SECOND
from tocsin.domain.policy import Policies
from tocsin.queue.lanes import Allotment, Lane
from tocsin.queue.postgres import PostgresQueue

LANE = Lane("default", 5, 1)


async def drain(
    place: Installation, count: int, engines: int, policies: Callable[[int], Policies] | None = None
) -> float:
    """Executions per second from the first start to the last finish, by the database's own record."""
    await place.empty()
    # The queue is paused until engines are up and all work is there: neither start-up nor creation is measured.
    await place.pause_queue()
    await place.add_one_offs(count, system_now(), policies=policies)
    await place.settle_down()
    await place.start("engine", engines)
    await place.resume_queue()
    await place.wait_until_done()
    row = await place.database.one(
        "SELECT count(*) / extract(epoch FROM max(finished_at) - min(started_at))::float8 AS rate FROM history"
    )
    await place.stop()
    return float(row["rate"])


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
    queue = PostgresQueue(database, node_id=1, claim_ttl=60)
    await queue.claim([Allotment(LANE, 0)], 0, 0, 0)  # prepare the statement
    ready.release()
    go.wait()
    settling: asyncio.Task[object] | None = None
    while True:
        now = system_now()
        claims = await queue.claim([Allotment(LANE, 1000)], now, secrets.randbits(63), now)
        if settling:
            await settling
        if not claims:
            break
        settling = asyncio.create_task(queue.succeed(claims, now))
    await database.close()
