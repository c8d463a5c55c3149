"""The sections of a full run, as steps: each measures one thing, and says about how many seconds that takes.

Ours comes first in each section, together with the anchors that are ours (bare statements, the plain form of
the same); the peers follow at once, one step each (`bench.peer_steps`).
"""

import statistics
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import nullcontext
from typing import Any, NamedTuple

import msgspec

from bench import drain as drains
from bench.create import API_PROCESSES, IN_FLIGHT, create
from bench.failover import TTL, failover
from bench.fires import all_fires
from bench.growth import DRAINS, growth
from bench.held_vacuum import WINDOW, Sustained, side_by_side
from bench.herd import Herd, Lag, curve_of_history, herd
from bench.idle import SETTLE, Idle, idle
from bench.installation import Installation, installation
from bench.recurring import recurring
from bench.report import OURS, Measured
from bench.sink import sink
from bench.spread import SpreadLags, spread
from tocsin.domain.policy import Precision

ENGINES = drains.ENGINES
PER_SECOND = "per second"
SINGLY = "Jobs created one by one"
IN_BULK = "Jobs created in bulk"
DRAIN = "Due no-op executions run to the end, with history"
KINDS = "The same drain with policies"
LOGS = "The same drain with lines of attempts in the log"
LOGGED = {"no log": {}, "`off`": {"log_attempts": "off"}, "`all`": {"log_attempts": "all"}}
SPREAD = "Jobs at random instants"
HELD = "Executions drained while work is added"
IDLE = f"An API and {ENGINES} engines with nothing to do"
SHARDS = "The same by the number of shards"
FIRES = "Webhooks into a fast sink"
LATE = "Start lag after one of three engines is killed"


class Sizes(msgspec.Struct, frozen=True):
    """How much of everything. The defaults are those of a full run."""

    runs: int = 3
    singles: int = 20_000
    batch: int = 100_000
    drain: int = 100_000
    herds: tuple[int, ...] = (10_000, 50_000, 100_000)
    instants: int = 200
    spread_seconds: int = 10
    # A run is short and its p99 the second worst of 200: whether the machine stalls just then decides many a
    # run.
    spread_runs: int = 7
    pending: tuple[int, ...] = (0, 1_000_000, 10_000_000)
    recurring: tuple[tuple[int, int], ...] = ((5000, 3), (50_000, 3), (300_000, 10))
    held_warm_up: float = 2.0
    held_minutes: float = 5.0
    idle_seconds: float = 30.0  # as long as a round of autovacuum: as many of them before as meanwhile
    fires: int = 30_000
    failover_rate: int = 200
    tasks: int = 50_000
    task_herd: int = 10_000
    enqueued: int = 100_000
    committed: int = 200
    messages: int = 20_000
    archived: int = 10_000_000
    archived_beside: int = 1_000_000
    archive_looks: int = 20
    shards: tuple[int, ...] = (64, 256, 1024)


QUICK = Sizes(
    runs=1,
    singles=500,
    batch=2000,
    drain=2000,
    herds=(500, 1000),
    instants=10,
    spread_seconds=2,
    spread_runs=1,
    pending=(0, 20_000),
    recurring=((100, 1),),
    held_warm_up=1 / 6,
    held_minutes=1 / 3,
    idle_seconds=3.0,
    fires=1000,
    failover_rate=50,
    tasks=1000,
    task_herd=500,
    enqueued=1000,
    committed=16,
    messages=1000,
    archived=5000,
    archived_beside=5000,
    archive_looks=2,
    shards=(64,),
)


class Bench(NamedTuple):
    """Where a step measures, and how it says how far it is."""

    place: Installation
    sizes: Sizes
    tell: Callable[[str], None]


class Step(NamedTuple):
    """One part of a run. Steps of the same section and the same `what` are done one after the other."""

    section: str
    what: str
    name: str
    seconds: float
    measure: Callable[[Bench], Awaitable[list[Measured]]]


