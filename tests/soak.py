"""A long run against a fleet that is being broken all the time: `python -m tests.soak --minutes 30 --seed 7`.

A nemesis draws faults from the seed: kill -9, freezing for less and for more than the ttl, draining, crashing
at a named point, cutting connections, crashing the database. Faults may overlap. Towards the end everything
is healed and left alone; then the run must come to rest, and the checker judges it. The exit code is 0 if
every promise was kept.

The same seed draws the same faults at the same pace; what they hit depends on the machine.
"""

import argparse
import asyncio
import random
import shutil
import sys
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

from tests.acceptance.fleet import Fleet, run
from tests.acceptance.fleet_load import now
from tests.support.checker import check
from tests.support.history import SECOND, Fault
from tests.support.postgres import Cluster, temporary_directory
from tests.support.processes import Process
from tests.task_soak import soak_tasks

POINTS = (
    "planner.read",
    "planner.before_write",
    "planner.written",
    "claimer.claimed",
    "starter.before",
    "starter.started",
    "misfires.before",
    "misfires.decided",
    "runner.before_call",
    "runner.called",
    "settler.before",
    "settler.written",
    "leaser.renewed",
    "reclaimer.wrote",
    "reclaimer.released",
)
TTL = 3.0
QUIET = 30.0


class Nemesis:
    """Breaks a fleet and mends it again, one or two things at a time."""

    def __init__(self, fleet: Fleet, cluster: Cluster, rng: random.Random) -> None:
        self._fleet = fleet
        self._cluster = cluster
        self._rng = rng
        self._busy: set[str] = set()
        self._database_lock = asyncio.Lock()

    async def run(self, seconds: float) -> None:
        """Break things for a while; returns when everything is mended."""
        end = time.monotonic() + seconds
        async with asyncio.TaskGroup() as tasks:
            while time.monotonic() < end:
                tasks.create_task(self._one_fault())
                await asyncio.sleep(self._rng.uniform(0.5, 5.0))

    async def _one_fault(self) -> None:
        faults: list[tuple[Callable[[], Awaitable[Fault | None]], int]] = [
            (self._kill, 5),
            (self._crash_at_a_point, 4),
            (self._freeze, 4),
            (self._drain, 2),
            (self._cut, 3),
            (self._crash_database, 1),
        ]
        chosen = self._rng.choices([f for f, _ in faults], [weight for _, weight in faults])[0]
        fault = await chosen()
        if fault is not None:
            fault.ended_at = fault.ended_at or now()
            held = (fault.ended_at - fault.began_at) / SECOND
            say(f"{fault.what} {fault.victim}: {fault.proof}, mended after {held:.1f} s")

    async def _kill(self) -> Fault | None:
        return await self._with_victim(self._kill_it, [*self._fleet.nodes, self._fleet.api])

    async def _kill_it(self, victim: Process) -> Fault:
        fault = await self._fleet.kill(victim)
        await asyncio.sleep(self._rng.uniform(0, 2 * TTL))
        victim.start()
        return fault

    async def _crash_at_a_point(self) -> Fault | None:
        return await self._with_victim(self._crash_it, self._fleet.nodes)

    async def _crash_it(self, victim: Process) -> Fault:
        """Start it again armed, give it time to crash, then start it well."""
        point = self._rng.choice(POINTS)
        fault = await self._fleet.kill(victim)
        victim.start(TOCSIN_FAILPOINTS=f"{point}=crash:0.3")
        for _ in range(100):
            if not victim.alive:
                break
            await asyncio.sleep(0.1)
        if victim.alive:
            victim.kill()
            fault.proof += f", then armed at {point}, which it did not reach"
        else:
            self._fleet.crashed(victim, point)
            fault.proof += f", then crashed at {point}"
        victim.start()
        return fault

    async def _freeze(self) -> Fault | None:
        seconds = self._rng.choice((TTL / 2, TTL + 1, 2 * TTL))
        return await self._with_victim(
            lambda victim: self._fleet.freeze(victim, seconds), [*self._fleet.nodes, self._fleet.api]
        )

    async def _drain(self) -> Fault | None:
        return await self._with_victim(self._drain_it, self._fleet.nodes)

    async def _drain_it(self, victim: Process) -> Fault:
        fault = self._fleet.note("drain", victim.name)
        victim.terminate()
        fault.proof = f"exit code {await asyncio.to_thread(victim.wait, 60)}"
        victim.start()
        return fault

    async def _cut(self) -> Fault | None:
        async with self._database_lock:
            return await self._fleet.cut_connections(self._rng.choice((0.3, 1.0)))

    async def _crash_database(self) -> Fault | None:
        async with self._database_lock:
            fault = await self._fleet.crash_database(self._cluster.server)
            await asyncio.sleep(self._rng.uniform(0, 3))
            await self._cluster.server.start()
            return fault

    async def _with_victim(
        self, act: Callable[[Process], Awaitable[Fault]], among: list[Process]
    ) -> Fault | None:
        """Do something to a process that nothing is being done to."""
        idle = [process for process in among if process.name not in self._busy]
        if not idle:
            return None
        victim = self._rng.choice(idle)
        self._busy.add(victim.name)
        try:
            return await act(victim)
        finally:
            self._busy.discard(victim.name)


