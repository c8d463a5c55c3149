"""The peers' steps of a full run: what stands beside ours, in the same sections.

A peer that is slow is measured with fewer jobs, or not at all where that would take many minutes; its row
says how many there were. A measurement that failed is a row that says why.
"""

from collections.abc import Awaitable, Callable, Iterator, Sequence
from typing import Any, NamedTuple

from bench.herd import lag_of, thinned
from bench.peers import Dishonest, NotInstalled, Peer, Recurring, peer_named
from bench.report import Measured
from bench.sections import (
    DRAIN,
    IN_BULK,
    PER_SECOND,
    SINGLY,
    SPREAD,
    Bench,
    Sizes,
    Step,
    every_minute,
    herd_of,
    lag_values,
    lags,
)
from bench.task_steps import DRAIN as TASKS
from bench.task_steps import LAG, SECTION
from bench.task_steps import herd_of as herd_of_tasks


class Able(NamedTuple):
    """The most jobs that a peer is measured with."""

    singles: int = 3000
    drain: int = 100_000
    herd: int = 50_000
    recurring: bool = False
    tasks: bool = False
    """Whether it is measured beside tasks, too: its workers run functions of Python."""


ABLE = {
    "graphile-worker": Able(recurring=True),
    "pg-boss": Able(),
    "PgQueuer": Able(recurring=True, tasks=True),
    "BullMQ": Able(recurring=True),
    "River": Able(),
    "db-scheduler": Able(drain=30_000, herd=10_000),
    "Procrastinate": Able(drain=5000, herd=2000, tasks=True),
    "APScheduler": Able(singles=1500, drain=3000, herd=2000),
    "Celery": Able(singles=1500, drain=10_000, herd=5000, tasks=True),
}
HERD_FOR_ALL = 10_000  # larger ones are for those who can


class Asked(NamedTuple):
    """One question to one peer, and the command that asks it alone."""

    section: str
    measure: str
    what: str
    options: str
    note: str
    seconds: float
    ask: Callable[[Peer], Awaitable[Any]]
    runs: int


def peer_steps(sizes: Sizes, names: Sequence[str], can: Callable[[str], frozenset[str]]) -> Iterator[Step]:
    """For each peer whatever it can do."""
    for name in names:
        for asked in _questions(sizes, ABLE[name]):
            if asked.measure in can(name):
                label = f"{asked.what}, {name}"
                yield Step(asked.section, asked.what, label, asked.runs * asked.seconds, _step(name, asked))


def _questions(sizes: Sizes, able: Able) -> Iterator[Asked]:
    singles, batch = min(able.singles, sizes.singles), sizes.batch
    runs, due = sizes.runs, min(able.drain, sizes.drain)
    yield Asked(
        "a",
        "single",
        SINGLY,
        f"--count {singles}",
        f"{singles:,} jobs",
        4,
        lambda peer: peer.create_single(singles),
        runs,
    )
    yield Asked(
        "a",
        "bulk",
        IN_BULK,
        f"--count {batch}",
        f"{batch:,} jobs",
        6,
        lambda peer: peer.create_bulk(batch),
        runs,
    )
    yield Asked(
        "b", "drain", DRAIN, f"--count {due}", f"{due:,} jobs", 14, lambda peer: peer.drain(due), runs
    )
    for size in sizes.herds:
        count = min(able.herd, size)
        if count == size or size == HERD_FOR_ALL:
            yield _herd("c", herd_of(size), count, runs)
    yield _spread("d", SPREAD, sizes)
    if able.tasks:
        yield from _beside_tasks(sizes, able)
    jobs, minutes = sizes.recurring[0]
    if able.recurring:
        options = f"--schedules {jobs} --minutes {minutes}"
        yield Asked(
            "f",
            "recurring",
            every_minute(jobs),
            options,
            "",
            45 + 60 * minutes,
            lambda peer: peer.recurring(jobs, minutes),
            1,
        )


def _beside_tasks(sizes: Sizes, able: Able) -> Iterator[Asked]:
    due = min(able.drain, sizes.tasks)
    yield Asked(
        SECTION,
        "drain",
        TASKS,
        f"--count {due}",
        f"{due:,} jobs",
        14,
        lambda peer: peer.drain(due),
        sizes.runs,
    )
    yield _herd(SECTION, herd_of_tasks(sizes.task_herd), min(able.herd, sizes.task_herd), sizes.runs)
    yield _spread(SECTION, LAG, sizes)


def _spread(section: str, what: str, sizes: Sizes) -> Asked:
    count, seconds = sizes.instants, sizes.spread_seconds
    return Asked(
        section,
        "spread",
        what,
        f"--spread-count {count} --seconds {seconds}",
        f"{count} in {seconds} s",
        9 + seconds,
        lambda peer: peer.spread_lags(count, seconds),
        sizes.runs,
    )


def _herd(section: str, what: str, count: int, runs: int) -> Asked:
    return Asked(
        section,
        "herd",
        what,
        f"--count {count}",
        f"{count:,} jobs",
        10 + count / 4000,
        lambda peer: peer.herd_lags(count),
        runs,
    )


def _step(name: str, asked: Asked) -> Callable[[Bench], Awaitable[list[Measured]]]:
    command = f"python -m bench.peers {name} --measure {asked.measure} {asked.options} --runs {asked.runs}"

    async def measure(bench: Bench) -> list[Measured]:
        peer = peer_named(name, bench.place.url)
        who = f"{peer.name} {peer.version}"
        try:
            await peer.install()
            found = [await asked.ask(peer) for _ in range(asked.runs)]
        except (Dishonest, NotInstalled) as error:
            reason = str(error).partition("\n")[0]
            bench.tell(str(error))
            return [Measured(asked.section, asked.what, who, {}, command, note=f"failed: {reason}")]
        return [_row(asked, who, found, command)]

    return measure


def _row(asked: Asked, who: str, found: list[Any], command: str) -> Measured:
    match found[0]:
        case float():
            return Measured(asked.section, asked.what, who, {PER_SECOND: found}, command, note=asked.note)
        case Recurring(fired=fired, lags=by_minute):
            values: dict[str, Sequence[float]] = {**lag_values(by_minute), "fired per minute": fired}
            return Measured(asked.section, asked.what, who, values, command)
        case list():
            runs = [(lag_of(run), thinned(run)) for run in found]
            return lags(asked.section, asked.what, who, runs, command, asked.note, ours=False)
    raise TypeError(f"what is {found[0]!r}?")
