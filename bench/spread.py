"""(d) Idle lag: executions at random instants, one at a time, on a fleet that has nothing else to do.

.venv/bin/python -m bench.spread [--count 400] [--seconds 20] [--runs 3]

Lateness on this machine is up to the machine first, whose cores and disk stop at times. So at the same time
as the run two other threads wait for as many instants of their own: one only wakes up, and one wakes up and
commits a mark, as any scheduler that writes down each start on its instant has to.
"""

import argparse
import asyncio
import random
import statistics
import time
from collections.abc import Sequence
from itertools import product
from typing import NamedTuple

import uvloop

from bench.herd import Lag, lag_of_history
from bench.installation import Installation, installation
from tocsin.clock import system_now
from tocsin.domain.instant import MILLISECOND, SECOND, Instant
from tocsin.domain.policy import Policies, Precision

ENGINES = 2
# A transaction that writes nothing but its own mark into the log, and waits for the disk like any other.
COMMIT = "SELECT pg_logical_emit_message(true, 'bench', '')"


class SpreadLags(NamedTuple):
    """Lag of executions, and of those that waited for instants beside them."""

    ours: Lag
    woken: Lag
    committed: Lag


async def spread(
    place: Installation, count: int, seconds: int, precision: Precision, seed: int = 1
) -> SpreadLags:
    """Lag of executions spread over some seconds."""
    rng = random.Random(seed)
    await place.empty()
    await place.start("engine", ENGINES)
    start = system_now() + 5 * SECOND
    instants, to_wake, to_commit = (
        sorted(start + rng.randrange(seconds * SECOND) for _ in range(count)) for _ in range(3)
    )
    for due_at in rng.sample(instants, count):
        await place.add_one_offs(1, due_at, policies=Policies(precision=precision))
    woken, committed = await asyncio.gather(
        asyncio.to_thread(_wake_at, to_wake), _commit_at(to_commit, place)
    )
    await place.wait_until_done()
    await place.stop()
    return SpreadLags(await lag_of_history(place), woken, committed)


def _wake_at(instants: Sequence[Instant]) -> Lag:
    """Lag of one that does nothing but note that it is there."""
    there_at = []
    for instant in instants:
        _sleep_until(instant)
        there_at.append(system_now())
    return _lag(instants, there_at)


async def _commit_at(instants: Sequence[Instant], place: Installation) -> Lag:
    """Lag of one that has the database note that it is there."""
    there_at = []
    for instant in instants:
        await asyncio.to_thread(_sleep_until, instant)
        await place.database.execute(COMMIT)
        there_at.append(system_now())
    return _lag(instants, there_at)


def _sleep_until(instant: Instant) -> None:
    time.sleep(max(0.0, (instant - system_now()) / SECOND))


def _lag(instants: Sequence[Instant], there_at: Sequence[Instant]) -> Lag:
    lags = [(there - instant) / MILLISECOND for instant, there in zip(instants, there_at, strict=True)]
    return Lag(min(lags), statistics.median(lags), statistics.quantiles(lags, n=100)[98], max(lags))


async def main(count: int, seconds: int, runs: int) -> None:
    async with installation() as place:
        for precision, run in product(Precision, range(runs)):
            found = await spread(place, count, seconds, precision, seed=run)
            for name, lag in zip((precision, "a thread", "a commit"), found, strict=True):
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
