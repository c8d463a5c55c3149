"""(m) Archive: how fast a day of history becomes files, beside `COPY` of the same rows in the same run; what
memory that takes; what a drain loses beside it; and how soon one archived execution is found.

    .venv/bin/python -m bench.archive [--rows 10000000] [--count 100000] [--looks 20] [--runs 3]

The rate is that of the archiver at work: in production it rests between pieces, four times as long as each
took while it is not behind. Each piece is made by processes of its own, whose memory is looked at four times
a second: flat is as much for the last pieces as for the first. The day is dropped then, and an API process is
asked for executions that are only in the files. In a drain the archiver works beside it as in production.
"""

import argparse
import asyncio
import contextlib
import json
import os
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import uvloop

from bench.create import KEY, free_port
from bench.drain import ENGINES
from bench.installation import Installation, installation
from bench.processes import children, resident_mb
from bench.report import Spread
from tocsin.archive.tables import HISTORY
from tocsin.archive.work import Place
from tocsin.clock import DatabaseClock, system_now
from tocsin.domain.ids import ExecutionKey, execution_text
from tocsin.domain.instant import DAY, Instant
from tocsin.failpoints import Failpoints
from tocsin.scheduler.archiver import Archiver
from tocsin.scheduler.leaser import Leases
from tocsin.store.archived_days import ArchivedDays
from tocsin.store.archives import ArchiveStore
from tocsin.store.history import HistoryStore
from tocsin.store.keys import KeyStore
from tocsin.telemetry import Telemetry

LOOK = 0.25  # seconds
JOINED = 5  # seconds; what engines do as they join the fleet is not measured
DAYS_AGO = 40
PER_STATEMENT = 100_000
_ENDED = """
INSERT INTO history (cell, job_id, fire_at, tenant_id, queue, priority, cause, state, due_at, run_at, started_at, finished_at,
                     attempt, outcome, node_id, claim_token)
SELECT 0, gen_random_uuid(), at, 1, 'default', 5, 'schedule', 'succeeded', at, at, at, at, 1, '{"verdict": "succeeded"}', 1, n
FROM (SELECT n, $1::timestamptz + n * interval '1 second' * (86399.0 / $3::integer) AS at
      FROM generate_series($2::integer, $2::integer + $4::integer - 1) AS n) AS made
"""


class Archived(msgspec.Struct, frozen=True):
    """Rows per second, MB of the processes in the first and in the last quarter, and milliseconds."""

    archived: float
    copied: float
    first_mb: float
    last_mb: float
    looks: list[float]


class Everything(Leases):
    """The archiver runs where shard 0 is leased: here."""

    def trusted(self) -> dict[int, int]:
        return {0: 1}


