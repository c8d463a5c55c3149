"""Runs the tasks of an app inside a worker of the fleet: what `tocsin worker --app` serves beside the rest.

To the worker it is one more caller, so claims, limits, retries and history are those of every target. The
app's functions run as they do in a remote worker: coroutines on an event loop of their own, which they may
block without harm to the worker's, plain functions in threads, the rest in child processes. An attempt that
is stopped or over its time is asked to end, and given up after a grace. Tasks are run for one tenant alone.
"""

import asyncio
import contextlib
import threading
from collections import deque
from collections.abc import Callable, Coroutine, Mapping
from time import monotonic
from typing import Any, Final, TypeVar

import structlog

from tocsin.app_worker.telling import Telling
from tocsin.db.pool import Database
from tocsin.domain.errors import Refused
from tocsin.domain.instant import MILLISECOND, SECOND, format_instant
from tocsin.domain.outcome import Outcome, Postponed
from tocsin.domain.protocol import TaskClaim, TaskSettlement
from tocsin.domain.task_target import TaskTarget
from tocsin.domain.traces import traceparent
from tocsin.domain.waits import Reason
from tocsin.roles.process import Process
from tocsin.sdk.app import App
from tocsin.sdk.depends import Shared
from tocsin.sdk.outcomes import Cancelled, Stopped, TimedOut
from tocsin.sdk.worker.attempt import GRACE, Attempt
from tocsin.sdk.worker.beats import EXIT_STRAYS, too_many
from tocsin.sdk.worker.loop_watch import LoopWatch
from tocsin.sdk.worker.processes import ProcessRunner, Wear
from tocsin.sdk.worker.runners import AsyncRunner, Runner, ThreadRunner
from tocsin.service import Loop
from tocsin.targets.assignment import Assignment
from tocsin.targets.caller import Caller, Host
from tocsin.worker.remote.settler import outcome_of

TASK_HOST: Final[Host] = ("task", 0)
"""Where tasks run, as a host that has only so much room: this process."""
_TIMELY: Final = 0.25
_log = structlog.get_logger()
T = TypeVar("T")


