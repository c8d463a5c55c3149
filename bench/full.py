"""``make bench-full``: everything in one run, every figure beside its anchor. Writes `RESULTS.md`, plots and
the raw results.

    .venv/bin/python -m bench.full [--only b,c] [--resume] [--quick] [--peers PgQueuer,River] [--list]

Each step is kept in `results/steps.jsonl` as soon as it is done. A run that was cut goes on with `--resume`,
which leaves out what was kept; without it, a run begins anew. `--quick` is for trying the harness: tiny
sizes, one run, results of no worth, written somewhere else. In the end the short table for the README is
printed.
"""

import argparse
import asyncio
import importlib.util
import signal
import tempfile
import time
import traceback
from collections.abc import Sequence
from importlib.metadata import version
from itertools import groupby
from pathlib import Path

import msgspec
import uvloop

from bench.archive_steps import archive_steps
from bench.installation import installation
from bench.message_steps import message_steps
from bench.peer_steps import peer_steps
from bench.peers import PEERS
from bench.plots import draw
from bench.report import SECTIONS, Contender, Done, Run, keep, kept, page, readme_table
from bench.sections import QUICK, Bench, Sizes, Step, our_steps
from bench.task_steps import task_steps

HERE = Path(__file__).parent
RESULTS, RUN = "results/steps.jsonl", "results/run.json"
QUICK_PLACE = Path(tempfile.gettempdir()) / "tocsin-bench-quick"
QUICK_PEERS = ["PgQueuer", "BullMQ"]
SETTINGS = ("fsync", "synchronous_commit", "shared_buffers", "max_wal_size", "max_connections")


def all_steps(sizes: Sizes, peers: Sequence[str], only: str) -> list[Step]:
    """Ours and the peers', section by section, and what is compared with each other in one go."""
    steps = [
        *our_steps(sizes),
        *task_steps(sizes),
        *message_steps(sizes),
        *archive_steps(sizes),
        *peer_steps(sizes, peers, lambda name: PEERS[name].measures),
    ]
    whats = list(dict.fromkeys(step.what for step in steps))
    those = (step for step in steps if step.section in only)
    return sorted(those, key=lambda step: (step.section, whats.index(step.what)))


def left_over(steps: Sequence[Step], done: Sequence[Done]) -> list[Step]:
    """Steps that were not kept yet."""
    names = {one.name for one in done}
    return [step for step in steps if step.name not in names]


def in_order(done: Sequence[Done], names: Sequence[str]) -> list[Done]:
    """What was kept, as a run in one go would have kept it."""
    places = {name: place for place, name in enumerate(names)}
    return sorted(done, key=lambda one: places.get(one.name, len(places)))


async def main(steps: Sequence[Step], sizes: Sizes, peers: Sequence[str], into: Path) -> int:
    """Measure, keep, report. Returns how many steps failed."""
    stop_on_sigterm()
    results, run = into / RESULTS, into / RUN
    if not run.exists():
        run.write_bytes(msgspec.json.format(msgspec.json.encode(await describe(sizes, peers))))
    left = sum(step.seconds for step in steps)
    print(f"{len(steps)} steps, about {left / 60:.0f} minutes; results go to {into}", flush=True)
    failed: list[str] = []
    for section, group in groupby(steps, key=lambda step: step.section):
        print(f"\n({section}) {SECTIONS[section]}", flush=True)
        async with installation() as place:
            for step in group:
                done = await attempt(step, Bench(place, sizes, say))
                left -= step.seconds
                if done is None:
                    failed.append(step.name)
                else:
                    keep(results, done)
                    print(f"  {step.name}: {done.took:.0f} s; about {left / 60:.0f} minutes left", flush=True)
    write_report(into, [step.name for step in all_steps(sizes, peers, "".join(SECTIONS))])
    for name in failed:
        print(f"FAILED: {name}")
    return len(failed)


