"""(c) Herd: executions due at one instant, known ahead. How late do they start, and when are all of them
done?

    .venv/bin/python -m bench.herd [--sizes 1000 10000 50000 100000] [--runs 3] [--http]

No-ops: start lag by the database's record. An engine stamps 500 of a crowd at a time before it goes through
them one by one, which is right to a millisecond; when all of the crowd was done, as seen from outside, stands
beside it.

With `--http` the executions are calls into a fast sink, and the lag is that of their arrival there, each on
its own: the figure to put beside others that note a job's start in the job itself.
"""

import argparse
from collections.abc import Sequence
from contextlib import nullcontext

import msgspec
import uvloop

from bench.installation import Installation, installation
from bench.sink import arrivals, sink
from tocsin.clock import system_now
from tocsin.domain.instant import MILLISECOND, SECOND
from tocsin.domain.target import HttpTarget

ENGINES = 2
POINTS = 200


class Lag(msgspec.Struct, frozen=True):
    """Milliseconds from due to started."""

    first: float
    p50: float
    p99: float
    max: float


class Herd(msgspec.Struct, frozen=True):
    """What a herd came to: its lag, quantiles of it for a plot, milliseconds from the instant until all was
    done."""

    lag: Lag
    curve: list[float]
    done: float


async def herd(
    place: Installation, count: int, engines: int, *, ahead: float = 6.0, sink_port: int | None = None
) -> Herd:
    """All due at one instant `ahead` seconds after the last of them was created. Calls into a sink, if there
    is one."""
    await place.empty()
    target = HttpTarget(f"http://127.0.0.1:{sink_port}/hook/0") if sink_port else None
    await place.add_one_offs(count, system_now() + 3600 * SECOND, target)
    await place.settle_down()
    await place.start("engine", engines, allow_loopback="true")
    instant = system_now() + round(ahead * SECOND)
    await place.database.execute("UPDATE executions SET due_at = $1, run_at = $1", instant)
    await place.wait_until_done()
    done = (system_now() - instant) / MILLISECOND
    await place.stop()
    await place.expect_all_succeeded(count)
    if sink_port is None:
        return Herd(await lag_of_history(place), await curve_of_history(place), done)
    lags = [(arrival - instant) / MILLISECOND for arrival in await arrivals(sink_port)]
    assert len(lags) == count, f"{len(lags):,} calls arrived instead of {count:,}"
    return Herd(lag_of(lags), thinned(lags), done)


def lag_of(lags: Sequence[float]) -> Lag:
    """The usual percentiles, of the sorted lags themselves."""
    ordered = sorted(lags)
    middle, late = (ordered[min(len(ordered) - 1, int(part * len(ordered)))] for part in (0.5, 0.99))
    return Lag(ordered[0], middle, late, ordered[-1])


def thinned(values: Sequence[float], points: int = POINTS) -> list[float]:
    """Evenly spaced quantiles, the least and the most among them."""
    ordered = sorted(values)
    return [ordered[round(place * (len(ordered) - 1) / points)] for place in range(points + 1)]


async def lag_of_history(place: Installation, where: str = "true", *given: object) -> Lag:
    """Start lag of what is in history."""
    row = await place.database.one(
        f"""SELECT min(lag) AS first, percentile_cont(0.5) WITHIN GROUP (ORDER BY lag) AS p50,
                  percentile_cont(0.99) WITHIN GROUP (ORDER BY lag) AS p99, max(lag) AS max
           FROM (SELECT extract(epoch FROM started_at - due_at)::float8 * 1000 AS lag FROM history WHERE {where}) AS h""",
        *given,
    )
    return Lag(row["first"], row["p50"], row["p99"], row["max"])


async def curve_of_history(place: Installation) -> list[float]:
    """Evenly spaced quantiles of the start lags in history, for a plot."""
    row = await place.database.one(
        """SELECT percentile_cont(ARRAY(SELECT n / 200.0::float8 FROM generate_series(0, 200) AS n))
                      WITHIN GROUP (ORDER BY extract(epoch FROM started_at - due_at)::float8 * 1000) AS curve
           FROM history"""
    )
    return list(row["curve"])


async def main(sizes: list[int], runs: int, http: bool) -> None:
    async with installation() as place:
        with sink() if http else nullcontext() as port:
            for size in sizes:
                for _ in range(runs):
                    found = await herd(place, size, ENGINES, sink_port=port)
                    lag = found.lag
                    print(
                        f"{size:,} at one instant: {'arrival' if http else 'start'} lag first {lag.first:.2f} ms,"
                        f" p50 {lag.p50:,.1f} ms, p99 {lag.p99:,.1f} ms, max {lag.max:,.1f} ms,"
                        f" all done after {found.done:,.0f} ms",
                        flush=True,
                    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m bench.herd", description=__doc__.partition("\n")[0])
    parser.add_argument("--sizes", type=int, nargs="+", default=[1000, 10_000, 50_000, 100_000])
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--http", action="store_true", help="calls into a fast sink")
    options = parser.parse_args()
    uvloop.run(main(options.sizes, options.runs, options.http))
