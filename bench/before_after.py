"""Before and after: what two checkouts of Tocsin do on one machine, in turns.

    git worktree add /tmp/before 3c2dd1d
    .venv/bin/python -m bench.before_after /tmp/before [measure …] [--after DIRECTORY] [--runs 5] [--scale 1]

Each checkout has a process and a database of its own, and this environment's dependencies. They take turns,
and who is first alternates, so what else happens on the machine meets both. A ratio is that of the medians:
after by before for rates, before by after for times, so that below 1 is always worse. The exit status says
whether one is below 0.95. `--scale` makes everything smaller, to try the command itself.
"""

import argparse
import asyncio
import os
import sys
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import msgspec
import uvloop

from bench import checkout
from bench.report import Spread

LEAST = 0.95
TREE = Path(__file__).resolve().parent.parent
Runs = dict[str, list[float]]


class Compared(msgspec.Struct, frozen=True):
    """One figure of both checkouts."""

    what: str
    before: Spread
    after: Spread

    @property
    def ratio(self) -> float:
        """Below 1 where the later checkout is worse."""
        before, after = self.before.median, self.after.median
        return before / after if self.what.endswith("ms") else after / before


class Checkout:
    """One checkout's process."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process
        self.runs: Runs = {}

    async def measure(self, name: str, scale: float) -> None:
        """Take one turn, and keep its figures."""
        assert self._process.stdin
        assert self._process.stdout
        self._process.stdin.write(msgspec.json.encode((name, scale)) + b"\n")
        answer = await self._process.stdout.readline()
        if not answer:
            raise SystemExit(f"{name}: the process of a checkout ended; see above")
        for what, value in msgspec.json.decode(answer, type=dict[str, float]).items():
            self.runs.setdefault(f"{name}: {what}", []).append(value)


@asynccontextmanager
async def opened(tree: Path) -> AsyncIterator[Checkout]:
    """A process that measures this checkout, ended when it is no longer needed."""
    environment = os.environ | {"PYTHONPATH": os.pathsep.join((str(tree / "src"), str(tree)))}
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-P",  # the folder of the file, which is this checkout's, is not in the path
        checkout.__file__,
        cwd=tree,
        env=environment,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
    )
    try:
        yield Checkout(process)
    finally:
        if process.stdin:
            process.stdin.close()
        await process.wait()


def compared(before: Mapping[str, Sequence[float]], after: Mapping[str, Sequence[float]]) -> list[Compared]:
    """What both checkouts measured."""
    return [
        Compared(what, Spread.of(values), Spread.of(after[what]))
        for what, values in before.items()
        if what in after
    ]


async def main(before: Path, after: Path, measures: Sequence[str], runs: int, scale: float) -> int:
    async with AsyncExitStack() as stack:
        old, new = [await stack.enter_async_context(opened(tree.resolve())) for tree in (before, after)]
        for run in range(runs):
            for name in measures:
                for one in (old, new) if run % 2 == 0 else (new, old):
                    await one.measure(name, scale)
                print(f"run {run + 1} of {runs}: {name} done", file=sys.stderr, flush=True)
    rows = compared(old.runs, new.runs)
    print(f"{'':<45} {'before':>30} {'after':>30}  ratio")
    for row in rows:
        worse = "  WORSE" if row.ratio < LEAST else ""
        print(f"{row.what:<45} {row.before!s:>30} {row.after!s:>30}  {row.ratio:5.2f}{worse}")
    return 1 if any(row.ratio < LEAST for row in rows) else 0


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        prog="python -m bench.before_after", description=__doc__.partition("\n")[0]
    )
    parser.add_argument("before", type=Path, help="the earlier checkout")
    parser.add_argument("measures", nargs="*", choices=[*checkout.MEASURES, []], help="default: all")
    parser.add_argument("--after", type=Path, default=TREE, help="the later checkout (default: this one)")
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--scale", type=float, default=1.0, help="how much of the usual work, 0.02 for a try")
    options = parser.parse_args()
    raise SystemExit(
        uvloop.run(
            main(
                options.before,
                options.after,
                options.measures or list(checkout.MEASURES),
                options.runs,
                options.scale,
            )
        )
    )
