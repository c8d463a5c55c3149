"""The steps of section (k): what tasks cost, beside the peers whose workers run functions, too."""

from collections.abc import Awaitable, Callable, Iterator, Sequence
from functools import partial

from bench import committed, enqueue, fixture, tasks
from bench.herd import Lag, lag_of, thinned
from bench.report import OURS, Measured
from bench.sections import Bench, Sizes, Step, lag_values, lags, rate_row, shown
from bench.spread import spread
from bench.task_workers import CONCURRENCY
from tocsin.domain.policy import Precision

SECTION = "k"
DRAIN = "Tasks that are due run to the end"
LAG = "Tasks at random instants"
ENQUEUE = "Calls enqueued"
TRANSACTIONS = f"Transactions of an application, {enqueue.WRITERS} writers"
COMMITTED = "From the commit of a transaction to the start of its task"
FIXTURE = "What tests and scripts of users wait for"
IDLE = f"{tasks.IDLE_WORKERS} idle remote workers, beside an idle API"


def herd_of(size: int) -> str:
    return f"{size:,} tasks at one instant"


def task_steps(sizes: Sizes) -> Iterator[Step]:
    """What is measured of ours."""
    each, runs = 12 + sizes.tasks / 5000, sizes.runs
    yield Step(SECTION, DRAIN, "tasks", runs * each * (len(tasks.KINDS) + 2), _drain)
    herd_seconds = runs * (25 + sizes.task_herd / 1000)
    yield Step(SECTION, herd_of(sizes.task_herd), "tasks at one instant", herd_seconds, _herd)
    lag_seconds = sizes.spread_runs * 2 * (12 + sizes.spread_seconds)
    yield Step(SECTION, LAG, "tasks at random instants", lag_seconds, _lag)
    yield Step(SECTION, ENQUEUE, "tasks enqueued", runs * (15 + sizes.enqueued / 8000), _enqueue)
    yield Step(
        SECTION, TRANSACTIONS, "tasks in transactions", runs * (5 + sizes.singles / 1500), _transactions
    )
    committed_seconds = runs * sum(
        25 + seconds * sizes.committed / committed.WRITERS for seconds in committed.OPEN_FOR
    )
    yield Step(SECTION, COMMITTED, "tasks from commit to start", committed_seconds, _committed)
    yield Step(SECTION, FIXTURE, "the fixture and the import", 10 + runs * 45, _fixture)
    yield Step(SECTION, IDLE, "idle remote workers", runs * (45 + 2 * sizes.idle_seconds), _idle)


async def _drain(bench: Bench) -> list[Measured]:
    count, runs = bench.sizes.tasks, bench.sizes.runs
    command = f"python -m bench.tasks --only drain --count {count} --runs {runs}"
    rates = await tasks.drains(bench.place, count, runs, bench.tell)
    note = f"{count:,} tasks, {CONCURRENCY} at once"
    rows = []
    for kind in tasks.KINDS:
        first = kind is tasks.KINDS[0]
        rows.append(_row(DRAIN, f"{OURS}, {kind.name}", rates[kind.name], command, note, headline=first))
    rows += [
        _row(DRAIN, f"{OURS}, {name}", rates[name], command) for name in (tasks.ONE_AT_A_TIME, tasks.ENGINE)
    ]
    return rows


async def _herd(bench: Bench) -> list[Measured]:
    size = bench.sizes.task_herd
    command = f"python -m bench.tasks --only herd --count {size} --runs {bench.sizes.runs}"
    found = await _runs(bench, bench.sizes.runs, lambda _: tasks.herd_lags(bench.place, size))
    note = f"{tasks.WORKERS} remote workers, the functions' own notes"
    return [lags(SECTION, herd_of(size), OURS, found, command, note, headline=True)]