def our_steps(sizes: Sizes) -> Iterator[Step]:
    """What is measured of ours."""
    runs = sizes.runs
    yield Step("a", SINGLY, "create", 3 + runs * (8 + sizes.batch / 10_000 + sizes.singles / 2000), _create)
    yield Step("b", DRAIN, "drain", runs * (14 + sizes.drain / 10_000), _drain)
    yield Step("b", LOGS, "drain with a log", runs * len(LOGGED) * (14 + sizes.drain / 10_000), _drain_logged)
    yield Step(
        "b", KINDS, "drain with policies", runs * len(drains.KINDS) * (7 + sizes.drain / 12_000), _drain_kinds
    )
    for size in sizes.herds:
        seconds = runs * (12 + size / 5000)
        yield Step("c", herd_of(size), f"herd of {size:,} over HTTP", seconds, _herd(size, http=True))
        yield Step("c", herd_of(size), f"herd of {size:,}", seconds, _herd(size, http=False))
    for precision in Precision:
        seconds = sizes.spread_runs * (11 + sizes.spread_seconds)
        yield Step("d", SPREAD, f"spread, {precision}", seconds, _spread(precision))
    each = runs * (10 + sizes.spread_seconds + DRAINS * (6 + sizes.drain / 30_000))
    yield Step("e", "growth", "growth", sum(sizes.pending) / 50_000 + len(sizes.pending) * each, _growth)
    for jobs, minutes in sizes.recurring:
        yield Step(
            "f",
            every_minute(jobs),
            f"recurring, {jobs:,}",
            60 * minutes + 55 + jobs / 4000,
            _recurring(jobs, minutes),
        )
    yield Step(
        "g", HELD, "held vacuum", runs * (30 + 62 * (sizes.held_warm_up + sizes.held_minutes)), _held_vacuum
    )
    yield Step("h", IDLE, "idle", runs * (5 + SETTLE + 2 * sizes.idle_seconds), _idle)
    for shards in sizes.shards:
        seconds = runs * (15 + SETTLE + 2 * sizes.idle_seconds)
        yield Step("h", SHARDS, f"idle, {shards} shards", seconds, _idle_shards(shards))
    yield Step("i", FIRES, "fires", runs * (18 + sizes.fires / 4000), _fires)
    yield Step("j", LATE, "failover", runs * 40, _failover)


async def _create(bench: Bench) -> list[Measured]:
    sizes = bench.sizes
    rates = await create(bench.place, sizes.runs, sizes.batch, sizes.singles)
    command = f"python -m bench.create --runs {sizes.runs} --count {sizes.batch} --singles {sizes.singles}"
    ours = f"over HTTP, {API_PROCESSES} API processes"
    return [
        rate_row(
            "a", SINGLY, OURS, rates["single"], command, headline=True, note=f"{ours}, {IN_FLIGHT} in flight"
        ),
        rate_row("a", SINGLY, "one row per commit by SQL", rates["commit"], command, ours=False),
        rate_row(
            "a", IN_BULK, OURS, rates["batch"], command, headline=True, note=f"{ours}, {sizes.batch:,} jobs"
        ),
        rate_row("a", IN_BULK, "the same rows by `unnest`", rates["unnest"], command, ours=False),
    ]


async def _drain(bench: Bench) -> list[Measured]:
    count, runs = bench.sizes.drain, bench.sizes.runs
    ours, limit = [], []
    for _ in range(runs):
        ours.append(await drains.drain(bench.place, count, ENGINES))
        limit.append(await drains.limit(bench.place, count, ENGINES))
        bench.tell(f"{ours[-1]:,.0f} per second, bare statements {limit[-1]:,.0f}")
    command = f"python -m bench.drain --count {count} --runs {runs}"
    return [
        rate_row("b", DRAIN, OURS, ours, command, headline=True, note=f"{count:,} jobs, {ENGINES} engines"),
        rate_row("b", DRAIN, "the same statements, nothing between", limit, command, ours=False),
    ]


