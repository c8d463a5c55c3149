"""``make bench``: the short table. Every figure stands beside its anchor from the same run."""

import argparse
import os
import platform
import statistics

import uvloop
from rich.console import Console
from rich.table import Table

from bench import tasks
from bench.drain import drain, limit
from bench.herd import herd, lag_of
from bench.idle import idle
from bench.installation import Installation, installation

ENGINES = 2


async def main(only: list[str], runs: int, count: int) -> None:
    console = Console(width=120)
    console.print(
        f"{platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}, {runs} runs each"
    )
    table = Table("what", "measured", "beside", "ratio", box=None, header_style="bold")
    async with installation() as place:
        version = await place.database.one("SHOW server_version")
        console.print(f"PostgreSQL {version[0]}, fsync and synchronous_commit on")
        for name in only:
            await MEASUREMENTS[name](place, table, runs, count)
            console.print(f"[dim]{name} done[/dim]")
    console.print(table)


async def _drain(place: Installation, table: Table, runs: int, count: int) -> None:
    ours = [await drain(place, count, ENGINES) for _ in range(runs)]
    anchor = [await limit(place, count, ENGINES) for _ in range(runs)]
    ratio = statistics.median(ours) / statistics.median(anchor)
    table.add_row(
        f"drain {count:,} due noop executions, {ENGINES} engines, per second",
        _spread(ours, ",.0f"),
        f"same statements, nothing between: {_spread(anchor, ',.0f')}",
        f"{ratio:.2f}",
    )


async def _herd(place: Installation, table: Table, runs: int, _count: int) -> None:
    for size in (10_000, 50_000, 100_000):
        lags = [(await herd(place, size, ENGINES)).lag for _ in range(runs)]
        table.add_row(
            f"herd of {size:,} known ahead: start lag p99, ms",
            _spread([lag.p99 for lag in lags], ".0f"),
            f"p50 {_spread([lag.p50 for lag in lags], '.0f')}, max {_spread([lag.max for lag in lags], '.0f')},"
            f" earliest {min(lag.first for lag in lags):.2f}",
            "",
        )


async def _idle(place: Installation, table: Table, _runs: int, _count: int) -> None:
    cost = await idle(place, ENGINES)
    table.add_row(
        f"idle api + {ENGINES} engines: queries per second",
        f"{cost.queries:.1f}",
        f"{cost.cpu_percent:.1f} % of a core, {cost.connections} connections, {cost.memory_mb:.0f} MB",
        "",
    )


async def _tasks(place: Installation, table: Table, runs: int, count: int) -> None:
    rates = await tasks.drains(place, count // 4, runs, print)
    engine = rates.pop(tasks.ENGINE)
    for name, values in rates.items():
        table.add_row(
            f"drain {count // 4:,} due tasks, {name}, per second",
            _spread(values, ",.0f"),
            f"{tasks.ENGINE}: {_spread(engine, ',.0f')}",
            f"{statistics.median(values) / statistics.median(engine):.2f}",
        )
    lags = [lag_of(await tasks.herd_lags(place, 10_000)) for _ in range(runs)]
    table.add_row(
        f"10,000 tasks at one instant, {tasks.WORKERS} remote workers: start lag p99, ms",
        _spread([lag.p99 for lag in lags], ".0f"),
        f"p50 {_spread([lag.p50 for lag in lags], '.0f')}, max {_spread([lag.max for lag in lags], '.0f')}",
        "",
    )


MEASUREMENTS = {"drain": _drain, "herd": _herd, "idle": _idle, "tasks": _tasks}


def _spread(values: list[float], form: str) -> str:
    low, middle, high = min(values), statistics.median(values), max(values)
    return f"{middle:{form}} ({low:{form}}–{high:{form}})"


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("only", nargs="*", choices=[*MEASUREMENTS, []], help="what to measure (default: all)")
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--count", type=int, default=100_000, help="executions to drain")
    options = parser.parse_args()
    uvloop.run(main(options.only or list(MEASUREMENTS), options.runs, options.count))