async def _lag(bench: Bench) -> list[Measured]:
    """In turns with what the engine needs for an instant without any function."""
    sizes = bench.sizes
    command = f"python -m bench.tasks --only lag --runs {sizes.spread_runs}"
    engine: list[Lag] = []

    async def both(run: int) -> list[float]:
        ours = await spread(bench.place, sizes.instants, sizes.spread_seconds, Precision.NORMAL, seed=run)
        engine.append(ours.ours)
        return await tasks.lags(bench.place, sizes.instants, sizes.spread_seconds, run)

    found = await _runs(bench, sizes.spread_runs, both)
    note = f"{sizes.instants} in {sizes.spread_seconds} s, one remote worker, the functions' own notes"
    engines = f"{OURS}, no-ops of the engines, by their timers"
    return [
        lags(SECTION, LAG, OURS, found, command, note, headline=True),
        Measured(SECTION, LAG, engines, lag_values(engine), "python -m bench.spread", ours=True),
    ]


async def _enqueue(bench: Bench) -> list[Measured]:
    count = bench.sizes.enqueued
    rates = await _in_turns(bench, partial(enqueue.by_sdk, bench.place, count))
    command = f"python -m bench.enqueue --count {count} --runs {bench.sizes.runs}"
    names = (enqueue.BULK, enqueue.MANY, enqueue.ONE)
    return [_row(ENQUEUE, f"{OURS}, {name}", rates[name], command) for name in names]


async def _transactions(bench: Bench) -> list[Measured]:
    count = bench.sizes.singles
    rates = await _in_turns(bench, partial(enqueue.in_transactions, bench.place, count))
    command = f"python -m bench.enqueue --count {count * enqueue.SINGLES} --runs {bench.sizes.runs}"
    return [_row(TRANSACTIONS, name, values, command) for name, values in rates.items()]


async def _committed(bench: Bench) -> list[Measured]:
    """However long the transaction was open."""
    count = bench.sizes.committed
    command = f"python -m bench.committed --count {count} --runs {bench.sizes.runs}"
    rows = []
    for seconds in committed.OPEN_FOR:
        found = await _runs(
            bench, bench.sizes.runs, lambda _, held=seconds: committed.lags(bench.place, count, held)
        )
        who = f"{OURS}, open for {seconds:g} s"
        note = f"{committed.WRITERS} writers, one remote worker, the functions' own notes"
        rows.append(lags(SECTION, COMMITTED, who, found, command, note))
    return rows


async def _fixture(bench: Bench) -> list[Measured]:
    runs = bench.sizes.runs
    found = await fixture.fixture(bench.place, runs)
    command = f"python -m bench.fixture --runs {runs}"
    return [
        Measured(SECTION, FIXTURE, f"{OURS}, {name}", {"ms": values}, command, ours=True)
        for name, values in found.items()
    ]


async def _idle(bench: Bench) -> list[Measured]:
    seconds, runs = bench.sizes.idle_seconds, bench.sizes.runs
    found = [await tasks.idle_workers(bench.place, seconds) for _ in range(runs)]
    values = {
        "more queries per second": [one.queries for one in found],
        "more % of a core, gateway and database": [one.cpu_percent for one in found],
    }
    return [Measured(SECTION, IDLE, OURS, values, "python -m bench.tasks --only idle", ours=True)]


async def _in_turns(
    bench: Bench, measure: Callable[[], Awaitable[dict[str, float]]]
) -> dict[str, list[float]]:
    found: dict[str, list[float]] = {}
    for _ in range(bench.sizes.runs):
        for name, rate in (await measure()).items():
            found.setdefault(name, []).append(rate)
    return found


async def _runs(
    bench: Bench, runs: int, measure: Callable[[int], Awaitable[list[float]]]
) -> list[tuple[Lag, Sequence[float]]]:
    found: list[tuple[Lag, Sequence[float]]] = []
    for run in range(runs):
        noted = await measure(run)
        found.append((lag_of(noted), thinned(noted)))
        bench.tell(shown(found[-1][0]))
    return found


def _row(
    what: str, who: str, rates: Sequence[float], command: str, note: str = "", *, headline: bool = False
) -> Measured:
    return rate_row(SECTION, what, who, rates, command, note=note, headline=headline)