async def soak(arguments: argparse.Namespace, cluster: Cluster, url: str, directory: Path) -> bool:
    """One run. Returns whether every promise was kept."""
    seconds = arguments.minutes * 60
    quiet = min(QUIET, seconds / 4)
    async with Fleet(url, directory, nodes=arguments.nodes, ttl=TTL, seed=arguments.seed) as fleet:
        end = now() + round((seconds - quiet / 2) * SECOND)
        await fleet.load.everies(arguments.recurring, until=end, longest=20)
        await fleet.load.one_offs(fleet.rng.randrange(now(), end) for _ in range(arguments.one_offs))
        say(f"{arguments.recurring} recurring jobs and {arguments.one_offs} one-offs are waiting")
        progress = asyncio.create_task(report_progress(fleet))
        async with fleet.under_load(per_second=arguments.rate):
            await Nemesis(fleet, cluster, random.Random(arguments.seed)).run(seconds - quiet)
            say("everything is mended; quiet from here on")
        await fleet.come_to_rest(quiet + 120)
        progress.cancel()
        history = await fleet.history()
        history.save(directory / "history.json")
        verdict = check(history)
        say(verdict.report())
        return verdict.good


async def report_progress(fleet: Fleet) -> None:
    """A line every ten seconds."""
    while True:
        await asyncio.sleep(10)
        answers = [create.answer for create in fleet.load.creates]
        say(
            f"jobs {answers.count('ok')} acknowledged, {answers.count('unknown')} unknown;"
            f" {len(fleet.sink.hits)} calls; {len(fleet.faults)} faults"
        )


def say(words: str) -> None:
    """A line with the time."""
    print(f"{time.strftime('%H:%M:%S')}  {words}", flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--nodes", type=int, default=3)
    parser.add_argument("--one-offs", type=int, default=5000, help="created at the start, due at any time")
    parser.add_argument(
        "--recurring", type=int, default=500, help="created at the start, every 1 to 20 seconds"
    )
    parser.add_argument("--rate", type=float, default=30, help="further creations per second")
    parser.add_argument(
        "--tasks", action="store_true", help="tasks and their workers instead: see tests.task_soak"
    )
    arguments = parser.parse_args()
    directory = temporary_directory()
    cluster = Cluster(directory / "database")
    say(f"seed {arguments.seed}, {arguments.nodes} nodes, {arguments.minutes:g} minutes, in {directory}")
    good = False
    try:
        cluster.start()
        url = cluster.new_database()

        async def scenario() -> None:
            nonlocal good
            good = await soak(arguments, cluster, url, directory)

        if arguments.tasks:
            good = soak_tasks(arguments, cluster, url, directory, say)
        else:
            run(scenario())
    finally:
        cluster.stop()
        if good:
            shutil.rmtree(directory, ignore_errors=True)
    say("passed" if good else f"failed; logs and history.json are in {directory}")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
