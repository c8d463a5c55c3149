"""What looking costs: drains with and without the tallies and an open tab of the dashboard, and tabs at rest
and at 1,000 executions a second.

    .venv/bin/python -m bench.watched [--count 200000] [--runs 3] [--seconds 30] [--only NAME]

- `tallies`, `tab`, `browser`: each pair is measured in turns over one installation, and the medians are
  compared; at least 0.98 is wanted. Beside the rate stands the processor time of the engines, which says the
  same on a busy machine as on a quiet one. `tab` does what the overview does, without drawing it: it holds
  the stream of events, and asks again for what the page shows whenever a pulse brings news, once a second at
  most. `browser` is a real Chromium, which takes its share of the same processors. The API process that
  answers them runs in all cases.
- `rest`: what one tab and eight cost while nothing happens, in queries and time of the API process; and how
  busy the page is.
- `speed`: how busy the page is while 1,000 executions end in each second.

What needs a browser is left out where there is none. Ends with status 1 if a figure is worse than wanted.
"""

import argparse
import asyncio
import contextlib
import os
import statistics
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final, NamedTuple

import uvloop
from tests.support.processes import free_port

from bench.drain import Drained, drained
from bench.idle import SETTLE, queries
from bench.installation import Installation, installation
from bench.processes import cpu_seconds
from bench.report import Spread
from bench.tabs import Tabs, browser, chromium
from tocsin.clock import system_now
from tocsin.domain.instant import HOUR, SECOND
from tocsin.domain.keys import hash_of, new_key
from tocsin.domain.schedule import Schedule

