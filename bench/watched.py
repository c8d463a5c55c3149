"""What looking costs: a drain with and without the tallies, and with and without an open tab of the
dashboard.

    .venv/bin/python -m bench.watched [--count 200000] [--runs 3] [--only tallies|tab]

Each pair is measured in turns over one installation, and the medians are compared; at least 0.98 is wanted of
both. Beside the rate stands the processor time of the engines, which says the same on a busy machine as on a
quiet one. The tab does what the overview does: it holds the stream of events, and asks again for what the
page shows whenever a pulse brings news, once a second at most. The API process that answers it runs in both
cases.
"""

import argparse
import asyncio
import contextlib
import os
import statistics
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

import uvloop
from tests.support.processes import free_port

from bench.drain import Drained, drained
from bench.installation import Installation, installation
from bench.report import Spread
from tocsin.domain.keys import hash_of, new_key

Pair = tuple[list[Drained], list[Drained]]
"""Drains without something and with it."""
ENGINES: Final = 2
WANTED: Final = 0.98
_UNCOUNTED: Final = """
from tocsin.worker.tallies import Tallies
Tallies.succeeded = lambda *_: None
from tocsin.cli.main import main
main()
"""
ASKED: Final = ("/v1/stats/summary", "/v1/stats/series?group=state", "/v1/upcoming?limit=200")


async def without_and_with_tallies(place: Installation, count: int, runs: int) -> Pair:
    """Drains in which nothing is counted, and those in which it is."""
    found: Pair = ([], [])
    programs = (("-c", _UNCOUNTED), place.program)
    for number in range(2 * runs):
        counted = (number + number // 2) % 2  # each comes first as often as second
        place.program = programs[counted]
        found[counted].append(await drained(place, count, ENGINES))
    return found


async def without_and_with_a_tab(place: Installation, count: int, runs: int) -> Pair:
    """Drains that nobody watches, and those that somebody does."""
    found: Pair = ([], [])
    async with api(place) as (port, key):
        for number in range(2 * runs):
            watched = (number + number // 2) % 2
            async with tab(port, key) if watched else contextlib.nullcontext():
                found[watched].append(await drained(place, count, ENGINES))
    return found


@asynccontextmanager
async def api(place: Installation) -> AsyncIterator[tuple[int, str]]:
    """An API process and a key of an operator."""
    key_id, text = new_key()
    await place.database.execute(
        "INSERT INTO api_keys (id, tenant_id, name, secret_hash, scopes) VALUES ($1, 1, 'bench', $2, '{read,admin}')",
        key_id,
        hash_of(text),
    )
    port, environment = (
        free_port(),
        os.environ | {"TOCSIN_DATABASE_URL": place.url, "TOCSIN_LOG_LEVEL": "error"},
    )
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "tocsin", "api", "--port", str(port), env=environment
    )
    try:
        while not await ready(port, text):
            await asyncio.sleep(0.1)
        yield port, text
    finally:
        process.terminate()
        await process.wait()


async def ready(port: int, key: str) -> bool:
    """Whether it answers."""
    with contextlib.suppress(OSError):
        return (await get(port, key, "/readyz")).startswith(b"HTTP/1.1 200")
    return False


@asynccontextmanager
async def tab(port: int, key: str) -> AsyncIterator[None]:
    """An open tab, from before to after."""
    looking = asyncio.create_task(look(port, key))
    try:
        yield
    finally:
        looking.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await looking


async def look(port: int, key: str) -> None:
    """Hold the stream; with each pulse that has news, ask for what the page shows."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=1 << 20)
    try:
        writer.write(_request(key, "/v1/events"))
        async for line in reader:
            if line.startswith(b"data: ") and b'"ended":[{' in line:
                for path in ASKED:
                    answer = await get(port, key, path)
                    assert answer.startswith(b"HTTP/1.1 200"), answer[:200]
    finally:
        writer.close()


async def get(port: int, key: str, path: str) -> bytes:
    """A whole answer, on a connection of its own."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        writer.write(_request(key, path))
        return await reader.read()
    finally:
        writer.close()


def _request(key: str, path: str) -> bytes:
    return (
        f"GET {path} HTTP/1.1\r\nhost: 127.0.0.1\r\nauthorization: Bearer {key}\r\nconnection: close\r\n\r\n"
    ).encode()


PAIRS: Final = {"tallies": without_and_with_tallies, "tab": without_and_with_a_tab}


async def main(count: int, runs: int, only: str | None) -> None:
    """Measure, compare."""
    async with installation() as place:
        for name, pair in PAIRS.items():
            if only in (None, name):
                report(name, *await pair(place, count, runs))


def report(name: str, without: list[Drained], having: list[Drained]) -> None:
    """Both, and their ratios: more is better of either."""
    for word, of in (("without", without), ("with", having)):
        used = Spread.of([one.cpu_seconds for one in of])
        print(
            f"drain {word} {name:<12} {Spread.of([one.rate for one in of])} per second, engines used {used} s"
        )
    rates, used_by = (
        [statistics.median(getattr(one, what) for one in of) for of in (without, having)]
        for what in ("rate", "cpu_seconds")
    )
    ratio = rates[1] / rates[0]
    verdict = "" if ratio >= WANTED else f"  BELOW {WANTED}"
    print(
        f"ratio of rates {ratio:.3f}{verdict}, of work per processor second {used_by[0] / used_by[1]:.3f}",
        flush=True,
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m bench.watched", description=__doc__.partition("\n")[0])
    parser.add_argument("--count", type=int, default=200_000, help="executions to drain")
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--only", choices=sorted(PAIRS))
    options = parser.parse_args()
    uvloop.run(main(options.count, options.runs, options.only))