class AppTasks:
    """The tasks of one app, for one tenant."""

    def __init__(
        self, app: App, tenant: str, processes: int, wear: Wear, wear_out: Callable[[], object]
    ) -> None:
        """`wear_out` is called once too many tasks did not stop when they were asked to."""
        if not app.tasks:
            raise Refused(f"the app {app.name} has no tasks", field="app")
        self._app = app
        self._tenant = tenant
        self._processes = processes
        self._wear = wear
        self._wear_out = wear_out
        self._room = 1
        self._loop = asyncio.new_event_loop()
        self._living = contextlib.AsyncExitStack()
        self._shared = Shared()
        self._state: Any = None
        self._runners: dict[str, Runner] = {}
        self._ends: dict[Attempt, asyncio.Future[TaskSettlement]] = {}
        self._over: deque[tuple[Attempt, TaskSettlement]] = deque()
        """Attempts that have ended and of which the worker's loop has not heard."""
        self._told = False
        """Whether it will look there."""
        self.routes = tuple(f"task:{name}" for name in app.tasks)
        self.tenant_id = 0
        self.strays = 0

    async def open(self, process: Process, database: Database) -> Mapping[str, Caller]:
        """Bring the app to life. What serves which route."""
        row = await database.fetchrow("SELECT id FROM tenants WHERE name = $1", self._tenant)
        if row is None:
            raise Refused(f"no tenant named {self._tenant[:63]!r}", field="tenant")
        self.tenant_id = row["id"]
        self._room = process.settings.host_concurrency
        self._home = asyncio.get_running_loop()
        thread = threading.Thread(target=self._loop.run_forever, name="tocsin tasks", daemon=True)
        thread.start()
        self._count_stray = process.telemetry.strays.inc
        process.closes(self._close)
        await self._there(self._come_alive())
        self._telling = Telling(database, LoopWatch(self._loop, thread.ident or 0).look)
        self._telling_loop = Loop(self._telling, process.clock)
        return dict.fromkeys(self.routes, self)

    @property
    def loops(self) -> list[Loop]:
        """What runs beside the tasks."""
        return [self._telling_loop]

    @property
    def exit_code(self) -> int:
        """Not 0 when a quarter of the room is taken by what does not end."""
        return EXIT_STRAYS if too_many(self.strays, self._room) else 0

    def host(self, target: TaskTarget) -> Host:  # noqa: ARG002 - whichever it is
        """All tasks share the room of this process."""
        return TASK_HOST

    async def call(self, assignment: Assignment, target: TaskTarget, timeout: float) -> Outcome | Postponed:
        """Run a task's function."""
        task, began = self._app.tasks[target.task], monotonic()
        attempt = Attempt(_claim(assignment, target, timeout), task, self._state)
        ended = self._ends[attempt] = self._home.create_future()
        self._telling.hold(assignment, attempt)
        try:
            self._runners[task.run].start(attempt)
            settlement = await asyncio.shield(ended)
        except asyncio.CancelledError:
            late = monotonic() - began >= timeout - _TIMELY
            words = f"not over within {timeout:g} s" if late else "its cancellation was asked for"
            await self._stop(attempt, ended, TimedOut(words) if late else Cancelled(words))
            raise
        finally:
            del self._ends[attempt]
            await self._telling.release(attempt)
        if settlement.verdict == "postponed":
            return Postponed((settlement.retry_after_ms or 0) * MILLISECOND, Reason.TASK)
        return outcome_of(settlement)

    async def _stop(self, attempt: Attempt, ended: "asyncio.Future[TaskSettlement]", why: Stopped) -> None:
        """Ask an attempt to end, and give it up if it does not."""
        attempt.stop(why)
        with contextlib.suppress(TimeoutError, asyncio.CancelledError):
            await asyncio.wait_for(asyncio.shield(ended), GRACE)
        if not ended.done():
            stack = attempt.where()
            attempt.given_up = True
            attempt.kill()
            if attempt.task.run != "process":
                self.strays += 1
                self._count_stray()
                if self.exit_code:
                    self._wear_out()
            _log.warning(
                "task.did_not_stop", task=attempt.claim.task, execution=attempt.claim.id, stack=stack
            )

    async def _come_alive(self) -> None:
        """On the app's own loop."""
        tasks = self._app.tasks.values()
        wanted = [
            one for task in tasks if task.run != "process" for one in task.signature.dependencies.values()
        ]
        if any(task.run != "process" for task in tasks):
            self._state = await self._living.enter_async_context(self._app.alive())
        await self._shared.open(self._living, wanted)
        self._runners["async"] = AsyncRunner(self._loop, self._shared, _take, self._ended)
        self._runners["thread"] = ThreadRunner(self._shared, _take, self._ended)
        if any(task.run == "process" for task in tasks):
            self._runners["process"] = ProcessRunner(self._processes, _take, self._ended, self._wear)

    def _ended(self, attempt: Attempt, settlement: TaskSettlement) -> None:
        """From whichever thread it ran on. To wake the worker's loop costs more than to run a quick task: it
        is woken once for all that end until it looks."""
        self._over.append((attempt, settlement))
        if not self._told:
            self._told = True
            with contextlib.suppress(RuntimeError):  # the worker is gone
                self._home.call_soon_threadsafe(self._hear)

    def _hear(self) -> None:
        self._told = False  # first: what ends from here on is seen below, or tells again
        while self._over:
            attempt, settlement = self._over.popleft()
            ended = self._ends.get(attempt)
            if ended is not None and not ended.done():
                ended.set_result(settlement)

    async def _there(self, work: Coroutine[Any, Any, T]) -> T:
        """Have something done on the app's own loop."""
        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(work, self._loop))

    async def _close(self) -> None:
        for runner in self._runners.values():
            runner.close()
        await self._there(self._living.aclose())
        self._loop.call_soon_threadsafe(self._loop.stop)


def _take(attempt: Attempt) -> bool:
    attempt.taken = not attempt.given_up
    return attempt.taken


def _claim(assignment: Assignment, target: TaskTarget, timeout: float) -> TaskClaim:
    """An attempt as the SDK knows it."""
    execution = assignment.execution
    return TaskClaim(
        id=execution,
        token=str(assignment.token),
        task=target.task,
        payload=target.payload,
        attempt=assignment.attempt,
        fire_at=format_instant(assignment.nominal_fire_at),
        started_at=format_instant(assignment.started_at),
        timeout_ms=round(timeout * 1000),
        deadline_at=format_instant(assignment.started_at + round(timeout * SECOND)),
        idempotency_key=execution,
        traceparent=target.trace or traceparent(execution, assignment.attempt),
        queue=assignment.queue,
    )
