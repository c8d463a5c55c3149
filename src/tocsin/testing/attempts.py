"""Attempts at tasks in the process of a test.

A plain function is called on the test's own thread, so what a test has opened or replaced is there. An async
function is awaited on an event loop of its own thread, where the app's lifespan and what lives as long as a
worker are opened, too.
"""

import asyncio
import threading
from collections.abc import Coroutine
from concurrent.futures import Future
from contextlib import AsyncExitStack
from typing import Any, Final, TypeVar

import msgspec

from tocsin.domain.ids import ExecutionKey, execution_text, new_job_id
from tocsin.domain.instant import MILLISECOND, SECOND, Instant, Span, format_instant, parse_span
from tocsin.domain.protocol import TaskClaim, TaskSettlement
from tocsin.sdk.app import App
from tocsin.sdk.calling import call, call_async
from tocsin.sdk.context import running
from tocsin.sdk.depends import Dependency, Shared
from tocsin.sdk.outcomes import succeeded
from tocsin.sdk.task import Task
from tocsin.sdk.worker.attempt import Attempt
from tocsin.sdk.worker.runners import settlement_of

T = TypeVar("T")
_TIMEOUT: Final[Span] = 30 * SECOND
_LEASE: Final[Span] = 30 * SECOND


def claim_of(task: Task[..., Any], payload: Any, now: Instant) -> TaskClaim:
    """A claim of a call that no server knows of, with the payload as it would travel."""
    execution, at = execution_text(ExecutionKey(new_job_id(now), now)), format_instant(now)
    timeout = task.options.timeout
    return TaskClaim(
        id=execution,
        token="0",  # noqa: S106 - of no claim
        task=task.name,
        payload=msgspec.json.decode(msgspec.json.encode(payload)),
        attempt=1,
        fire_at=at,
        started_at=at,
        timeout_ms=(_TIMEOUT if timeout is None else parse_span(timeout, "timeout")) // MILLISECOND,
        deadline_at=format_instant(now + _LEASE),
        idempotency_key=execution,
        traceparent="",
        queue=task.options.queue,
    )


class LoopThread:
    """An event loop on a thread of its own."""

    def __init__(self, loop: asyncio.AbstractEventLoop | None = None, name: str = "tocsin tests") -> None:
        self._loop = loop or asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name=name, daemon=True)
        self._thread.start()

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run something there, and wait for it."""
        return self.submit(work).result()

    def submit(self, work: Coroutine[Any, Any, T]) -> "Future[T]":
        """Run something there."""
        return asyncio.run_coroutine_threadsafe(work, self._loop)

    def close(self) -> None:
        """End the thread."""
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


class Attempts:
    """Runs tasks of some apps, as a worker of theirs would."""

    def __init__(self) -> None:
        self._loop: LoopThread | None = None
        self._stack = AsyncExitStack()
        self._open: dict[App, tuple[Any, Shared]] = {}

    def settle(self, task: Task[..., Any], claim: TaskClaim) -> TaskSettlement:
        """Make an attempt. Whatever the task raises is its outcome."""
        attempt, shared = self._attempt(task, claim)
        try:
            value = self._value(attempt, shared)
        except Exception as error:  # noqa: BLE001 - see above; what ends the test is no Exception
            return attempt.settled(settlement_of(attempt, error))
        return attempt.settled(succeeded(claim, task.kept(value)))

    def value(self, task: Task[..., Any], claim: TaskClaim) -> Any:
        """Make an attempt. What the task raises is raised."""
        return self._value(*self._attempt(task, claim))

    def close(self) -> None:
        """End the lifespans of all apps that ran something."""
        if self._loop is not None:
            self._loop.run(self._stack.aclose())
            self._loop.close()

    def _attempt(self, task: Task[..., Any], claim: TaskClaim) -> tuple[Attempt, Shared]:
        state, shared = self._opened(task.app)
        return Attempt(claim, task, state), shared

    def _value(self, attempt: Attempt, shared: Shared) -> Any:
        task, context = attempt.task, attempt.context
        arguments = task.signature.arguments(attempt.claim.payload)
        if task.is_async:
            return self._on_loop().run(_awaited(attempt, arguments, shared))
        with running(context):
            return call(task, arguments, context, shared)

    def _opened(self, app: App) -> tuple[Any, Shared]:
        if app not in self._open:
            wanted = [one for task in app.tasks.values() for one in task.signature.dependencies.values()]
            needs = app.has_lifespan or any(map(_lives_long, wanted))
            self._open[app] = self._on_loop().run(self._enter(app, wanted)) if needs else (None, Shared())
        return self._open[app]

    async def _enter(self, app: App, wanted: list[Dependency]) -> tuple[Any, Shared]:
        shared = Shared()
        state = await self._stack.enter_async_context(app.alive())
        await shared.open(self._stack, wanted)
        return state, shared

    def _on_loop(self) -> LoopThread:
        if self._loop is None:
            self._loop = LoopThread(name="tocsin async tasks")
        return self._loop


def _lives_long(one: Dependency) -> bool:
    """Whether it, or what it needs, lives as long as a worker."""
    return one.scope == "worker" or any(map(_lives_long, one.inner.values()))


async def _awaited(attempt: Attempt, arguments: dict[str, Any], shared: Shared) -> Any:
    with running(attempt.context):
        return await call_async(attempt.task, arguments, attempt.context, shared)