async def archive(place: Installation, rows: int, looks: int) -> Archived:
    """A day of `rows` rows: copied, archived, dropped, looked into."""
    await place.empty()
    day = await fill(place, rows)
    copied = await copy(place, day, rows)
    with tempfile.TemporaryDirectory(prefix="tocsin-bench-archive-") as folder:
        memory: list[float] = []
        watching = asyncio.create_task(watch(memory))
        began = time.perf_counter()
        done = await all_pieces(place, Path(folder))
        took = time.perf_counter() - began
        watching.cancel()
        assert done == rows, f"{done:,} of {rows:,} rows were archived"
        keys = await place.database.fetch(
            f"SELECT job_id, fire_at FROM history_{_named(day)} ORDER BY hashint8(claim_token) LIMIT $1",
            looks,
        )
        dropping = HistoryStore(place.database, ArchivedDays(place.database, Failpoints()))
        assert await dropping.drop_partitions(system_now(), 30) >= 1
        found = await look_up(place, folder, [ExecutionKey(row["job_id"], row["fire_at"]) for row in keys])
        await forget(place)
    quarter = max(1, len(memory) // 4)
    return Archived(rows / took, rows / copied, max(memory[:quarter]), max(memory[-quarter:]), found)


async def fill(place: Installation, rows: int) -> Instant:
    """An old day with `rows` executions that ended."""
    day = system_now() // DAY * DAY - DAYS_AGO * DAY
    await place.database.execute(
        "SELECT make_day('history', 'finished_at', ($1::timestamptz AT TIME ZONE 'UTC')::date)", day
    )
    for first in range(0, rows, PER_STATEMENT):
        await place.database.execute(_ENDED, day, first, rows, min(PER_STATEMENT, rows - first))
    await place.database.execute(f"VACUUM (ANALYZE) history_{_named(day)}")
    return day


async def copy(place: Installation, day: Instant, rows: int) -> float:
    """Seconds that PostgreSQL takes for the same rows, thrown away."""
    began = time.perf_counter()
    async with place.database.connection() as connection:
        told = await connection.copy_from_query(
            f"SELECT {HISTORY.selected} FROM history_{_named(day)} AS t", output=os.devnull, format="csv"
        )
    assert told == f"COPY {rows}", told
    return time.perf_counter() - began


async def all_pieces(place: Installation, folder: Path) -> int:
    """What the archiver does, without its rests."""
    clock = DatabaseClock()
    archiver = Archiver(
        ArchiveStore(place.database),
        Everything(clock, 10.0),
        clock,
        Telemetry(),
        Failpoints(),
        Place(str(folder)),
        place.url,
    )
    rows = 0
    while await left(place):
        rows += (await archiver.run_once(system_now())).done
    return rows


async def left(place: Installation) -> bool:
    """Whether the old day is not archived yet."""
    row = await place.database.one(
        "SELECT count(*) FILTER (WHERE state <> 'verified') AS open, count(*) FILTER (WHERE upto_at IS NULL) AS last"
        " FROM archives WHERE name = 'history' AND day < current_date - 10"
    )
    return bool(row["open"]) or not row["last"]


async def watch(memory: list[float]) -> None:
    """The memory of the archive's processes."""
    while True:
        pids = [pid for pid in children(os.getpid()) if pid in set(_of_the_archive())]
        with contextlib.suppress(OSError):
            memory.append(resident_mb(pids))
        await asyncio.sleep(LOOK)


def _of_the_archive() -> Iterator[int]:
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            line = (folder / "cmdline").read_bytes()
            if b"tocsin.store.exporting" in line or b"tocsin.archive.work" in line:
                yield int(folder.name)


async def look_up(place: Installation, folder: str, keys: list[ExecutionKey]) -> list[float]:
    """Milliseconds until the API has answered with an archived execution."""
    await KeyStore(place.database).put_bootstrap(KEY)
    port = free_port()
    await place.start("api", port=port, archive=folder)
    while not await asyncio.to_thread(_is_ready, port):
        await asyncio.sleep(0.05)
    found = []
    for key in keys:
        asked = urllib.request.Request(
            f"http://127.0.0.1:{port}/v1/executions/{execution_text(key)}",
            headers={"Authorization": f"Bearer {KEY}"},
        )
        began = time.perf_counter()
        answer = await asyncio.to_thread(_answer_to, asked)
        found.append((time.perf_counter() - began) * 1000)
        assert answer["archived"] is True
    await place.stop()
    return found


def _is_ready(port: int) -> bool:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/readyz") as answer:
            return bool(answer.status == 200)
    except OSError:
        return False


def _answer_to(asked: urllib.request.Request) -> Any:
    with urllib.request.urlopen(asked) as answer:
        return json.load(answer)


async def beside(place: Installation, count: int, rows: int) -> float:
    """Executions per second of a drain while an old day of `rows` rows is archived; with 0, of a drain
    alone."""
    await place.empty()
    await forget(place)
    if rows:
        await fill(place, rows)
    await place.pause_queue()
    await place.add_one_offs(count, system_now())
    await place.settle_down()
    with tempfile.TemporaryDirectory(prefix="tocsin-bench-archive-") as folder:
        await place.start("engine", ENGINES, archive=folder)
        while not await place.count("archives"):  # empty days have a part, too
            await asyncio.sleep(0.05)
        await asyncio.sleep(JOINED)
        await place.resume_queue()
        await place.wait_until_done()
        rate = await place.database.one(
            "SELECT count(*) / extract(epoch FROM max(finished_at) - min(started_at))::float8 AS rate FROM history"
            " WHERE finished_at > current_date - 10"
        )
        await place.stop()
    return float(rate["rate"])


async def forget(place: Installation) -> None:
    """As if nothing was ever archived."""
    await place.database.execute("TRUNCATE archives")


def _named(day: Instant) -> str:
    return time.strftime("%Y%m%d", time.gmtime(day // 1_000_000))


async def main(rows: int, count: int, looks: int, runs: int) -> None:
    alone: list[float] = []
    both: list[float] = []
    async with installation() as place:
        found = await archive(place, rows, looks)
        for run in range(runs):
            for old in (0, rows) if run % 2 else (rows, 0):
                (both if old else alone).append(await beside(place, count, old))
    print(f"archived {found.archived:,.0f} rows per second, beside COPY {found.copied:,.0f}")
    print(
        f"processes: up to {found.first_mb:,.0f} MB in the first quarter, {found.last_mb:,.0f} MB in the last"
    )
    print(f"one archived execution: {Spread.of(found.looks)} ms")
    print(f"drain alone {Spread.of(alone)} per second, beside archiving {Spread.of(both)}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m bench.archive", description=__doc__.partition("\n")[0])
    parser.add_argument("--rows", type=int, default=10_000_000, help="ended executions of the old day")
    parser.add_argument("--count", type=int, default=100_000, help="executions to drain beside it")
    parser.add_argument("--looks", type=int, default=20, help="archived executions that are asked for")
    parser.add_argument("--runs", type=int, default=3, help="drains with and without")
    options = parser.parse_args()
    uvloop.run(main(options.rows, options.count, options.looks, options.runs))