async def _drain_logged(bench: Bench) -> list[Measured]:
    """What the log costs where it says nothing of attempts, and where it has a line for each."""
    count, runs = bench.sizes.drain, bench.sizes.runs
    rates: dict[str, list[float]] = {name: [] for name in LOGGED}
    for _ in range(runs):
        for name, settings in LOGGED.items():
            logged = {"log_level": "info", "log_format": "json"} | settings if settings else {}
            rates[name].append((await drains.drained(bench.place, count, ENGINES, **logged)).rate)
    command = f"python -m bench.full --only b   # {count:,} jobs, {runs} runs"
    return [rate_row("b", LOGS, f"{OURS}, {name}", values, command) for name, values in rates.items()]


async def _drain_kinds(bench: Bench) -> list[Measured]:
    count, runs = bench.sizes.drain, bench.sizes.runs
    rates = await drains.kinds(bench.place, count, runs)
    command = f"python -m bench.drain --count {count} --runs {runs}"
    return [rate_row("b", KINDS, f"{OURS}, {name}", values, command) for name, values in rates.items()]


def _herd(size: int, *, http: bool) -> Callable[[Bench], Awaitable[list[Measured]]]:
    async def measure(bench: Bench) -> list[Measured]:
        found: list[Herd] = []
        with sink() if http else nullcontext() as port:
            for _ in range(bench.sizes.runs):
                found.append(await herd(bench.place, size, ENGINES, sink_port=port))
                bench.tell(shown(found[-1].lag))
        command = f"python -m bench.herd --sizes {size} --runs {bench.sizes.runs}{' --http' if http else ''}"
        who = f"{OURS}, HTTP calls" if http else f"{OURS}, no-ops"
        note = "arrival of each at the sink" if http else "the engines' timers, one stamp for each 500"
        runs = [(one.lag, one.curve) for one in found]
        row = lags("c", herd_of(size), who, runs, command, note, headline=not http)
        values = {**row.values, "all done, ms": [one.done for one in found]}
        return [msgspec.structs.replace(row, values=values)]

    return measure


def herd_of(size: int) -> str:
    return f"{size:,} jobs at one instant"


def _spread(precision: Precision) -> Callable[[Bench], Awaitable[list[Measured]]]:
    async def measure(bench: Bench) -> list[Measured]:
        sizes = bench.sizes
        found: list[tuple[SpreadLags, list[float]]] = []
        for run in range(sizes.spread_runs):
            one = await spread(bench.place, sizes.instants, sizes.spread_seconds, precision, seed=run)
            found.append((one, await curve_of_history(bench.place)))
            bench.tell(f"{shown(one.ours)}; a thread: {shown(one.woken)}; a commit: {shown(one.committed)}")
        command = (
            f"python -m bench.spread --count {sizes.instants} --seconds {sizes.spread_seconds}"
            f" --runs {sizes.spread_runs}"
        )
        normal = precision is Precision.NORMAL
        who = OURS if normal else f"{OURS}, precision `{precision}`"
        note = (
            f"{sizes.spread_runs} runs, {sizes.instants} in {sizes.spread_seconds} s, by the engine's clock"
        )
        ours = [(one.ours, curve) for one, curve in found]
        woken, committed = [one.woken for one, _ in found], [one.committed for one, _ in found]
        beside = f"at the same time as `{precision}`"
        return [
            lags("d", SPREAD, who, ours, command, note, headline=normal),
            Measured("d", SPREAD, f"a thread that wakes up, {beside}", lag_values(woken), command),
            Measured(
                "d", SPREAD, f"a thread that wakes up and commits, {beside}", lag_values(committed), command
            ),
        ]

    return measure


