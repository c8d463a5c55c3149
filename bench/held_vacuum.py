"""(g) Held vacuum: a drain that goes on for minutes while an open transaction keeps the database from
cleaning up.

    .venv/bin/python -m bench.held_vacuum [--warm-up 2] [--minutes 5] [--runs 3]

A forgotten transaction holds a snapshot, so that no row version that died since can be removed. Work is added
while it is drained, so that the queue never empties. Throughput is counted in windows of ten seconds by what
history says.

A machine whose speed changes by the minute has slopes of its own. So two installations drain at the same
time, each with a database and an engine of its own, and only one has the open transaction: the slope of their
ratio is what the transaction does. A slope is that of the straight line that fits the windows best, in
percent of their mean per minute.

Both have drained for a while before the first window, with the transaction open already. In the first two
minutes the one without it becomes faster, when vacuum has given it pages to use again, and the other cannot:
that is a difference of level, and shows in the ratio, but as part of the windows it would look like a slope.
"""

import argparse
import asyncio
import statistics
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

import msgspec
import uvloop

from bench.copies import Copies
from bench.installation import Installation, installation
from bench.report import Spread
from tocsin.clock import system_now
from tocsin.db.pool import open_connection
from tocsin.domain.instant import SECOND

WINDOW = 10  # seconds
AHEAD = 200_000  # executions in the queue: some seconds' worth, for the counts may be a second old
STEP = 5000
FEEDERS = 2  # as many as it takes to be as fast as the engine on the same cores


class Sustained(msgspec.Struct, frozen=True):
    """Executions per second in each window, and what died and could not be removed."""

    windows: list[float]
    dead_rows: int

    @property
    def slope(self) -> float:
        return slope_per_minute(self.windows, WINDOW)


class SideBySide(msgspec.Struct, frozen=True):
    """Two drains at the same time."""

    held: Sustained
    free: Sustained

    @property
    def ratios(self) -> list[float]:
        """What the one with the open transaction did, as a part of what the other did meanwhile."""
        return [ours / theirs for ours, theirs in zip(self.held.windows, self.free.windows, strict=True)]

    @property
    def slope(self) -> float:
        return slope_per_minute(self.ratios, WINDOW)


async def side_by_side(place: Installation, warm_up: float, minutes: float) -> SideBySide:
    """Drain for `minutes` here with an open transaction, and in another installation without one."""
    async with installation() as other:
        ready = asyncio.Barrier(2)
        held, free = await asyncio.gather(
            sustained(place, warm_up, minutes, ready, held=True),
            sustained(other, warm_up, minutes, ready, held=False),
        )
    return SideBySide(held, free)


async def sustained(
    place: Installation, warm_up: float, minutes: float, ready: asyncio.Barrier, *, held: bool
) -> Sustained:
    """Drain for so long, with or without the open transaction, from the moment at which the other has begun
    too."""
    await place.empty()
    copies = await Copies.of_one(place)
    await copies.add(AHEAD, system_now())
    await place.settle_down()
    async with _open_transaction(place.url, held):
        before = await place.finished()
        await place.start("engine")
        await ready.wait()
        began = (system_now() // SECOND + round(warm_up * 60)) * SECOND
        end = began + round(minutes * 60 / WINDOW) * WINDOW * SECOND
        fed = Counter({0: AHEAD})

        async def feed() -> None:
            while system_now() < end:
                if fed.total() - (await place.finished() - before) < AHEAD:
                    await copies.add(STEP, system_now())
                    fed[system_now() // SECOND] += STEP
                else:
                    await asyncio.sleep(0.05)

        await asyncio.gather(*(feed() for _ in range(FEEDERS)))
        dead = await place.database.one(
            "SELECT n_dead_tup AS n FROM pg_stat_user_tables WHERE relname = 'executions'"
        )
        await place.stop()
    rows = await place.database.fetch(
        "SELECT floor(extract(epoch FROM finished_at))::bigint AS second, count(*) AS n FROM history GROUP BY second"
    )
    done = Counter({row["second"]: row["n"] for row in rows})
    seconds = range(began // SECOND, end // SECOND)
    _expect_never_empty(fed, done, seconds)
    windows = [sum(done[second + n] for n in range(WINDOW)) / WINDOW for second in seconds[::WINDOW]]
    return Sustained(windows, dead["n"])


def _expect_never_empty(fed: Counter[int], done: Counter[int], seconds: range) -> None:
    """A drain that has nothing to do is none."""
    for second in seconds:
        added = sum(number for when, number in fed.items() if when <= second)
        finished = sum(number for when, number in done.items() if when <= second)
        assert finished < added, f"the queue was empty after {second - seconds[0]} s"


def slope_per_minute(rates: Sequence[float], window: float) -> float:
    """Change per minute of the line that fits best, as a part of the mean."""
    if len(rates) < 2:
        return 0.0
    minutes = [place * window / 60 for place in range(len(rates))]
    return statistics.linear_regression(minutes, rates).slope / statistics.mean(rates)


@asynccontextmanager
async def _open_transaction(url: str, held: bool) -> AsyncIterator[None]:
    """A transaction that has seen something, and goes on seeing it."""
    if not held:
        yield
        return
    connection = await open_connection(url, name="bench held", timeout=60)
    await connection.execute("BEGIN ISOLATION LEVEL REPEATABLE READ")
    await connection.execute("SELECT count(*) FROM installation")
    yield
    await connection.execute("ROLLBACK")
    await connection.close()


async def main(warm_up: float, minutes: float, runs: int) -> None:
    async with installation() as place:
        for run in range(1, runs + 1):
            both = await side_by_side(place, warm_up, minutes)
            for name, found in (("open transaction", both.held), ("without it", both.free)):
                print(
                    f"{name:<17} {Spread.of(found.windows)} per second, {100 * found.slope:+.1f} % per minute,"
                    f" {found.dead_rows:,} dead rows left\n  by window: {', '.join(f'{rate:,.0f}' for rate in found.windows)}"
                )
            print(
                f"run {run} of {runs}: ratio {Spread.of(both.ratios)}, {100 * both.slope:+.1f} % per minute",
                flush=True,
            )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        prog="python -m bench.held_vacuum", description=__doc__.partition("\n")[0]
    )
    parser.add_argument("--warm-up", type=float, default=2.0, help="minutes before the first window")
    parser.add_argument("--minutes", type=float, default=5.0, help="of all windows of a run")
    parser.add_argument("--runs", type=int, default=3)
    options = parser.parse_args()
    uvloop.run(main(options.warm_up, options.minutes, options.runs))