Pair = tuple[list[Drained], list[Drained]]
"""Drains without something and with it."""
ENGINES: Final = 2
WANTED: Final = 0.98
QUERIES: Final = 2.0
"""A second, more than without a tab, for any number of them."""
AT_REST, AT_SPEED, SPEED = 1.0, 10.0, 1_000
"""Percent of a core that a page may take; and how many executions end in a second."""
NUMBERS: Final = (0, 1, 8)
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
    """Drains that are not watched, and drains that a program watches."""
    found: Pair = ([], [])
    async with api(place) as door:
        for number in range(2 * runs):
            watched = (number + number // 2) % 2
            async with tab(door.port, door.key) if watched else contextlib.nullcontext():
                found[watched].append(await drained(place, count, ENGINES))
    return found


async def without_and_with_a_browser(place: Installation, count: int, runs: int) -> Pair:
    """Drains that are not watched, and drains that a browser watches."""
    found: Pair = ([], [])
    async with api(place) as door:
        for number in range(2 * runs):
            watched = (number + number // 2) % 2
            async with browser(door.url, door.key) if watched else contextlib.nullcontext() as tabs:
                if tabs is not None:
                    await tabs.have(1)
                found[watched].append(await drained(place, count, ENGINES))
    return found


class Door(NamedTuple):
    """An API process, and a key of an operator."""

    port: int
    key: str
    pid: int

    @property
    def url(self) -> str:
        """Where a browser finds it."""
        return f"http://127.0.0.1:{self.port}"


class Looked(NamedTuple):
    """What some tabs cost, in a second of each."""

    queries: float
    api_percent: float
    page_percent: float


@asynccontextmanager
async def api(place: Installation) -> AsyncIterator[Door]:
    """An API process with a key."""
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
        yield Door(port, text, process.pid)
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


async def cost(place: Installation, door: Door, tabs: Tabs, number: int, seconds: float) -> Looked:
    """What `number` tabs cost while nothing else changes."""
    await tabs.have(number)
    await asyncio.sleep(SETTLE)
    asked, used = await queries(place), cpu_seconds([door.pid])
    busy = await tabs.busy_seconds() if number else 0.0
    await asyncio.sleep(seconds)
    worked = await tabs.busy_seconds() - busy if number else 0.0
    asked, used = await queries(place) - asked, cpu_seconds([door.pid]) - used
    return Looked(asked / seconds, 100 * used / seconds, 100 * worked / seconds)


async def at_rest(place: Installation, seconds: float) -> bool:
    """No tab, one and eight, while nothing happens and the API process alone asks the database. Returns
    whether all is as wanted."""
    await place.empty()
    await place.database.execute("ALTER SYSTEM SET autovacuum = off")  # its looks count as queries
    await place.database.execute("SELECT pg_reload_conf()")
    fine = True
    await place.add_recurring(20, Schedule(every="1h"), system_now() + HOUR)
    async with api(place) as door, browser(door.url, door.key) as tabs:
        without, *others = [await cost(place, door, tabs, number, seconds) for number in NUMBERS]
    print(f"at rest, no tab: {without.queries:.1f} queries a second, API {without.api_percent:.2f} %")
    for number, one in zip(NUMBERS[1:], others, strict=True):
        more = one.queries - without.queries
        wanted = more <= QUERIES and one.api_percent < AT_REST and one.page_percent < AT_REST
        fine = fine and wanted
        print(
            f"at rest, {number} open: {more:.1f} queries a second more ({QUERIES:.0f}), API {one.api_percent:.2f} % of a"
            f" core ({AT_REST:.0f}), main thread of a tab {one.page_percent:.2f} % ({AT_REST:.0f})"
            + ("" if wanted else "  OVER"),
            flush=True,
        )
    await place.database.execute("ALTER SYSTEM RESET autovacuum")
    await place.database.execute("SELECT pg_reload_conf()")
    return fine


async def at_speed(place: Installation, seconds: float) -> bool:
    """One tab while 1,000 executions end in each second. Returns whether all is as wanted."""
    await place.empty()
    await place.start("engine", ENGINES)
    async with api(place) as door, browser(door.url, door.key) as tabs:
        await place.add_recurring(SPEED, Schedule(every="1s"), system_now() + 5 * SECOND)
        one = await cost(place, door, tabs, 1, seconds)
        row = await place.database.one(
            "SELECT count(*) / $1::float8 AS rate FROM history WHERE finished_at >= tocsin_now() - $1::float8 * interval '1 s'",
            seconds,
        )
    await place.stop_firing(system_now())
    await place.stop()
    fine = one.page_percent < AT_SPEED
    print(
        f"at {row['rate']:.0f} executions a second: main thread of a tab {one.page_percent:.2f} % ({AT_SPEED:.0f}),"
        f" API {one.api_percent:.2f} %" + ("" if fine else "  OVER"),
        flush=True,
    )
    return fine


PAIRS: Final = {
    "tallies": without_and_with_tallies,
    "tab": without_and_with_a_tab,
    "browser": without_and_with_a_browser,
}
TABS: Final = {"rest": at_rest, "speed": at_speed}


async def main(count: int, runs: int, seconds: float, only: str | None) -> bool:
    """Measure, compare. Returns whether all is as wanted."""
    fine = True
    async with installation() as place:
        for name in (*PAIRS, *TABS) if only is None else (only,):
            if name in ("browser", *TABS) and chromium() is None:
                print(f"{name}: no Chromium; install one, or name it with TOCSIN_CHROMIUM")
            elif name in PAIRS:
                fine = report(name, *await PAIRS[name](place, count, runs)) and fine
            else:
                fine = await TABS[name](place, seconds) and fine
    return fine


def report(name: str, without: list[Drained], having: list[Drained]) -> bool:
    """Both, and their ratios: more is better of either. Returns whether the ratio is as wanted."""
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
    return ratio >= WANTED


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m bench.watched", description=__doc__.partition("\n")[0])
    parser.add_argument("--count", type=int, default=200_000, help="executions to drain")
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=30.0, help="how long tabs are looked at")
    parser.add_argument("--only", choices=sorted({*PAIRS, *TABS}))
    options = parser.parse_args()
    sys.exit(0 if uvloop.run(main(options.count, options.runs, options.seconds, options.only)) else 1)
