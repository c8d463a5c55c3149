"""Measure peers: a table with the median and the spread of some runs each.

.venv/bin/python -m bench.peers [peer …] --measure single,bulk,drain,herd,spread,recurring --runs 3 --count
10000
"""

import argparse
import asyncio
import signal
import statistics
import time
from collections.abc import Awaitable, Callable
from typing import Any

import uvloop
from rich.console import Console
from rich.table import Table

from bench.installation import installation
from bench.peers import PEERS, Dishonest, Lag, NotInstalled, Peer, Recurring, peer_named

MEASURES = ("single", "bulk", "drain", "herd", "spread", "recurring")
SINGLES = 3000


async def main(options: argparse.Namespace) -> None:
    running = asyncio.current_task()
    assert running
    asyncio.get_running_loop().add_signal_handler(
        signal.SIGTERM, running.cancel
    )  # so that no worker is left behind
    console = Console(width=150)
    table = Table("peer", "measure", "median (min–max)", box=None, header_style="bold")
    async with installation() as place:
        for name in options.peers:
            peer = peer_named(name, place.url)
            try:
                await peer.install()
            except NotInstalled as error:
                console.print(f"{name} could not be installed: {error}", markup=False)
                continue
            for measure in options.measure:
                table.add_row(name, _title(measure, options), await _runs(console, peer, measure, options))
    console.print(table)
    for name in options.peers:
        peer_class = PEERS[name]
        console.print(f"\n[bold]{name} {peer_class.version}[/bold]: {peer_class.settings}")
        if peer_class.unfair:
            console.print(f"  may be unfair: {peer_class.unfair}")


async def _runs(console: Console, peer: Peer, measure: str, options: argparse.Namespace) -> str:
    if measure not in peer.measures:
        return "–"
    results: list[Any] = []
    for _ in range(options.runs):
        began = time.monotonic()
        try:
            results.append(await _measurement(peer, measure, options)())
        except (Dishonest, NotInstalled) as error:
            console.print(f"{peer.name} {measure}: {error}", markup=False)
            continue
        took = time.monotonic() - began
        console.print(f"[dim]{peer.name} {measure}: {_shown([results[-1]])} ({took:.0f} s in all)[/dim]")
    return _shown(results)


def _measurement(peer: Peer, measure: str, options: argparse.Namespace) -> Callable[[], Awaitable[Any]]:
    count = options.count
    return {
        "single": lambda: peer.create_single(min(count, SINGLES)),
        "bulk": lambda: peer.create_bulk(count),
        "drain": lambda: peer.drain(count),
        "herd": lambda: peer.herd(count),
        "spread": lambda: peer.spread(options.spread_count, options.seconds),
        "recurring": lambda: peer.recurring(options.schedules, options.minutes),
    }[measure]


def _title(measure: str, options: argparse.Namespace) -> str:
    return {
        "single": f"create {min(options.count, SINGLES):,} singly, per second",
        "bulk": f"create {options.count:,} in bulk, per second",
        "drain": f"drain {options.count:,} due, per second",
        "herd": f"herd of {options.count:,}, start lag in ms",
        "spread": f"{options.spread_count:,} over {options.seconds:.0f} s, start lag in ms",
        "recurring": f"{options.schedules:,} every minute, start lag in ms",
    }[measure]


def _shown(results: list[Any]) -> str:
    match results:
        case []:
            return "failed"
        case [float(), *_]:
            return _spread(results, ",.0f")
        case [Lag(), *_]:
            return _lags(results)
        case [Recurring(), *_]:
            fired = "; ".join(", ".join(f"{number:,}" for number in result.fired) for result in results)
            return f"{_lags([result.lag for result in results])}; fired per minute: {fired}"
    raise TypeError(f"what is {results[0]!r}?")


def _lags(lags: list[Lag]) -> str:
    shown = (
        f"{field} {_spread([getattr(lag, field) for lag in lags], ',.1f')}" for field in Lag.__struct_fields__
    )
    return ", ".join(shown)


def _spread(values: list[float], form: str) -> str:
    low, middle, high = min(values), statistics.median(values), max(values)
    return f"{middle:{form}}" if len(values) == 1 else f"{middle:{form}} ({low:{form}}–{high:{form}})"


def _measures(text: str) -> list[str]:
    chosen = text.split(",")
    if unknown := set(chosen) - set(MEASURES):
        raise argparse.ArgumentTypeError(f"no such measure: {', '.join(sorted(unknown))}")
    return chosen


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m bench.peers", description=__doc__.partition("\n")[0])
    parser.add_argument("peers", nargs="*", help=f"which of {', '.join(PEERS)} (default: all)")
    parser.add_argument(
        "--measure", type=_measures, default=list(MEASURES[:-1]), help=f"of {','.join(MEASURES)}"
    )
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument(
        "--count", type=int, default=10_000, help="jobs to create, drain, or start at one instant"
    )
    parser.add_argument("--spread-count", type=int, default=200, help="jobs at random instants")
    parser.add_argument("--seconds", type=float, default=20.0, help="over how many seconds they are spread")
    parser.add_argument("--schedules", type=int, default=5000, help="schedules of every minute")
    parser.add_argument("--minutes", type=int, default=2, help="how many minutes these are watched")
    parsed = parser.parse_args()
    if strangers := set(parsed.peers) - set(PEERS):
        parser.error(f"no such peer: {', '.join(sorted(strangers))}; there are {', '.join(PEERS)}")
    parsed.peers = parsed.peers or list(PEERS)
    uvloop.run(main(parsed))
