"""Catching up: minute-jobs that were down for hours come back while other jobs go on firing.

    .venv/bin/python -m bench.catch_up [--jobs 20000] [--hours 3] [--live 200]

A herd of jobs ``* * * * *`` under `fire_once` has cursors that lie hours back, as after an outage of all
schedulers. Beside it `live` jobs fire every second. Real engine processes are started, and three lags are
read from history once each job of the herd has fired:

    live lane, alone      the every-second jobs before the herd is there: what the machine does on a quiet day
    live lane, meanwhile  the same jobs while the herd catches up, from due to started
    catch-up lane         from the return of the engines to the start of each job's one late fire

The herd's own fires of the minutes that pass meanwhile are live fires too; they are shown on their own,
because thousands at one instant are a herd in their own right.
"""

import argparse
import asyncio
import os
import platform
import time
from typing import Any

import uvloop

from bench.installation import Installation, installation
from tocsin.clock import system_now
from tocsin.domain.instant import HOUR, MINUTE, SECOND, Instant
from tocsin.domain.schedule import Schedule, rule_of

ENGINES = 2
QUIET = 15.0  # seconds of the quiet day
LAG = """
SELECT count(*) AS fires, count(DISTINCT job_id) AS jobs,
       percentile_cont(0.5) WITHIN GROUP (ORDER BY lag) AS p50, percentile_cont(0.99) WITHIN GROUP (ORDER BY lag) AS p99,
       max(lag) AS max
FROM (SELECT job_id, extract(epoch FROM started_at - greatest(due_at, $3))::float8 * 1000 AS lag FROM history
      WHERE queue = $1 AND cause = $2 AND state = 'succeeded' AND due_at >= $4) AS h
"""


async def main(jobs: int, hours: float, live: int) -> None:
    print(
        f"{platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}, {ENGINES} engines"
    )
    async with installation() as place:
        await add(place, live, Schedule(every="1s"), "live", system_now())
        await place.start("engine", ENGINES)
        joined = system_now() + 2 * SECOND  # the first seconds belong to starting up
        await asyncio.sleep(QUIET)
        await place.stop()
        show("live lane, alone", await lag(place, "live", "schedule", joined))
        await place.empty()
        await catch_up(place, jobs, round(hours * HOUR), live)


async def catch_up(place: Installation, jobs: int, down: int, live: int) -> None:
    now = system_now()
    await add(place, jobs, Schedule(cron="* * * * *"), "herd", now - down)
    await add(place, live, Schedule(every="1s"), "live", now)
    await place.settle_down()
    back = system_now()
    # The live jobs begin when the processes have started.
    await place.database.execute(
        "UPDATE jobs SET next_fire_at = date_trunc('second', tocsin_now()) + interval '8 s' WHERE queue = 'live'"
    )
    began = time.perf_counter()
    await place.start("engine", ENGINES)
    while (await place.database.one("SELECT count(*) AS n FROM history WHERE cause = 'catch_up'"))[
        "n"
    ] < jobs:
        await asyncio.sleep(0.2)
    took = time.perf_counter() - began
    # Past the next full minute, so that the herd's own live fires are seen too.
    await asyncio.sleep((-system_now() % MINUTE) / SECOND + 5)
    await place.stop()
    show("live lane, meanwhile", await lag(place, "live", "schedule", back))
    show("catch-up lane, since the return", await lag(place, "herd", "catch_up", back))
    show("the herd's own live fires", await lag(place, "herd", "schedule", back))
    late = await place.database.one(LAG, "herd", "catch_up", back, 0)
    row = await place.database.one(
        "SELECT coalesce(sum(fire_count), 0)::bigint AS n, count(*) AS rows FROM history WHERE state = 'skipped'"
    )
    assert late["fires"] == late["jobs"] == jobs, "each job fires once"
    print(f"{jobs:,} jobs down for {down / HOUR:g} h fired once each within {took:.1f} s of the return;")
    print(f"{row['n']:,} missed fire times are recorded as skipped in {row['rows']:,} rows")


async def add(place: Installation, count: int, written: Schedule, queue: str, since: Instant) -> None:
    """Recurring jobs that were not planned since an instant."""
    first = rule_of(written).next_fire(since - since % MINUTE if written.cron else since)
    assert first is not None
    await place.add_recurring(count, written, first, queue)


async def lag(place: Installation, queue: str, cause: str, since: Instant) -> Any:
    """Milliseconds; what was due before `since` counts from there."""
    earliest = since if cause == "schedule" else 0
    return await place.database.one(LAG, queue, cause, since, earliest)


def show(name: str, row: Any) -> None:
    lags = " ".join(f"{part} {row[part] or 0:>9,.1f} ms" for part in ("p50", "p99", "max"))
    print(f"{name:<34} {row['fires']:>8,} fires   {lags}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m bench.catch_up", description=__doc__.partition("\n")[0])
    parser.add_argument("--jobs", type=int, default=20_000, help="minute-jobs that were down")
    parser.add_argument("--hours", type=float, default=3.0, help="for how long")
    parser.add_argument("--live", type=int, default=200, help="jobs that fire every second meanwhile")
    options = parser.parse_args()
    uvloop.run(main(options.jobs, options.hours, options.live))