async def _growth(bench: Bench) -> list[Measured]:
    sizes = bench.sizes
    command = f"python -m bench.growth --pending {' '.join(map(str, sizes.pending))} --count {sizes.drain}"
    rows: list[Measured] = []
    for grown in await growth(list(sizes.pending), sizes.drain, sizes.instants, sizes.runs):
        who = f"{OURS}, {grown.pending:,} pending"
        rates = [drained.rate for drained in grown.drains]
        costs = {"MB per engine": [drained.memory_mb / ENGINES for drained in grown.drains]}
        if grown.pending:
            costs["bytes in the database per pending job"] = [grown.bytes_each]
        rows += [
            rate_row(
                "e",
                f"Drain of {sizes.drain:,} beside pending jobs",
                who,
                rates,
                command,
                size=grown.pending,
                note=f"{len(rates)} runs, in turns",
            ),
            Measured(
                "e",
                "Start lag beside pending jobs",
                who,
                lag_values(grown.lags),
                command,
                ours=True,
                size=grown.pending,
            ),
            Measured("e", "Memory and storage", who, costs, command, ours=True),
        ]
        bench.tell(f"{grown.pending:,} pending: {rates[-1]:,.0f} per second, {shown(grown.lags[-1])}")
    return rows


def _recurring(jobs: int, minutes: int) -> Callable[[Bench], Awaitable[list[Measured]]]:
    async def measure(bench: Bench) -> list[Measured]:
        found = await recurring(bench.place, jobs, minutes, bench.tell)
        values = lag_values([minute.lag for minute in found])
        values["fired per minute"] = [minute.fired for minute in found]
        kept = sum(minute.kept(jobs) for minute in found)
        return [
            Measured(
                "f",
                every_minute(jobs),
                OURS,
                values,
                f"python -m bench.recurring --jobs {jobs} --minutes {minutes}",
                ours=True,
                note=f"{kept} of {minutes} minutes kept; lag by the engines' timers",
                headline=True,
            )
        ]

    return measure


def every_minute(jobs: int) -> str:
    return f"{jobs:,} jobs at the boundary of every minute"


async def _held_vacuum(bench: Bench) -> list[Measured]:
    sizes = bench.sizes
    found = []
    for _ in range(sizes.runs):
        found.append(both := await side_by_side(bench.place, sizes.held_warm_up, sizes.held_minutes))
        bench.tell(f"{100 * both.held.slope:+.1f} % per minute, ratio {100 * both.slope:+.1f} % per minute")
    command = (
        f"python -m bench.held_vacuum --warm-up {sizes.held_warm_up:.2g} --minutes {sizes.held_minutes:.2g}"
        f" --runs {sizes.runs}"
    )
    note = (
        f"one engine, windows of {WINDOW} s over {sizes.held_minutes:.2g} minutes"
        f" after {sizes.held_warm_up:.2g} minutes of warming up"
    )

    def row(who: str, drained: Sequence[Sustained], **more: Sequence[float]) -> Measured:
        values: dict[str, Sequence[float]] = {
            PER_SECOND: [statistics.mean(drain.windows) for drain in drained],
            "slope, % per minute": [100 * drain.slope for drain in drained],
            **more,
            "dead rows left": [drain.dead_rows for drain in drained],
        }
        return Measured("g", HELD, who, values, command, ours=True, note=note, curve=drained[0].windows)

    beside = {"slope of the ratio, % per minute": [100 * both.slope for both in found]}
    return [
        row(f"{OURS}, no other transaction", [both.free for both in found]),
        row(
            f"{OURS} at the same time, a transaction open all along", [both.held for both in found], **beside
        ),
    ]


def _idle_shards(shards: int) -> Callable[[Bench], Awaitable[list[Measured]]]:
    async def measure(bench: Bench) -> list[Measured]:
        async with installation(shards=shards) as place:
            found = [await idle(place, ENGINES, bench.sizes.idle_seconds) for _ in range(bench.sizes.runs)]
        seconds = f"{bench.sizes.idle_seconds:g}"
        command = f"python -m bench.idle --engines {ENGINES} --seconds {seconds} --shards {shards}"
        return [Measured("h", SHARDS, f"{OURS}, {shards} shards", idle_values(found), command, ours=True)]

    return measure


