"""(e) Growth: what a backlog of future jobs costs. The drain and the idle lag beside pending one-offs.

    .venv/bin/python -m bench.growth [--pending 0 1000000 10000000] [--runs 3]

Pending jobs are due evenly over a year that begins tomorrow, in the very lane that is drained. Each size has
an installation of its own, and all are measured in turns: between the minutes that it takes to make a
backlog, a shared machine's speed changes by more than the backlog costs. Memory is that of the engines after
the drain; bytes are those of the tables and indexes that hold pending jobs.
"""

import argparse
import statistics
from contextlib import AsyncExitStack

import msgspec
import uvloop

from bench.copies import Copies
from bench.drain import ENGINES, Drained, drained
from bench.herd import Lag
from bench.installation import Installation, installation
from bench.report import Spread
from bench.spread import spread
from tocsin.clock import system_now
from tocsin.domain.ids import new_job_id
from tocsin.domain.instant import DAY
from tocsin.domain.policy import Precision

SECONDS = 10
# In each run, back and forth: a drain lasts two seconds, in which a shared machine may be at its fastest or
# at its slowest.
DRAINS = 3


class Grown(msgspec.Struct, frozen=True):
    """What was measured beside a number of pending jobs."""

    pending: int
    drains: list[Drained]
    lags: list[Lag]
    bytes_each: float

    @property
    def engine_mb(self) -> float:
        return statistics.median(drained.memory_mb / ENGINES for drained in self.drains)


async def growth(sizes: list[int], count: int, instants: int, runs: int) -> list[Grown]:
    """All sizes, in turns."""
    async with AsyncExitStack() as stack:
        places = []
        for pending in sorted(sizes):
            place = await stack.enter_async_context(installation())
            await add_pending(place, pending)
            size = await _size(place)
            places.append((place, Grown(pending, [], [], size / pending if pending else 0.0)))
        for run in range(runs):
            for turn in range(run, run + DRAINS):
                for place, grown in places if turn % 2 else reversed(places):
                    grown.drains.append(await drained(place, count, ENGINES))
            for place, grown in places:
                found = await spread(place, instants, SECONDS, Precision.NORMAL)
                grown.lags.append(found.ours)
    return [grown for _, grown in places]


async def add_pending(place: Installation, count: int) -> None:
    """Make a backlog of `count` jobs."""
    await place.empty()
    if count:
        copies = await Copies.of_one(place)
        await copies.add(count - 1, system_now() + DAY, 365 * DAY // count)
        await place.settle_down()
        place.backlog_until = new_job_id(system_now())


async def _size(place: Installation) -> int:
    row = await place.database.one(
        "SELECT pg_total_relation_size('jobs') + pg_total_relation_size('executions') AS bytes"
    )
    return int(row["bytes"])


async def main(sizes: list[int], count: int, instants: int, runs: int) -> None:
    for grown in await growth(sizes, count, instants, runs):
        print(
            f"{grown.pending:>12,} pending: drain {Spread.of([drained.rate for drained in grown.drains])} per second,"
            f" start lag p50 {Spread.of([lag.p50 for lag in grown.lags])} ms,"
            f" p99 {Spread.of([lag.p99 for lag in grown.lags])} ms,"
            f" {grown.engine_mb:.0f} MB per engine, {grown.bytes_each:,.0f} bytes per pending job",
            flush=True,
        )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m bench.growth", description=__doc__.partition("\n")[0])
    parser.add_argument("--pending", type=int, nargs="+", default=[0, 1_000_000, 10_000_000])
    parser.add_argument("--count", type=int, default=100_000, help="executions to drain")
    parser.add_argument("--instants", type=int, default=200, help=f"executions spread over {SECONDS} s")
    parser.add_argument("--runs", type=int, default=3)
    options = parser.parse_args()
    uvloop.run(main(options.pending, options.count, options.instants, options.runs))
