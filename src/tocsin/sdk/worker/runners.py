"""How a worker runs functions: on its event loop, and in threads.

An `async def` runs on the loop and is cancelled when it should stop. A `def` runs in a thread:
`current().stopped` is set, and `Stopped` is thrown into it, which ends Python code but neither a sleep nor a
call into C. One that does not end is given up after a grace: its thread is a stray, and another takes its
place. A task that must be stoppable runs in a child process (`processes`).
"""

import asyncio
import contextvars
import ctypes
import threading
import traceback
from collections import deque
from collections.abc import Callable
from typing import Any, Protocol

from tocsin.domain.protocol import TaskSettlement
from tocsin.sdk.calling import call, call_async
from tocsin.sdk.context import running
from tocsin.sdk.depends import Shared
from tocsin.sdk.outcomes import Stopped, failed, is_ours, succeeded
from tocsin.sdk.worker.attempt import Attempt
from tocsin.sdk.worker.loop_watch import stack_of

Take = Callable[[Attempt], bool]
"""Asked before a function is called: see `Hand.take`."""
Ended = Callable[[Attempt, TaskSettlement], None]


class Runner(Protocol):
    """Runs attempts, and tells how they ended."""

    def start(self, attempt: Attempt) -> None:
        """Begin one; there is a place for it."""

    def close(self) -> None:
        """Nothing more is started."""


class AsyncRunner:
    """Runs coroutines on the worker's loop, from whichever thread they come."""

    def __init__(self, loop: asyncio.AbstractEventLoop, shared: Shared, take: Take, ended: Ended) -> None:
        self._loop = loop
        self._shared = shared
        self._take = take
        self._ended = ended
        self._tasks: set[asyncio.Task[None]] = set()

    def start(self, attempt: Attempt) -> None:
        """Make a task of it."""
        self._loop.call_soon_threadsafe(self._start, attempt)

    def close(self) -> None:
        """Nothing to let go of."""

    def _start(self, attempt: Attempt) -> None:
        task = self._loop.create_task(self._run(attempt), context=contextvars.copy_context())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        attempt.handled_by(
            lambda _: self._loop.call_soon_threadsafe(task.cancel), where=lambda: _stack_of_task(task)
        )

    async def _run(self, attempt: Attempt) -> None:
        if not self._take(attempt):
            return
        attempt.begin()
        try:
            attempt.context.check()  # it may have been asked to stop before it could be interrupted
            with running(attempt.context):
                arguments = attempt.task.signature.arguments(attempt.claim.payload)
                value = await call_async(attempt.task, arguments, attempt.context, self._shared)
        except asyncio.CancelledError:
            why = attempt.context.why or RuntimeError("its task was cancelled from inside")
            self._ended(attempt, settlement_of(attempt, why))
        except BaseException as error:  # noqa: BLE001 - whatever a task raises is its outcome
            self._ended(attempt, settlement_of(attempt, error))
        else:
            self._ended(attempt, succeeded(attempt.claim, attempt.task.kept(value)))


class ThreadRunner:
    """Threads that take their next attempt themselves. As many as may be needed, made when they are.

    One thread at a time is on its way to work, and it calls the next one if more waits. So tasks that are
    over before another thread gets the interpreter are run by one thread, without a switch between any two.
    For tasks that wait for something there are soon as many threads as tasks.
    """

    def __init__(self, shared: Shared, take: Take, ended: Ended) -> None:
        self._shared = shared
        self._take = take
        self._ended = ended
        self._waiting: deque[Attempt] = deque()
        self._idle = 0
        """Threads that sleep until they are called."""
        self._back_soon = 0
        """Threads that tell how an attempt ended, and look for the next one then."""
        self._called = False
        """Whether a thread is on its way to work."""
        self._closed = False
        self._lock = threading.Lock()
        self._call = threading.Condition(self._lock)

    def start(self, attempt: Attempt) -> None:
        """Have a thread run it."""
        with self._lock:
            self._waiting.append(attempt)
            self._call_one()

    def close(self) -> None:
        """Let threads end that have nothing to do."""
        with self._lock:
            self._closed = True
            self._call.notify_all()

    def _call_one(self) -> None:
        if self._called or len(self._waiting) <= self._back_soon:
            return
        self._called = True
        if self._idle:
            self._call.notify()
        else:
            threading.Thread(target=self._work, name="tocsin task", daemon=True).start()

    def _next(self, *, called: bool) -> Attempt | None:
        """What to run now. None: nothing more."""
        with self._lock:
            while True:
                if called:
                    self._called = False
                else:
                    self._back_soon -= 1
                if self._waiting:
                    attempt = self._waiting.popleft()
                    self._call_one()
                    return attempt
                if self._closed:
                    return None
                self._idle += 1
                self._call.wait()
                self._idle -= 1
                called = True

    def _work(self) -> None:
        attempt = self._next(called=True)
        while attempt is not None:
            settlement = self._run(attempt) if self._take(attempt) else None
            stray = attempt.taken and attempt.given_up  # another thread has its place
            if not stray:
                with self._lock:
                    self._back_soon += 1
            if settlement is not None:
                self._ended(attempt, settlement)
            if stray:
                return
            attempt = self._next(called=False)

    def _run(self, attempt: Attempt) -> TaskSettlement:
        boundary, thread_id, inside = threading.Lock(), threading.get_ident(), True

        def interrupt(why: Stopped) -> None:
            with boundary:  # only while the user's function is on the thread
                if inside:
                    kind = ctypes.py_object(type(why))
                    ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread_id), kind)

        attempt.begin()
        attempt.handled_by(interrupt, where=lambda: stack_of(thread_id))
        try:
            try:
                attempt.context.check()  # it may have been asked to stop before it could be interrupted
                with running(attempt.context):
                    arguments = attempt.task.signature.arguments(attempt.claim.payload)
                    value = call(attempt.task, arguments, attempt.context, self._shared)
            finally:
                with boundary:
                    inside = False
        except BaseException as error:  # noqa: BLE001 - whatever a task raises is its outcome
            why = attempt.context.why
            return settlement_of(attempt, why if isinstance(error, Stopped) and why else error)
        return succeeded(attempt.claim, attempt.task.kept(value))


def settlement_of(attempt: Attempt, error: BaseException) -> TaskSettlement:
    """How an attempt that raised is settled, by its task's own rules."""
    retry = attempt.task.options.retry
    return failed(attempt.claim, error, retry.never, retry.on)


def _stack_of_task(task: asyncio.Task[None]) -> str:
    """Where a coroutine waits: for whom, and for whom that one does, down to what is none any more."""
    frames: list[traceback.FrameSummary] = []
    waiting: Any = task.get_coro()
    while (frame := getattr(waiting, "cr_frame", None)) is not None:
        frames += traceback.extract_stack(frame)[-1:]
        waiting = waiting.cr_await
    theirs = [frame for frame in frames if not is_ours(frame.filename)]
    return "".join(traceback.format_list(theirs or frames))
