"""(h) Idle cost: what a fleet with nothing to do asks of the database and the processor.

.venv/bin/python -m bench.idle [--engines 2] [--seconds 30] [--shards 256]
"""

import argparse
import asyncio

import msgspec
import uvloop

from bench.installation import Installation, installation
from bench.processes import cpu_seconds, resident_mb
from tocsin.domain.shard import DEFAULT_SHARDS

SETTLE = 15  # seconds; connections that become idle tell what they did only after ten, and joining the fleet is not idling


class Idle(msgspec.Struct, frozen=True):
    """Per second, while nothing is due."""

    queries: float
    cpu_percent: float
    connections: int
    memory_mb: float


async def idle(place: Installation, engines: int, seconds: float = 30.0) -> Idle:
    """An idle API and engines, after they have settled. What PostgreSQL does for itself meanwhile (autovacuum
    looks at each table by a transaction of its own) is measured before, and not counted."""
    await place.empty()
    alone = await queries(place)
    await asyncio.sleep(seconds)
    alone = await queries(place) - alone
    await place.start("api", 1, port=0)
    await place.start("engine", engines)
    await asyncio.sleep(SETTLE)
    pids = [*place.pids, *place.server_pids]
    before, busy_before = await queries(place), cpu_seconds(pids)
    await asyncio.sleep(seconds)
    after, busy_after = await queries(place), cpu_seconds(pids)
    connections = await place.database.one(
        "SELECT count(*) AS n FROM pg_stat_activity WHERE application_name LIKE 'tocsin%'"
    )
    memory = resident_mb(place.pids)
    result = Idle(
        (after - before - alone) / seconds,
        100 * (busy_after - busy_before) / seconds,
        connections["n"],
        memory,
    )
    await place.stop()
    return result


async def queries(place: Installation) -> int:
    """Transactions so far: every statement of an idle fleet is its own."""
    await place.database.execute("SELECT pg_stat_force_next_flush()")
    row = await place.database.one(
        "SELECT xact_commit + xact_rollback AS n FROM pg_stat_database WHERE datname = current_database()"
    )
    return int(row["n"])


async def main(engines: int, seconds: float, shards: int) -> None:
    async with installation(shards=shards) as place:
        cost = await idle(place, engines, seconds)
    print(
        f"idle api + {engines} engines: {cost.queries:.1f} queries per second, {cost.cpu_percent:.1f} % of a core with the"
        f" database, {cost.connections} connections, {cost.memory_mb:.0f} MB"
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m bench.idle", description=__doc__.partition("\n")[0])
    parser.add_argument("--engines", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=30.0, help="how long it is watched")
    parser.add_argument("--shards", type=int, default=DEFAULT_SHARDS, help="of the installation")
    options = parser.parse_args()
    uvloop.run(main(options.engines, options.seconds, options.shards))
