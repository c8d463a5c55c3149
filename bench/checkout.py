"""One checkout's part in `bench.before_after`: a database of its own, and measures on request.

The process runs in the folder of the checkout and has its `src` first in the path, so `bench` and `tocsin`
are the checkout's own, here and in the engines that it starts. This file alone is the newer checkout's. It
uses what checkouts have had since 3c2dd1d.

A line of standard input is `[measure, scale]`, and the answer is a line of standard output: what was measured
and its value. Everything else that is written goes to standard error.
"""

import asyncio
import os
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path

import msgspec
import uvloop

import tocsin
from bench.drain import drain, free_limit, one_at_a_time
from bench.fires import fires
from bench.herd import herd
from bench.installation import Installation, installation
from bench.sink import sink
from bench.spread import spread
from tocsin.domain.policy import Policies, Precision

ENGINES = 2
Figures = dict[str, float]


async def _plain(place: Installation, scale: float) -> Figures:
    return await _drain(place, scale, None)


async def _limited(place: Installation, scale: float) -> Figures:
    return await _drain(place, scale, free_limit)


async def _non_overlapping(place: Installation, scale: float) -> Figures:
    return await _drain(place, scale, one_at_a_time)


async def _drain(place: Installation, scale: float, policies: Callable[[int], Policies] | None) -> Figures:
    return {"per second": await drain(place, round(100_000 * scale), ENGINES, policies)}


async def _herd(place: Installation, scale: float) -> Figures:
    found = await herd(place, round(50_000 * scale), ENGINES)
    return {"p50, ms": found.lag.p50, "p99, ms": found.lag.p99, "all done, ms": found.done}


async def _idle_lag(place: Installation, scale: float) -> Figures:
    figures = {}
    for precision in Precision:
        lag = (await spread(place, round(400 * scale), max(1, round(20 * scale)), precision)).ours
        figures |= {f"{precision}, p50, ms": lag.p50, f"{precision}, p99, ms": lag.p99}
    return figures


async def _webhooks(place: Installation, scale: float) -> Figures:
    with sink() as port:
        found = await fires(place, port, round(30_000 * scale), ENGINES)
    return {"per second": found.per_second, "per second of processor time": found.per_core}


MEASURES: dict[str, Callable[[Installation, float], Awaitable[Figures]]] = {
    "drain": _plain,
    "limited-drain": _limited,
    "non-overlapping-drain": _non_overlapping,
    "herd": _herd,
    "idle-lag": _idle_lag,
    "webhooks": _webhooks,
}


async def main(answers: int) -> None:
    code = Path(tocsin.__file__)
    assert code.is_relative_to(Path.cwd()), f"{code} is not in {Path.cwd()}"
    async with installation() as place:
        while line := await asyncio.to_thread(sys.stdin.readline):
            name, scale = msgspec.json.decode(line, type=tuple[str, float])
            figures = await MEASURES[name](place, scale)
            await (
                place.empty()
            )  # what was measured is no work for the server while the other checkout's turn is
            os.write(answers, msgspec.json.encode(figures) + b"\n")


if __name__ == "__main__":
    answers = os.dup(sys.stdout.fileno())
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    uvloop.run(main(answers))
