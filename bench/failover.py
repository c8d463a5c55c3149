"""(j) Failover: an engine is killed with -9 under steady load. How late is what it had, and when is all on
time again?

    .venv/bin/python -m bench.failover [--rate 200] [--runs 3]

Three engines run `rate` one-offs per second and two jobs per shard that fire every second; the one with the
most claims dies. Affected are the executions that it had claimed: what it had not started goes back when its
node leaves the fleet, a call under way is waited for until its claim expires. Beside it the lease's and the
claim's time to live, which are the promise.
"""

import argparse
import asyncio

import msgspec
import uvloop

from bench.copies import Copies
from bench.herd import Lag, lag_of_history
from bench.installation import Installation, installation
from tocsin.clock import system_now
from tocsin.domain.instant import SECOND, Instant
from tocsin.domain.schedule import Schedule
from tocsin.domain.shard import DEFAULT_SHARDS
from tocsin.settings import Settings

ENGINES = 3
SHARDS = DEFAULT_SHARDS
JOBS_PER_SHARD = 2
BEFORE = 5  # seconds of load before the kill
LATE = 100.0  # milliseconds
TTL = Settings().lease_ttl


class Failover(msgspec.Struct, frozen=True):
    """What a killed engine did to the work. Lags in milliseconds, the rest in seconds since the kill."""

    affected: int
    affected_lag: Lag
    others_lag: Lag
    leased_again: float
    on_time_again: float


async def failover(place: Installation, rate: int) -> Failover:
    """Kill one of three engines."""
    await place.empty()
    await place.start("engine", ENGINES)
    await _until_balanced(place)
    start = (system_now() // SECOND + 4) * SECOND
    killed = start + BEFORE * SECOND
    end = killed + round((2 * TTL + 5) * SECOND)
    copies = await Copies.of_one(place)
    await copies.add((end - start) // SECOND * rate, start, SECOND // rate)
    await place.add_recurring(SHARDS * JOBS_PER_SHARD, Schedule(every="1s"), start)
    await _until(killed - SECOND // 10)
    victim, process = await _busiest(place)
    await _until(killed)
    await place.kill(process)
    await asyncio.sleep(0.1)  # what it sent in its last moment is done by then
    await place.database.execute(
        f"CREATE TABLE affected AS SELECT job_id, fire_at FROM executions WHERE node_id = {victim}"
    )
    leased_again = await _until_leased(place, victim, killed)
    await _until(end)
    await place.stop_firing(end)
    await place.stop()
    found = await _judged(place, killed, end, leased_again)
    await place.database.execute("DROP TABLE affected")
    return found


async def _until(instant: Instant) -> None:
    await asyncio.sleep((instant - system_now()) / SECOND)


async def _until_balanced(place: Installation) -> None:
    """Each engine has its share of the shards."""
    shares = "SELECT count(*) AS n FROM shards WHERE owner IS NOT NULL GROUP BY owner"
    most = -(-SHARDS // ENGINES)
    while True:
        held = [row["n"] for row in await place.database.fetch(shares)]
        if sum(held) == SHARDS and max(held) <= most:
            return
        await asyncio.sleep(0.1)


async def _busiest(place: Installation) -> tuple[int, int]:
    """The engine with the most claims: its node, and which of the processes it is."""
    row = await place.database.one(
        """SELECT n.id, split_part(n.name, ':', 2)::integer AS pid FROM executions e JOIN nodes n ON n.id = e.node_id
           GROUP BY n.id, n.name ORDER BY count(*) DESC LIMIT 1"""
    )
    return row["id"], [process.pid for process in place.processes].index(row["pid"])


async def _until_leased(place: Installation, dead: int, killed: Instant) -> float:
    """Seconds until others have all of the dead engine's shards."""
    lost = "SELECT EXISTS (SELECT FROM shards WHERE owner = $1) AS lost"
    while (await place.database.one(lost, dead))["lost"]:
        await asyncio.sleep(0.01)
    return (system_now() - killed) / SECOND


async def _judged(place: Installation, killed: Instant, end: Instant, leased_again: float) -> Failover:
    """By what history says about everything that was due from the kill, or from when the dead one claimed it,
    to the end."""
    hit = "(job_id, fire_at) IN (SELECT job_id, fire_at FROM affected)"
    row = await place.database.one(
        f"""SELECT (SELECT count(*) FROM affected) AS affected, count(*) FILTER (WHERE {hit}) AS found,
                   coalesce(extract(epoch FROM max(started_at) FILTER (
                       WHERE extract(epoch FROM started_at - due_at) * 1000 > {LATE}) - $1), 0)::float8 AS on_time_again
            FROM history WHERE state = 'succeeded'""",
        killed,
    )
    assert row["affected"] == row["found"], "an execution of the dead engine was lost"
    return Failover(
        row["affected"],
        await lag_of_history(place, hit),
        await lag_of_history(place, f"NOT {hit} AND due_at >= $1 AND due_at < $2", killed, end),
        leased_again,
        row["on_time_again"],
    )


async def main(rate: int, runs: int) -> None:
    async with installation() as place:
        for _ in range(runs):
            found = await failover(place, rate)
            print(
                f"{found.affected} executions were with the dead engine: start lag p50 {found.affected_lag.p50:,.0f} ms,"
                f" max {found.affected_lag.max:,.0f} ms; all others p50 {found.others_lag.p50:.1f} ms,"
                f" p99 {found.others_lag.p99:.1f} ms, max {found.others_lag.max:,.0f} ms; shards leased again after"
                f" {found.leased_again:.1f} s, everything on time after {found.on_time_again:.1f} s"
                f" (leases and claims last {TTL:g} s)",
                flush=True,
            )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m bench.failover", description=__doc__.partition("\n")[0])
    parser.add_argument("--rate", type=int, default=200, help="one-offs per second")
    parser.add_argument("--runs", type=int, default=3)
    options = parser.parse_args()
    uvloop.run(main(options.rate, options.runs))
