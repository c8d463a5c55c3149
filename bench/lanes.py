"""What a worker's look costs where there are many lanes.

    .venv/bin/python -m bench.lanes [--lanes 5000 20000]

A look as workers make it, from the arrays that they send to the views that they get: while nearly all lanes are empty, and while
each has something queued. Beside it, in the same run, what as many look-ups by primary key take in one statement.
"""

import argparse
import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence

import uvloop

from bench.installation import Installation, installation
from tocsin.clock import system_now
from tocsin.db.pool import Database, open_database
from tocsin.queue.postgres import PostgresQueue

LOOKS = 15
TARGETS = {5000: 40.0, 20_000: 150.0}
"""Milliseconds that a look may take."""
QUEUES = ("default", "mail", "slow", "reports")
_LOOK_UPS = """
SELECT count(*) FROM unnest($1::integer[]) AS a (id)
CROSS JOIN LATERAL (SELECT t.weight FROM tenants t WHERE t.id = a.id OFFSET 0) AS t
"""


async def main(sizes: Sequence[int]) -> int:
    async with installation() as place:
        database = await open_database(place.url, name="tocsin bench engine", pinned=True, timeout=60)
        good = True
        for lanes in sizes:
            tenants = await place.tenants(lanes // len(QUEUES))
            for queued in (0, 3):
                await fill(place, tenants, queued)
                took = await look(database)
                beside = await look_ups(database, tenants * len(QUEUES))
                print(
                    f"{lanes:,} lanes, {'all with something queued' if queued else 'all but one empty'}: a look {took:.1f} ms;"
                    f" {lanes:,} look-ups by primary key {beside:.1f} ms",
                    flush=True,
                )
                good &= took <= TARGETS.get(lanes, took)
        await database.close()
    return 0 if good else 1


async def fill(place: Installation, tenants: Sequence[int], queued: int) -> None:
    """So many executions in every lane, far ahead; a few thousand in the first."""
    await place.empty()
    await place.database.execute(
        "INSERT INTO lanes (cell, queue, priority, tenant_id) SELECT 0, q, 5, t FROM unnest($1::text[]) AS q, unnest($2::integer[]) AS t",
        list(QUEUES),
        list(tenants),
    )
    for tables, number in (("lanes", queued), ("lanes WHERE queue = 'default' AND tenant_id = 1", 5000)):
        source = f"(SELECT * FROM {tables}) AS l"
        await place.database.execute(
            f"""INSERT INTO executions (cell, job_id, fire_at, tenant_id, queue, priority, due_at, run_at)
                SELECT 0, gen_random_uuid(), now() + interval '1 day', l.tenant_id, l.queue, l.priority,
                       now() + interval '1 day', now() + interval '1 day'
                FROM {source}, generate_series(1, $1::integer)""",
            number,
        )
    await place.settle_down()


async def look(database: Database) -> float:
    """Milliseconds that a look takes once the worker knows the lanes."""
    queue = PostgresQueue(database, 1, 10.0)
    await queue.peek(system_now())
    return await median(lambda: queue.peek(system_now(), 1000, system_now()))


async def look_ups(database: Database, keys: Sequence[int]) -> float:
    """Milliseconds that so many look-ups by primary key take in one statement."""
    return await median(lambda: database.fetch(_LOOK_UPS, keys))


async def median(work: Callable[[], Awaitable[object]]) -> float:
    took = []
    for _ in range(LOOKS):
        start = time.perf_counter()
        await work()
        took.append((time.perf_counter() - start) * 1000)
        await asyncio.sleep(0.05)
    return sorted(took)[LOOKS // 2]


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m bench.lanes", description=__doc__.partition("\n")[0])
    parser.add_argument("--lanes", type=int, nargs="+", default=list(TARGETS), help="how many lanes")
    raise SystemExit(uvloop.run(main(parser.parse_args().lanes)))
