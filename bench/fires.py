"""(i) HTTP fires: webhooks per second into a fast sink, in all and per core, beside what our client does
alone.

    .venv/bin/python -m bench.fires [--count 30000] [--runs 3]

An execution is claimed, started, called, settled and kept in history; the client alone only calls, with as
many requests under way as an engine has by default. Per core: calls per second of processor time of the
engines, or of the process of the client. Sink, database and callers share the machine.
"""

import argparse

import msgspec
import uvloop

from bench.drain import drained
from bench.http_client import BODY, round_of_ours
from bench.installation import Installation, installation
from bench.report import Spread
from bench.sink import sink
from tocsin.domain.target import HttpTarget

SECONDS = 3.0


class Fires(msgspec.Struct, frozen=True):
    """Calls per second, and per second of processor time."""

    per_second: float
    per_core: float


async def fires(place: Installation, port: int, count: int, engines: int) -> Fires:
    """Due executions as calls into the sink."""
    target = HttpTarget(f"http://127.0.0.1:{port}/hook/0", body=msgspec.json.decode(BODY))
    done = await drained(place, count, engines, target=target, allow_loopback="true")
    return Fires(done.rate, count / done.cpu_seconds)


async def client_alone(port: int, seconds: float = SECONDS) -> Fires:
    """The same requests from our client, without anything around it."""
    done = await round_of_ours(port, seconds)
    return Fires(done.per_second, 1e6 / done.cpu_microseconds)


async def all_fires(place: Installation, count: int, runs: int) -> dict[str, list[Fires]]:
    """One engine, two engines and the client alone, in turns."""
    found: dict[str, list[Fires]] = {"1 engine": [], "2 engines": [], "our client alone": []}
    with sink() as port:
        for _ in range(runs):
            found["1 engine"].append(await fires(place, port, count, 1))
            found["2 engines"].append(await fires(place, port, count, 2))
            found["our client alone"].append(await client_alone(port))
    return found


async def main(count: int, runs: int) -> None:
    async with installation() as place:
        for name, rounds in (await all_fires(place, count, runs)).items():
            print(
                f"{name:<17} {Spread.of([one.per_second for one in rounds])} per second,"
                f" {Spread.of([one.per_core for one in rounds])} per core"
            )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m bench.fires", description=__doc__.partition("\n")[0])
    parser.add_argument("--count", type=int, default=30_000, help="webhooks per run")
    parser.add_argument("--runs", type=int, default=3)
    options = parser.parse_args()
    uvloop.run(main(options.count, options.runs))
