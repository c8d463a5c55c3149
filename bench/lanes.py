"""What a worker's look costs where there are many lanes.

    .venv/bin/python -m bench.lanes [--lanes 5000 20000]

A look as workers make it, from the arrays that they send to the views that they get: while nearly all lanes
are empty, while each has something queued for tomorrow, and while each has something due. Beside it, in the
same run, what as many look-ups by primary key take in one statement.
"""

import argparse
import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence

import uvloop

from bench.installation import Installation, installation
from tocsin.clock import system_now
from tocsin.db.pool import Database, open_database
from tocsin.domain.instant import DAY, SECOND, Span
from tocsin.queue.holder import Holder
from tocsin.queue.queue import open_queue

LOOKS = 15
TARGETS = {5000: 40.0, 20_000: 150.0}
"""Milliseconds that a look may take."""
CROWD = 5
"""From how many on a lane is crowded, as workers set it where lanes are many."""
QUEUES = ("default", "mail", "slow", "reports")
LOADS = (
    ("all but one empty", 0, DAY),
    ("all with something queued", 3, DAY),
    ("all with something due", 3, 0),
)
"""What lanes hold: in words, how many executions, and how far ahead."""
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
            for words, queued, ahead in LOADS:
                await fill(place, tenants, queued, ahead)
                took = await look(database)
                beside = await look_ups(database, tenants * len(QUEUES))
                print(
                    f"{lanes:,} lanes, {words}: a look {took:.1f} ms;"
                    f" {lanes:,} look-ups by primary key {beside:.1f} ms",
                    flush=True,
                )
                good &= took <= TARGETS.get(lanes, took)
        await database.close()
    return 0 if good else 1


async def fill(place: Installation, tenants: Sequence[int], queued: int, ahead: Span) -> None:
    """Put `queued` executions into every lane, due `ahead` from now; a few thousand into the first."""
    await place.empty()
    await place.database.execute(
        "INSERT INTO lanes (cell, queue, priority, tenant_id, route) SELECT 0, q, 5, t, 'noop' FROM unnest($1::text[]) AS q, unnest($2::integer[]) AS t",
        list(QUEUES),
        list(tenants),
    )
    for tables, number in (("lanes", queued), ("lanes WHERE queue = 'default' AND tenant_id = 1", 5000)):
        source = f"(SELECT * FROM {tables}) AS l"
        await place.database.execute(
            f"""INSERT INTO executions (cell, job_id, fire_at, tenant_id, queue, priority, due_at, run_at, route)
                SELECT 0, gen_random_uuid(), $2, l.tenant_id, l.queue, l.priority, $2, $2, 'noop'
                FROM {source}, generate_series(1, $1::integer)""",
            number,
            system_now() + ahead,
        )
    await place.settle_down()


async def look(database: Database) -> float:
    """Milliseconds that a look takes once the worker knows the lanes."""
    queue = open_queue(database, Holder(1), cell=0, claim_ttl=10, routes=["noop"])
    await queue.looking.look(system_now())
    return await median(lambda: queue.looking.look(system_now(), CROWD, system_now() + SECOND))


async def look_ups(database: Database, keys: Sequence[int]) -> float:
    """Milliseconds that look-ups of `keys` by primary key take in one statement."""
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