async def describe(sizes: Sizes, peers: Sequence[str]) -> Run:
    """Where and with what this run measures."""
    async with installation() as place:
        server = (await place.database.one("SHOW server_version"))[0]
        values = [f"{name}={(await place.database.one(f'SHOW {name}'))[0]}" for name in SETTINGS]
    contenders = [
        Contender(peer.name, peer.version, peer.settings, peer.unfair)
        for peer in map(PEERS.__getitem__, peers)
    ]
    versions = {"Tocsin": version("tocsin"), "PostgreSQL": server}
    return Run.here(versions, f"PostgreSQL with {', '.join(values)}.", sizes.runs, contenders)


async def attempt(step: Step, bench: Bench) -> Done | None:
    """One step; None if it failed, after a clean-up."""
    began = time.monotonic()
    try:
        measured = await step.measure(bench)
    except Exception:  # noqa: BLE001 - the others are measured all the same
        traceback.print_exc()
        await bench.place.stop()
        bench.place.backlog_until = None
        return None
    return Done(step.name, time.monotonic() - began, measured)


def say(text: str) -> None:
    print(f"    {text}", flush=True)


def stop_on_sigterm() -> None:
    """So that no process is left behind."""
    running = asyncio.current_task()
    assert running
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, running.cancel)


def write_report(into: Path, names: Sequence[str]) -> None:
    """The page, its plots, and the short table. `names` says in which order the steps come."""
    done = in_order(kept(into / RESULTS), names)
    run = msgspec.json.decode((into / RUN).read_bytes(), type=Run)
    measured = [row for one in done for row in one.measured]
    plots: dict[str, list[str]] = {}
    if importlib.util.find_spec("matplotlib"):
        folder = (into / RESULTS).parent
        drawn = draw(measured, folder)
        plots = {section: [f"{folder.name}/{file}" for file in files] for section, files in drawn.items()}
    else:
        print("no plots: they need `make .venv/.bench`")
    (into / "RESULTS.md").write_text(page(run, sum(one.took for one in done), measured, plots))
    print(f"\nwrote {into / 'RESULTS.md'}. For the README:\n\n{readme_table(measured)}\n")


def letters_of(text: str) -> str:
    """Letters of sections."""
    letters = text.replace(",", "")
    if strangers := set(letters) - set(SECTIONS):
        raise argparse.ArgumentTypeError(f"no such section: {', '.join(sorted(strangers))}")
    return letters


def named(text: str) -> list[str]:
    """Names of peers; none at all, if the text is empty."""
    names = [name for name in text.split(",") if name]
    if strangers := set(names) - set(PEERS):
        raise argparse.ArgumentTypeError(f"no such peer: {', '.join(sorted(strangers))}")
    return names


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m bench.full", description=__doc__.partition("\n")[0])
    parser.add_argument("--only", type=letters_of, default="".join(SECTIONS), help="sections, as in b,c")
    parser.add_argument("--resume", action="store_true", help="go on with a run that was cut")
    parser.add_argument("--quick", action="store_true", help="tiny sizes, to try the harness")
    parser.add_argument("--peers", type=named, help=f"of {','.join(PEERS)} (default: all)")
    parser.add_argument("--into", type=Path, help="directory of the results")
    parser.add_argument("--list", action="store_true", help="only say what would be done")
    options = parser.parse_args()
    wanted = QUICK if options.quick else Sizes()
    names = options.peers if options.peers is not None else QUICK_PEERS if options.quick else list(PEERS)
    target: Path = options.into or (QUICK_PLACE if options.quick else HERE)
    (target / RESULTS).parent.mkdir(parents=True, exist_ok=True)
    todo = all_steps(wanted, names, options.only)
    if options.resume:
        todo = left_over(todo, kept(target / RESULTS))
    if options.list:
        for one in todo:
            print(f"{one.section}  {one.seconds / 60:5.1f} min  {one.name}")
        print(f"{sum(one.seconds for one in todo) / 60:.0f} minutes in all")
        raise SystemExit(0)
    if not options.resume:
        for file in (RESULTS, RUN):
            (target / file).unlink(missing_ok=True)
    raise SystemExit(uvloop.run(main(todo, wanted, names, target)))
