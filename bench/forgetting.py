"""Forgetting: what the drain loses while a day of ended one-offs is forgotten beside it, and how fast that
goes.

    .venv/bin/python -m bench.forgetting [--count 200000] [--ended 1000000] [--days 1] [--runs 3]

The same drain without and with days of history that retention no longer keeps, in turns; each pair gives a
ratio, and the exit status says whether their median is at least 0.9. With two days and more the forgetter is
behind and rests less. The rate at which jobs are forgotten is measured after the drain, on the idle engines:
100 million a day are 1,157 a second.
"""

import argparse
import asyncio
import statistics
import time

import msgspec
import uvloop

from bench.drain import ENGINES
from bench.installation import Installation, installation
from bench.report import Spread
from tocsin.clock import system_now
from tocsin.settings import Settings

SECONDS = 5
LEAST = 0.9
"""Of what the drain does alone."""
_ENDED = """
WITH ended AS (
    INSERT INTO jobs (cell, id, tenant_id, shard, kind, queue, priority, schedule, target, policies, created_at, updated_at)
    SELECT 0, gen_random_uuid(), 1, 0, 'once', 'default', 5, '{"at": "2020-01-01T00:00:00Z"}', '{"kind": "noop"}', '{}', at, at
    FROM generate_series(1, $1::integer), (SELECT $2::date::timestamp AT TIME ZONE 'UTC' AS at) AS day
    RETURNING id, created_at
)
INSERT INTO history (cell, job_id, fire_at, tenant_id, queue, priority, cause, state, due_at, run_at, started_at, finished_at,
                     attempt)
SELECT 0, id, created_at, 1, 'default', 5, 'schedule', 'succeeded', created_at, created_at, created_at, created_at, 1 FROM ended
"""
_RATE = """
SELECT count(*) / extract(epoch FROM max(finished_at) - min(started_at))::float8 AS rate
FROM history WHERE finished_at > clock_timestamp() - interval '2 days'
"""


class Beside(msgspec.Struct, frozen=True):
    """Executions per second, and jobs that were forgotten per second on engines that were idle then."""

    drained: float
    forgotten: float


async def beside(place: Installation, count: int, ended: int, days: int) -> Beside:
    """One drain beside `ended` ended jobs on each of `days` days."""
    await place.empty()
    await place.database.execute("DELETE FROM day_walks")
    for number in range(days):
        await _add_ended(place, ended, Settings().history_days + 2 + number)
    await place.pause_queue()
    await place.add_one_offs(count, system_now())
    await place.settle_down()
    await place.start("engine", ENGINES)
    while days and await _walked(place) == 0:
        await asyncio.sleep(0.05)
    await place.resume_queue()
    await place.wait_until_done()
    rate = (await place.database.one(_RATE))["rate"]
    before, began = await _walked(place), time.perf_counter()
    await asyncio.sleep(SECONDS if days else 0)
    blocks = (await _walked(place) - before) / (time.perf_counter() - began)
    forgotten = blocks * ended * days / max(1, await _blocks(place))
    await place.stop()
    return Beside(float(rate), forgotten)


async def _add_ended(place: Installation, ended: int, days_ago: int) -> None:
    day = (await place.database.one("SELECT current_date - $1::integer AS day", days_ago))["day"]
    await place.database.fetchrow("SELECT make_day('history', 'finished_at', $1)", day)
    await place.database.execute(_ENDED, ended, day)


async def _walked(place: Installation) -> int:
    row = await place.database.one("SELECT coalesce(sum(block), 0)::bigint AS blocks FROM day_walks")
    return int(row["blocks"])


async def _blocks(place: Installation) -> int:
    row = await place.database.one(
        "SELECT coalesce(sum(pg_relation_size(relname::regclass)) / 8192, 0)::bigint AS blocks FROM pg_class"
        " WHERE relname ~ '^history_\\d{8}$' AND to_date(right(relname, 8), 'YYYYMMDD') < current_date - 20"
    )
    return int(row["blocks"])


async def main(count: int, ended: int, days: int, runs: int) -> int:
    alone: list[float] = []
    both: list[Beside] = []
    async with installation() as place:
        for run in range(runs):
            for old in (0, days) if run % 2 else (days, 0):
                found = await beside(place, count, ended, old)
                if old:
                    both.append(found)
                else:
                    alone.append(found.drained)
    with_it = [found.drained for found in both]
    ratios = [one / other for one, other in zip(with_it, alone, strict=True)]
    print(f"drain alone {Spread.of(alone)} per second, beside forgetting {Spread.of(with_it)}")
    print(f"ratio, run by run: {Spread.of(ratios)}")
    print(f"forgotten on idle engines: {Spread.of([found.forgotten for found in both])} jobs per second")
    return 0 if statistics.median(ratios) >= LEAST else 1


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        prog="python -m bench.forgetting", description=__doc__.partition("\n")[0]
    )
    parser.add_argument("--count", type=int, default=200_000, help="executions to drain")
    parser.add_argument("--ended", type=int, default=1_000_000, help="ended one-offs of a day")
    parser.add_argument("--days", type=int, default=1, help="days that retention no longer keeps")
    parser.add_argument("--runs", type=int, default=3)
    options = parser.parse_args()
    raise SystemExit(uvloop.run(main(options.count, options.ended, options.days, options.runs)))
