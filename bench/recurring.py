"""(f) Recurring: many jobs that fire every minute, all at its boundary. Is the minute kept, and how late are they?

.venv/bin/python -m bench.recurring [--jobs 5000] [--minutes 3]
"""

import argparse
import asyncio

import msgspec
import uvloop

from bench.herd import Lag
from bench.installation import BATCH, Installation, installation
from tocsin.clock import system_now
from tocsin.domain.ids import new_job_id, shard_of
from tocsin.domain.instant import MINUTE, SECOND
from tocsin.domain.job import Definition
from tocsin.domain.schedule import Schedule
from tocsin.domain.target import NoopTarget
from tocsin.store.jobs import JobStore, NewJob

ENGINES = 2
# Engines need a moment to join, and the first minute's plan must not be late.
SET_UP = 45 * SECOND


class Minute(msgspec.Struct, frozen=True):
    """How many of a minute's fire times ran, and how late they started."""

    fired: int
    lag: Lag


async def recurring(place: Installation, jobs: int, minutes: int) -> list[Minute]:
    """Let the jobs fire for some minutes. The first of them counts like any other."""
    await place.empty()
    await place.start("engine", ENGINES)
    await add_minute_jobs(place, jobs)
    first = -(-(system_now() + SET_UP) // MINUTE) * MINUTE
    await place.database.execute("UPDATE jobs SET next_fire_at = $1", first)
    await place.settle_down()
    end = first + minutes * MINUTE
    while system_now() < end - SECOND:
        await asyncio.sleep(0.2)
    await place.database.execute(
        "UPDATE jobs SET state = 'completed', next_fire_at = NULL WHERE state = 'active'"
    )
    await place.database.execute("DELETE FROM executions WHERE fire_at >= $1 AND claim_token IS NULL", end)
    await place.wait_until_done()
    await place.stop()
    rows = await place.database.fetch(
        """SELECT count(*)::integer AS fired, min(lag) AS first,
                  percentile_cont(0.5) WITHIN GROUP (ORDER BY lag) AS p50,
                  percentile_cont(0.99) WITHIN GROUP (ORDER BY lag) AS p99, max(lag) AS max
           FROM (SELECT fire_at, extract(epoch FROM started_at - due_at)::float8 * 1000 AS lag FROM history
                 WHERE state = 'succeeded' AND fire_at >= $1 AND fire_at < $2) AS h
           GROUP BY fire_at ORDER BY fire_at""",
        first,
        end,
    )
    return [Minute(row["fired"], Lag(row["first"], row["p50"], row["p99"], row["max"])) for row in rows]


async def add_minute_jobs(place: Installation, count: int) -> None:
    """Recurring jobs as the API would write them."""
    store = JobStore(place.database)
    definition = Definition(Schedule(cron="* * * * *"), NoopTarget())
    for start in range(0, count, BATCH):
        now = system_now()
        far = now + 60 * MINUTE  # until all are there
        ids = [new_job_id(now) for _ in range(min(BATCH, count - start))]
        await store.define(
            [NewJob(job_id, 1, shard_of(job_id, 64), definition, far, far) for job_id in ids], now
        )


async def main(jobs: int, minutes: int) -> None:
    async with installation() as place:
        for minute in await recurring(place, jobs, minutes):
            lag = minute.lag
            print(
                f"{minute.fired:,} of {jobs:,} fired; start lag p50 {lag.p50:,.0f} ms, p99 {lag.p99:,.0f} ms,"
                f" max {lag.max:,.0f} ms, earliest {lag.first:.1f} ms"
            )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m bench.recurring", description=__doc__.partition("\n")[0])
    parser.add_argument("--jobs", type=int, default=5000)
    parser.add_argument("--minutes", type=int, default=3)
    options = parser.parse_args()
    uvloop.run(main(options.jobs, options.minutes))
