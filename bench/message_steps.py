"""The steps of section (l): each kind of broker, gRPC and scripts, beside our client alone."""

from collections.abc import Awaitable, Callable, Iterator

from bench import messages
from bench.drain import ENGINES
from bench.report import OURS, Measured
from bench.sections import PER_SECOND, Bench, Sizes, Step, lags
from bench.subjects import SUBJECTS, NotInstalled, Subject

SECTION = "l"
LAGS = 100
LAG_SECONDS = 5
_START_SECONDS = 10
"""A broker takes as long at most, on a machine with nothing else to do."""


def message_steps(sizes: Sizes) -> Iterator[Step]:
    """What is measured of ours, kind by kind: each server runs only as long as it is measured."""
    for subject in SUBJECTS:
        seconds = _START_SECONDS + sizes.runs * (30 + sizes.messages / 5000)
        yield Step(SECTION, subject.name, subject.what, seconds, _measure(subject))


def _measure(subject: Subject) -> Callable[[Bench], Awaitable[list[Measured]]]:
    async def measure(bench: Bench) -> list[Measured]:
        count, runs = bench.sizes.messages // subject.share, bench.sizes.runs
        found: dict[str, list[messages.Rates]] = {f"{OURS}, {ENGINES} engines": [], "our client alone": []}
        late = []
        try:
            async with subject.ready() as ready:
                for run in range(runs):
                    rounds = (
                        await messages.by_engines(bench.place, ready, count),
                        await messages.client_alone(ready, count),
                    )
                    for one, those in zip(rounds, found.values(), strict=True):
                        those.append(one)
                    late.append(await messages.lags(bench.place, ready, LAGS, LAG_SECONDS, run))
                    bench.tell(f"{rounds[0].per_second:,.0f} per second, alone {rounds[1].per_second:,.0f}")
        except NotInstalled as reason:
            bench.tell(str(reason))
            return []
        command = (
            f"python -m bench.messages --kinds {subject.name} --count {bench.sizes.messages} --runs {runs}"
        )
        rates = [
            Measured(
                SECTION,
                f"{count:,} {subject.what}",
                who,
                _columns(those, per_core=not subject.forks),
                command,
                ours=who.startswith(OURS),
            )
            for who, those in found.items()
        ]
        what = f"From due to answered, {subject.what}"
        note = f"{LAGS} in {LAG_SECONDS} s, one engine"
        return [*rates, lags(SECTION, what, OURS, late, command, note)]

    return measure


def _columns(found: list[messages.Rates], *, per_core: bool) -> dict[str, list[float]]:
    columns = {PER_SECOND: [one.per_second for one in found]}
    if per_core:
        columns["per second of processor time"] = [one.per_core for one in found]
    return columns
