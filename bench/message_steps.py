"""The steps of section (l): messages to each kind of broker, beside our client alone."""

from collections.abc import Awaitable, Callable, Iterator

from tests.engines.brokers import Kind

from bench import messages
from bench.drain import ENGINES
from bench.report import OURS, Measured
from bench.sections import PER_SECOND, Bench, Sizes, Step, lags

SECTION = "l"
LAGS = 100
LAG_SECONDS = 5
_START_SECONDS = 10
"""A broker takes as long at most, on a machine with nothing else to do."""


def message_steps(sizes: Sizes) -> Iterator[Step]:
    """What is measured of ours, broker by broker: each runs only as long as it is measured."""
    for kind in messages.KINDS:
        seconds = _START_SECONDS + sizes.runs * (30 + sizes.messages / 5000)
        yield Step(SECTION, kind.name, f"messages, {kind.name}", seconds, _measure(kind))


def _measure(kind: Kind) -> Callable[[Bench], Awaitable[list[Measured]]]:
    async def measure(bench: Bench) -> list[Measured]:
        count, runs = bench.sizes.messages, bench.sizes.runs
        async with messages.broker(kind) as server:
            if server is None:
                bench.tell("no server is installed")
                return []
            found: dict[str, list[messages.Messages]] = {
                f"{OURS}, {ENGINES} engines": [],
                "our client alone": [],
            }
            late = []
            for run in range(runs):
                rounds = (
                    await messages.published(bench.place, kind, server, count),
                    await messages.client_alone(kind, server, count),
                )
                for one, those in zip(rounds, found.values(), strict=True):
                    those.append(one)
                late.append(await messages.lags(bench.place, kind, server, LAGS, LAG_SECONDS, run))
                bench.tell(f"{rounds[0].per_second:,.0f} per second, alone {rounds[1].per_second:,.0f}")
        command = f"python -m bench.messages --kinds {kind.name} --count {count} --runs {runs}"
        rates = [
            Measured(
                SECTION,
                f"{count:,} messages to {kind.name}",
                who,
                {
                    PER_SECOND: [one.per_second for one in those],
                    "per second of processor time": [one.per_core for one in those],
                },
                command,
                ours=who.startswith(OURS),
            )
            for who, those in found.items()
        ]
        what = f"From due to acknowledged by {kind.name}"
        note = f"{LAGS} in {LAG_SECONDS} s, one engine"
        return [*rates, lags(SECTION, what, OURS, late, command, note)]

    return measure
