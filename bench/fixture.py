"""(k) What users' own tests and scripts wait for: the fixture on virtual time, and `import tocsin`.

    .venv/bin/python -m bench.fixture [--runs 5]

Ninety days of an hourly job by the fixture `tocsin`, a test that does nothing, each without the start of
its PostgreSQL, and the import in a fresh process, beside one that imports nothing.
"""

import argparse
import asyncio
import os
import subprocess
import sys
import time
from collections.abc import Callable

from bench.installation import Installation, installation
from bench.report import Spread
from tocsin import App
from tocsin.testing.sandbox import Sandbox

DAYS = 90
NINETY_DAYS, NOTHING, IMPORT = f"{DAYS} days of an hourly job", "a test that does nothing", "`import tocsin`"
_MILLISECONDS = 1000
app = App("fixture")


@app.task
def tick() -> None:
    """What the job calls."""


def times(server_url: str, runs: int) -> dict[str, list[float]]:
    """Milliseconds of each, `runs` times."""
    sandbox = Sandbox.open(server_url)
    try:
        found = {
            NINETY_DAYS: [_hourly(sandbox) for _ in range(runs)],
            NOTHING: [_timed(sandbox.reset) for _ in range(runs)],
        }
    finally:
        sandbox.close()
    return found | {IMPORT: [_import("import tocsin") - _import("pass") for _ in range(runs)]}


def _hourly(sandbox: Sandbox) -> float:
    sandbox.reset()
    sandbox.serve(app)
    sandbox.client.jobs.create(schedule="0 * * * *", target={"kind": "task", "task": tick.name})
    began = time.perf_counter()
    ledger = sandbox.advance(f"{DAYS}d")
    took = (time.perf_counter() - began) * _MILLISECONDS
    assert len(ledger) == 24 * DAYS, f"{len(ledger):,} fires instead of {24 * DAYS:,}"
    return took


def _timed(work: Callable[[], object]) -> float:
    began = time.perf_counter()
    work()
    return (time.perf_counter() - began) * _MILLISECONDS


def _import(program: str) -> float:
    command = [sys.executable, "-c", program]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    return _timed(lambda: subprocess.run(command, check=True, env=environment))


async def fixture(place: Installation, runs: int) -> dict[str, list[float]]:
    """The same, on the PostgreSQL of an installation."""
    return await asyncio.to_thread(times, place.url, runs)


async def main(runs: int) -> None:
    async with installation() as place:
        for name, values in (await fixture(place, runs)).items():
            print(f"{name:<30} {Spread.of(values)} ms")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m bench.fixture", description=__doc__.partition("\n")[0])
    parser.add_argument("--runs", type=int, default=5)
    asyncio.run(main(parser.parse_args().runs))
