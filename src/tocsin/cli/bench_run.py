"""One run of `tocsin bench`: the measurements in their order, and what becomes of the jobs whatever happens
meanwhile.

Ended by an error, by Ctrl-C or by SIGTERM, it deletes what it made before it ends. Ended a second time, it
leaves the rest, and says so.
"""

import asyncio
import signal
from collections import Counter
from collections.abc import Callable
from typing import Any

import msgspec
from rich.progress import Progress

from tocsin.cli.bench_api import Api
from tocsin.cli.bench_history import Stuck
from tocsin.cli.bench_jobs import TAG, BenchJobs
from tocsin.cli.bench_measures import MOST_SINGLES, Bench, Tell, rounded
from tocsin.cli.client import ApiError, Client
from tocsin.cli.progress import progress


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """What to measure, and how."""

    executions: int
    spread: int
    concurrency: int
    queue: str
    keep: bool

    @property
    def singles(self) -> int:
        """Jobs that are created one by one."""
        return min(self.executions, MOST_SINGLES)

    @property
    def jobs(self) -> int:
        """All jobs that are created: also a backlog, a herd, and one to begin with. All may be pending at
        once, since a job that has just finished counts for a moment."""
        return self.singles + 2 * self.executions + self.spread + 1


class Run:
    """State of a run, readable at any time."""

    def __init__(self, client: Client, identity: Any, plan: Plan) -> None:
        self.plan = plan
        self.measures: dict[str, Any] = {}
        self.stopped: str | None = None
        """Why it ended early."""
        self.left_over: str | None = None
        """Why jobs were not deleted."""
        self._identity = identity
        self._api = Api(client)
        self._jobs = BenchJobs(self._api, plan.queue, plan.concurrency)
        self._bench = Bench(self._api, self._jobs, plan.concurrency)

    async def measure(self) -> None:
        """All of it, and the cleaning up."""
        _let_signals_cancel()
        try:
            with progress() as bar:
                await self._measure_and_delete(bar)
        finally:
            self._api.close()

    async def clean(self) -> int:
        """Measure nothing; delete the jobs that earlier runs left. Returns how many jobs."""
        _let_signals_cancel()
        try:
            with progress() as bar:
                await self._jobs.sweep(TAG, _stage(bar, "deleting", None))
        finally:
            self._api.close()
        return self._jobs.deleted

    @property
    def left(self) -> int:
        """How many of its jobs are there."""
        return self._jobs.left

    @property
    def fate(self) -> str:
        """What became of the jobs, in words."""
        jobs = self._jobs
        if self.plan.keep:
            return f"{jobs.left:,} jobs are kept: tocsin jobs list --tag {jobs.tag}; tocsin bench --clean deletes them"
        if jobs.left or self.left_over:
            return f"{jobs.left:,} jobs were not deleted; tocsin bench --clean does it"
        return f"{jobs.deleted:,} jobs deleted; their history stays as long as all history"

    def answer(self) -> dict[str, Any]:
        """The report as plain data."""
        return {
            "tenant": self._identity["tenant"],
            "queue": self.plan.queue,
            "concurrency": self.plan.concurrency,
            "tag": self._jobs.tag,
            **{
                name: self.measures.get(name)
                for name in ("create", "create_batch", "drain", "herd", "spread")
            },
            "notes": [*self._notes(), *self._bench.notes],
            "jobs": {"created": self._jobs.created, "deleted": self._jobs.deleted, "left": self._jobs.left},
            "stopped": self.stopped or self.left_over,
        }

    async def _measure_and_delete(self, bar: Progress) -> None:
        interrupted = False
        try:
            await self._measure(bar)
        except ApiError as error:
            self.stopped = await self._explained(error)
        except asyncio.CancelledError:
            interrupted = True
            raise
        finally:
            if not self.plan.keep:
                deletion = asyncio.create_task(self._delete(bar))
                try:
                    await asyncio.shield(deletion)
                except asyncio.CancelledError:
                    if not interrupted:
                        await deletion
                    raise

    async def _measure(self, bar: Progress) -> None:
        plan, bench, count = self.plan, self._bench, self.plan.executions
        await bench.fire_one()
        self._keep("create", await bench.create(plan.singles, _stage(bar, "create", plan.singles)))
        self._keep("drain", await bench.drain(count, _stage(bar, "drain", count)))
        creation, herd = await bench.create_batch_and_herd(
            count, _stage(bar, "create in batches", count), _stage(bar, "herd", count)
        )
        self._keep("create_batch", creation)
        self._keep("herd", herd)
        if plan.spread:
            self._keep("spread", await bench.spread(plan.spread, _stage(bar, "spread", plan.spread)))

    def _keep(self, name: str, measure: msgspec.Struct) -> None:
        self.measures[name] = rounded(measure)

    async def _delete(self, bar: Progress) -> None:
        try:
            await self._jobs.delete_all(_stage(bar, "deleting", self._jobs.left))
        except ApiError as error:
            self.left_over = error.message

    async def _explained(self, error: ApiError) -> str:
        """An error with what can be done about it."""
        if error.status == 409:
            return f"{error.message}; or measure with fewer --executions"
        if not isinstance(error, Stuck):
            return error.message
        queue = self.plan.queue
        if "admin" not in self._identity["scopes"]:
            return f"{error.message}\nHint: ask the operator whether a worker serves queue {queue!r}"
        nodes = (await self._api.get("nodes"))["items"]
        workers = [node["name"] for node in nodes if node["alive"] and "worker" in node["roles"]]
        if not workers:
            return f"{error.message}\nHint: no worker is alive; start one with `tocsin engine`"
        return (
            f"{error.message}\nHint: alive are the workers {', '.join(workers)}; does one of them serve queue {queue!r}"
            " (--queue, TOCSIN_QUEUES), and is there room in it?"
        )

    def _notes(self) -> list[str]:
        """Which limits the figures are about, instead of the installation."""
        tenant, limits = self._identity["tenant"], self._identity["limits_in_force"]
        notes = []
        change = f"an operator changes it: tocsin tenants change {tenant}"
        if limits["fires_per_second"] is not None:
            notes.append(
                f"tenant {tenant} starts at most {limits['fires_per_second']:g} executions per second (limit fires_per_second):"
                f" drain and herd show that limit; {change} --fires-per-second …"
            )
        if limits["in_flight"] is not None:
            notes.append(
                f"tenant {tenant} runs at most {limits['in_flight']:,} executions at once (limit in_flight): drain and herd may"
                f" show that limit; {change} --in-flight …"
            )
        notes += [
            f"waited {count:,} times, as the API asked: {words}"
            for words, count in Counter(self._api.waits).items()
        ]
        return notes


def _let_signals_cancel() -> None:
    """Make Ctrl-C and SIGTERM cancel the current task, each time they come.

    Left to itself, a second Ctrl-C raises wherever the program happens to be, also inside the event loop,
    which reports it as a fault.
    """
    if task := asyncio.current_task():
        for end in (signal.SIGINT, signal.SIGTERM):
            asyncio.get_running_loop().add_signal_handler(end, task.cancel)


def _stage(bar: Progress, words: str, total: int | None) -> Tell:
    """A line of progress that is begun when there is some."""
    tell: Callable[..., None] | None = None

    def update(done: int) -> None:
        nonlocal tell
        if tell is None:
            task = bar.add_task(words, total=total, words="")
            tell = lambda done: bar.update(task, completed=done, words=f"{done:,}")  # noqa: E731
        tell(done)

    return update
