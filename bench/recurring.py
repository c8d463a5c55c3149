"""(f) Recurring: many jobs that fire every minute, all at its boundary. Is the minute kept, and how late are
they?

    .venv/bin/python -m bench.recurring [--jobs 5000] [--minutes 3]

A minute is kept if each job fired, and none of them after the next minute had begun.
"""

import argparse
import asyncio
from collections.abc import Callable

import msgspec
import uvloop

from bench.herd import Lag, lag_of_history
from bench.installation import Installation, installation
from tocsin.clock import system_now
from tocsin.domain.instant import MINUTE, SECOND, Instant
from tocsin.domain.schedule import Schedule

ENGINES = 2
# The first minute's plan must not be late: the engines need a moment, and more for more jobs.
SET_UP = 15 * SECOND
SET_UP_PER_JOB = SECOND // 5000


class Minute(msgspec.Struct, frozen=True):
    """How many of a minute's fire times ran, and how late they started."""

    fired: int
    lag: Lag

    def kept(self, jobs: int) -> bool:
        return self.fired == jobs and self.lag.max < 60_000


async def recurring(
    place: Installation, jobs: int, minutes: int, tell: Callable[[str], None] = print
) -> list[Minute]:
    """Let the jobs fire for some minutes. The first of them counts like any other."""
    await place.empty()
    await place.start("engine", ENGINES)
    far = system_now() + 60 * MINUTE  # until all are there
    await place.add_recurring(jobs, Schedule(cron="* * * * *"), far)
    await place.settle_down()
    first = -(-(system_now() + SET_UP + jobs * SET_UP_PER_JOB) // MINUTE) * MINUTE
    await place.database.execute("UPDATE jobs SET next_fire_at = $1", first)
    before = await place.finished()
    end = first + minutes * MINUTE
    for minute in range(first + MINUTE, end, MINUTE):
        await _until(minute - SECOND)
        tell(f"{(minute - first) // MINUTE} of {minutes} minutes, {await place.finished() - before:,} fired")
    await _until(end - SECOND)
    await place.stop_firing(end)
    await place.stop()
    return [await _minute(place, minute) for minute in range(first, end, MINUTE)]


async def _until(instant: Instant) -> None:
    await asyncio.sleep(max(0, instant - system_now()) / SECOND)


async def _minute(place: Installation, minute: Instant) -> Minute:
    ran = "state = 'succeeded' AND fire_at = $1"
    row = await place.database.one(f"SELECT count(*) AS fired FROM history WHERE {ran}", minute)
    return Minute(row["fired"], await lag_of_history(place, ran, minute))


async def main(jobs: int, minutes: int) -> None:
    async with installation() as place:
        for minute in await recurring(place, jobs, minutes):
            lag = minute.lag
            print(
                f"{minute.fired:,} of {jobs:,} fired, {'kept' if minute.kept(jobs) else 'NOT KEPT'}; start lag"
                f" p50 {lag.p50:,.0f} ms, p99 {lag.p99:,.0f} ms, max {lag.max:,.0f} ms, earliest {lag.first:.1f} ms"
            )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m bench.recurring", description=__doc__.partition("\n")[0])
    parser.add_argument("--jobs", type=int, default=5000)
    parser.add_argument("--minutes", type=int, default=3)
    options = parser.parse_args()
    uvloop.run(main(options.jobs, options.minutes))