async def _idle(bench: Bench) -> list[Measured]:
    found = [await idle(bench.place, ENGINES, bench.sizes.idle_seconds) for _ in range(bench.sizes.runs)]
    command = f"python -m bench.idle --engines {ENGINES} --seconds {bench.sizes.idle_seconds:g}"
    return [Measured("h", IDLE, OURS, idle_values(found), command, ours=True, headline=True)]


def idle_values(found: Sequence[Idle]) -> dict[str, Sequence[float]]:
    """The columns of idle cost."""
    return {
        "queries per second": [cost.queries for cost in found],
        "% of a core, with the database": [cost.cpu_percent for cost in found],
        "connections": [cost.connections for cost in found],
        "MB": [cost.memory_mb for cost in found],
    }


async def _fires(bench: Bench) -> list[Measured]:
    sizes = bench.sizes
    found = await all_fires(bench.place, sizes.fires, sizes.runs)
    command = f"python -m bench.fires --count {sizes.fires} --runs {sizes.runs}"
    return [
        Measured(
            "i",
            FIRES,
            f"{OURS}, {name}" if "engine" in name else name,
            {
                PER_SECOND: [one.per_second for one in rounds],
                "per second of processor time": [one.per_core for one in rounds],
            },
            command,
            ours="engine" in name,
            headline=name == f"{ENGINES} engines",
        )
        for name, rounds in found.items()
    ]


async def _failover(bench: Bench) -> list[Measured]:
    sizes = bench.sizes
    found = [await failover(bench.place, sizes.failover_rate) for _ in range(sizes.runs)]
    again = "Until all is well again"
    command = f"python -m bench.failover --rate {sizes.failover_rate} --runs {sizes.runs}"
    seconds = {
        "shards leased again, s": [one.leased_again for one in found],
        "everything on time again, s": [one.on_time_again for one in found],
    }
    had = ", ".join(f"{one.affected:,}" for one in found)
    ttl = "time to live of leases and claims"
    hit, others = [one.affected_lag for one in found], [one.others_lag for one in found]
    return [
        Measured("j", LATE, f"{OURS}, executions it had", lag_values(hit), command, ours=True, note=had),
        Measured("j", LATE, f"{OURS}, all others", lag_values(others), command, ours=True),
        Measured("j", LATE, ttl, {"p99, ms": [1000 * TTL]}, command),
        Measured("j", again, OURS, seconds, command, ours=True, headline=True),
        Measured("j", again, ttl, {part: [TTL] for part in seconds}, command),
    ]


def lags(
    section: str,
    what: str,
    who: str,
    found: Sequence[tuple[Lag, Sequence[float]]],
    command: str,
    note: str = "",
    *,
    ours: bool = True,
    headline: bool = False,
) -> Measured:
    """A row of lags. The curve is that of the run whose p99 lies in the middle."""
    middle = sorted(found, key=lambda one: one[0].p99)[len(found) // 2]
    values = lag_values([lag for lag, _ in found])
    return Measured(
        section, what, who, values, command, ours=ours, note=note, curve=middle[1], headline=headline
    )


def lag_values(found: Sequence[Lag]) -> dict[str, list[float]]:
    """The columns of a row of lags."""
    return {f"{part}, ms": [getattr(lag, part) for lag in found] for part in ("p50", "p99", "max")}


def shown(lag: Lag) -> str:
    return f"p50 {lag.p50:,.1f} ms, p99 {lag.p99:,.1f} ms, max {lag.max:,.1f} ms"


def rate_row(
    section: str, what: str, who: str, values: Sequence[float], command: str, **more: Any
) -> Measured:
    """A row of a rate; ours, if it does not say otherwise."""
    return Measured(section, what, who, {PER_SECOND: values}, command, **{"ours": True, **more})
