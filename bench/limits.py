"""Limit keys: kept over a fleet whose nodes die, and what they cost.

    .venv/bin/python -m bench.limits [--executions 10000] [--seed 1] [--offers]

Kept: keys with 1 to 50 slots, executions as HTTP calls of 20 ms into a sink that counts who is inside at
once, three engines, one of which is killed with -9 twice on the way and started again. The sink may never see
more calls of a key at once than the key has slots; a call whose caller was killed is over for the sink when
the connection breaks.

Cost: a drain of no-op executions that all carry a limit with a free slot, beside the same drain without
limits. With `--offers` it is measured alone, and once more with engines whose claims are offered no idle
slots: what the offers of `queue/slots/slots.py` are worth.
"""

import argparse
import asyncio
import random
import statistics

import uvloop

from bench.drain import LIMIT_KEYS, drain, free_limit
from bench.installation import Installation, installation
from bench.report import Spread
from bench.sink import Seen, seen, sink
from tocsin.clock import system_now
from tocsin.domain.policy import Limit, Policies
from tocsin.domain.target import HttpTarget

SLOTS = (1, 2, 3, 5, 8, 13, 20, 30, 40, 50)
KEYS_PER_SIZE = 4
KEYS = {f"{slots}-slots-{n}": slots for slots in SLOTS for n in range(KEYS_PER_SIZE)}
CALL_MS = 20


_NO_OFFERS = """
from functools import partial
from tocsin.queue import queue
queue.Claiming = partial(queue.Claiming, offers=False)
from tocsin.command import main
main()
"""


async def main(executions: int, count: int, runs: int, seed: int) -> int:
    async with installation() as place:
        with sink() as port:
            found = await kept(place, port, executions, random.Random(seed))
        over = {key: most for key, most in found.most.items() if most > KEYS[key]}
        full = sum(found.most.get(key) == slots for key, slots in KEYS.items())
        print(
            f"{executions:,} executions under {len(KEYS)} keys of {SLOTS[0]} to {SLOTS[-1]} slots, 3 engines, 2 kills:"
            f" {found.requests:,} calls, {full} keys were full at some time, {len(over)} were ever over their limit"
        )
        for key, most in over.items():
            print(f"  {key}: {most} at once")
        await cost(place, count, runs)
    return 1 if over else 0


async def kept(place: Installation, port: int, executions: int, rng: random.Random) -> Seen:
    """Run the executions while an engine dies twice. Returns what the sink saw."""
    await place.empty()
    await place.pause_queue()
    names = list(KEYS)
    for key in names:
        target = HttpTarget(f"http://127.0.0.1:{port}/{key}/{CALL_MS}")
        policies = Policies(limit=Limit(key, max_parallel=KEYS[key]))
        await place.add_one_offs(executions // len(names), system_now(), target, policies)
    settings = {"allow_loopback": "true", "claim_ttl": 3, "host_concurrency": 1000}
    await place.start("engine", 3, **settings)
    await place.resume_queue()
    total = await place.count("executions")
    for share in (0.3, 0.6):
        while await place.count("history") < share * total:
            await asyncio.sleep(0.05)
        await place.kill(rng.randrange(3))
        await place.start("engine", 1, **settings)
    await place.wait_until_done()
    await place.stop()
    return await seen(port)


async def offers(count: int, runs: int) -> int:
    """Drains without limits, with limits, and with limits but no offers, in turns."""
    async with installation() as place:
        await cost(place, count, runs, ("-c", _NO_OFFERS))
    return 0


async def cost(place: Installation, count: int, runs: int, other: tuple[str, ...] | None = None) -> None:
    """Drains with and without limits, in turns; those with limits by an `other` program, too."""
    without, limited, by_other = [], [], []
    for _ in range(runs):
        without.append(await drain(place, count, 2))
        limited.append(await drain(place, count, 2, policies=free_limit))
        if other is not None:
            ours, place.program = place.program, other
            by_other.append(await drain(place, count, 2, policies=free_limit))
            place.program = ours
    ratio = statistics.median(limited) / statistics.median(without)
    print(f"drain of {count:,} without limits {Spread.of(without)} per second")
    print(f"  each under one of {LIMIT_KEYS:,} keys {Spread.of(limited)} per second, ratio {ratio:.2f}")
    if by_other:
        share = statistics.median(by_other) / statistics.median(limited)
        print(f"  the same without offers {Spread.of(by_other)} per second, {share:.2f} of that with offers")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m bench.limits", description=__doc__.partition("\n")[0])
    parser.add_argument("--executions", type=int, default=10_000, help="calls under limits")
    parser.add_argument("--count", type=int, default=50_000, help="executions to drain")
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--offers", action="store_true", help="only what offers of slots are worth")
    options = parser.parse_args()
    if options.offers:
        raise SystemExit(uvloop.run(offers(options.count, options.runs)))
    raise SystemExit(uvloop.run(main(options.executions, options.count, options.runs, options.seed)))
