"""(d) Idle lag: executions at random instants, one at a time, on a fleet that has nothing else to do.

.venv/bin/python -m bench.spread [--count 400] [--seconds 20] [--runs 3]

How late a process wakes up is up to the machine first, and that changes from second to second. So each run waits for a quiet
moment, two seconds in which a thread that sleeps wakes up in time, but not for longer than half a minute. And at the same time
as the run a thread sleeps until as many instants of its own, which is the least that anybody could do.
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
PATIENCE = 30 * SECOND


async def spread(
    place: Installation, count: int, seconds: int, precision: Precision, seed: int = 1
) -> tuple[Lag, Lag]:
    """Lag of executions spread over some seconds, and of a thread that wakes up beside them."""
    rng = random.Random(seed)
    await place.empty()
    await place.start("engine", ENGINES)
    await asyncio.to_thread(_wait_for_quiet)
    start = system_now() + 5 * SECOND
    instants, others = ([start + rng.randrange(seconds * SECOND) for _ in range(count)] for _ in range(2))
    for due_at in instants:
        await place.add_one_offs(1, due_at, policies=Policies(precision=precision))
    least = await asyncio.to_thread(_wake_at, sorted(others))
    await place.wait_until_done()
    await place.stop()
    return await lag_of_history(place), least


def _wait_for_quiet() -> None:
    give_up_at = system_now() + PATIENCE
    while system_now() < give_up_at:
        now = system_now()
        if _wake_at([now + n * 10 * MILLISECOND for n in range(1, 201)]).p99 < 1.0:
            return


def _wake_at(instants: list[Instant]) -> Lag:
    """Lag of one that does nothing but note that it is there."""
    lags = []
    for instant in instants:
        time.sleep(max(0.0, (instant - system_now()) / SECOND))
        lags.append((system_now() - instant) / MILLISECOND)
    return Lag(min(lags), statistics.median(lags), statistics.quantiles(lags, n=100)[98], max(lags))


async def main(count: int, seconds: int, runs: int) -> None:
    async with installation() as place:
        for precision, run in product(Precision, range(runs)):
            ours, least = await spread(place, count, seconds, precision, seed=run)
            for name, lag in ((str(precision), ours), ("a thread", least)):
                print(
                    f"{name:<8} {count} instants in {seconds} s: lag p50 {lag.p50:.2f} ms, p99 {lag.p99:.2f} ms,"
                    f" max {lag.max:.2f} ms, earliest {lag.first:.3f} ms"
                )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m bench.spread", description=__doc__.partition("\n")[0])
    parser.add_argument("--count", type=int, default=400)
    parser.add_argument("--seconds", type=int, default=20)
    parser.add_argument("--runs", type=int, default=3)
    options = parser.parse_args()
    uvloop.run(main(options.count, options.seconds, options.runs))
