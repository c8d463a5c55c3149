"""(d) Idle lag: executions at random instants, one at a time, on a fleet that has nothing else to do.

.venv/bin/python -m bench.spread [--count 400] [--seconds 20] [--runs 3]

How late a process wakes up is up to the machine first. So beside each run stands the least that anybody could do at the same
number of instants: a thread that sleeps until each of them.
"""

import argparse
import asyncio
import random
import statistics
import time
from itertools import product

import uvloop

from bench.herd import Lag, lag_of_history
from bench.installation import Installation, installation
from tocsin.clock import system_now
from tocsin.domain.instant import MILLISECOND, SECOND, Instant
from tocsin.domain.policy import Policies, Precision

ENGINES = 2


async def spread(place: Installation, count: int, seconds: int, precision: Precision, seed: int = 1) -> Lag:
    """Lag of executions spread over some seconds."""
    rng = random.Random(seed)
    await place.empty()
    await place.start("engine", ENGINES)
    start = system_now() + 5 * SECOND
    for _ in range(count):
        due_at = start + rng.randrange(seconds * SECOND)
        await place.add_one_offs(1, due_at, policies=Policies(precision=precision))
    await place.wait_until_done()
    await place.stop()
    return await lag_of_history(place)


async def least(count: int, seconds: int, seed: int = 1) -> Lag:
    """Lag of one that does nothing at such instants but note that it is there."""
    rng = random.Random(seed)
    start = system_now() + SECOND
    lags = []
    for due_at in sorted(start + rng.randrange(seconds * SECOND) for _ in range(count)):
        await asyncio.to_thread(_sleep_until, due_at)
        lags.append((system_now() - due_at) / MILLISECOND)
    return Lag(min(lags), statistics.median(lags), statistics.quantiles(lags, n=100)[98], max(lags))


def _sleep_until(instant: Instant) -> None:
    time.sleep(max(0.0, (instant - system_now()) / SECOND))


async def main(count: int, seconds: int, runs: int) -> None:
    async with installation() as place:
        for precision, run in product(Precision, range(runs)):
            lags = {
                str(precision): await spread(place, count, seconds, precision, seed=run),
                "the least": await least(count, seconds, seed=run),
            }
            for name, lag in lags.items():
                print(
                    f"{name:<9} {count} instants in {seconds} s: start lag p50 {lag.p50:.2f} ms, p99 {lag.p99:.2f} ms,"
                    f" max {lag.max:.2f} ms, earliest {lag.first:.3f} ms"
                )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m bench.spread", description=__doc__.partition("\n")[0])
    parser.add_argument("--count", type=int, default=400)
    parser.add_argument("--seconds", type=int, default=20)
    parser.add_argument("--runs", type=int, default=3)
    options = parser.parse_args()
    uvloop.run(main(options.count, options.seconds, options.runs))
