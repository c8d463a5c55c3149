"""(l) Messages, gRPC calls and scripts: executions per second, beside what our client does alone, and how
late a single one is answered.

    .venv/bin/python -m bench.messages [--kinds kafka,grpc] [--count 20000] [--runs 3]

An execution is claimed, started, sent, acknowledged, settled and kept in history; the client alone only
sends. Server, database and engines share the machine. A kind whose server is not installed is left out.
"""

import argparse
import asyncio
import random
import time
from collections.abc import Sequence
from typing import NamedTuple
from uuid import UUID

import uvloop

from bench.drain import ENGINES, drained
from bench.herd import Lag, lag_of
from bench.installation import Installation, installation
from bench.report import Spread
from bench.subjects import SUBJECTS, NotInstalled, Ready
from tocsin.clock import system_now
from tocsin.domain.instant import SECOND
from tocsin.domain.outcome import Outcome, Verdict
from tocsin.targets.assignment import Assignment

_TIMEOUT = 30.0


class Rates(NamedTuple):
    """Per second, and per second of the sender's processor time."""

    per_second: float
    per_core: float


async def by_engines(place: Installation, ready: Ready, count: int) -> Rates:
    """Due executions, all at once."""
    await ready.introduce(place)
    ready.empty()
    done = await drained(place, count, ENGINES, target=ready.target, allow_loopback="true", **ready.settings)
    return Rates(done.rate, count / done.cpu_seconds)


async def client_alone(ready: Ready, count: int) -> Rates:
    """As many by our client, without anything around it."""
    ready.empty()
    caller = ready.new_caller()
    first, now = random.getrandbits(100), system_now()
    numbers = iter(range(first, first + count))

    async def send() -> None:
        for number in numbers:
            assignment = Assignment(UUID(int=number), now, 1, 1, number, now, now, now)
            outcome = await caller.call(assignment, ready.target, _TIMEOUT)
            assert isinstance(outcome, Outcome), outcome
            assert outcome.verdict is Verdict.SUCCEEDED, outcome

    began, used = time.perf_counter(), time.process_time()
    await asyncio.gather(*(send() for _ in range(min(ready.at_once, count))))
    took, used = time.perf_counter() - began, time.process_time() - used
    await ready.close(caller)
    return Rates(count / took, count / used)


async def lags(
    place: Installation, ready: Ready, count: int, seconds: int, seed: int
) -> tuple[Lag, list[float]]:
    """From due to answered, at random instants with nothing else to do."""
    await ready.introduce(place)
    ready.empty()
    await place.empty()
    await place.start("engine", 1, allow_loopback="true", **ready.settings)
    rng = random.Random(seed)
    start = system_now() + 5 * SECOND
    for due_at in [start + rng.randrange(seconds * SECOND) for _ in range(count)]:
        await place.add_one_offs(1, due_at, ready.target)
    await place.wait_until_done()
    await place.stop()
    await place.expect_all_succeeded(count)
    rows = await place.database.fetch(
        "SELECT extract(epoch FROM finished_at - due_at)::float8 * 1000 AS lag FROM history ORDER BY 1"
    )
    found = [row["lag"] for row in rows]
    return lag_of(found), found


async def main(names: Sequence[str], count: int, runs: int) -> None:
    async with installation() as place:
        for subject in [subject for subject in SUBJECTS if subject.name in names]:
            ours, alone, lag = [], [], []
            try:
                async with subject.ready() as ready:
                    for run in range(runs):
                        ours.append(await by_engines(place, ready, count // subject.share))
                        alone.append(await client_alone(ready, count // subject.share))
                        lag.append((await lags(place, ready, 100, 5, run))[0])
            except NotInstalled as reason:
                print(f"{subject.name}: {reason}")
                continue
            for who, found in ((f"{ENGINES} engines", ours), ("our client alone", alone)):
                per_core = f", {Spread.of([one.per_core for one in found])} per core"
                print(
                    f"{subject.name:<9} {who:<17} {Spread.of([one.per_second for one in found])} per second"
                    f"{'' if subject.forks else per_core}"
                )
            p50, p99 = (Spread.of([getattr(one, part) for one in lag]) for part in ("p50", "p99"))
            print(f"{subject.name:<9} due to answered, ms: p50 {p50}, p99 {p99}", flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m bench.messages", description=__doc__.partition("\n")[0])
    known = ",".join(subject.name for subject in SUBJECTS)
    parser.add_argument("--kinds", default=known, help=f"which of {known}")
    parser.add_argument("--count", type=int, default=20_000, help="per run; of slower kinds a share of it")
    parser.add_argument("--runs", type=int, default=3)
    options = parser.parse_args()
    uvloop.run(main(options.kinds.split(","), options.count, options.runs))
