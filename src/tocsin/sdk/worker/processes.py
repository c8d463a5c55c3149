"""Child processes that run tasks: for work that needs a core of its own, or that must be stoppable.

A child runs one task at a time and talks over a pipe. It is asked to end by SIGTERM, which raises `Stopped`
in the task, and killed when it does not: a timeout always ends it. A child that died is replaced, and its
attempt failed. When the worker dies its children read the end of their pipes, and end. Each child has the
app's lifespan, and whatever lives as long as the worker, of its own.

A child that is worn out, by calls or by memory, is replaced between two attempts. Code that leaks memory, in
the app or in a library that it uses, cannot do so for ever.
"""

import asyncio
import contextlib
import importlib
import multiprocessing
import queue
import resource
import signal
import sys
import threading
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Self

import msgspec

from tocsin.domain.protocol import LogLine, Progress, TaskClaim, TaskSettlement
from tocsin.domain.script_target import size_of
from tocsin.sdk.calling import call
from tocsin.sdk.context import Context, running
from tocsin.sdk.depends import Shared
from tocsin.sdk.outcomes import ChildDied, Stopped, failed, succeeded
from tocsin.sdk.worker.attempt import GRACE, Attempt
from tocsin.sdk.worker.runners import Ended, Take, settlement_of

if TYPE_CHECKING:
    from tocsin.sdk.app import App

_BEGUN, _LINE, _PROGRESS, _MEMORY, _ENDED = "begun", "line", "progress", "memory", "ended"
MIB: Final = 1024 * 1024
_KINDS: Final[dict[str, Any]] = {_LINE: LogLine, _PROGRESS: Progress, _ENDED: TaskSettlement}


class Wear(msgspec.Struct, frozen=True):
    """When a child is replaced: after `max_calls` calls, or once it has more bytes of memory. None: never."""

    max_calls: int | None = None
    max_memory: int | None = None

    @classmethod
    def of(cls, max_calls: int | None, max_memory: int | str | None) -> Self:
        """As options say it: a size may be written."""
        return cls(max_calls, None if max_memory is None else size_of(max_memory, "max_memory"))

    def reached(self, calls: int, memory: int) -> bool:
        """Whether a child with these calls behind it, and this memory, is worn out."""
        return (self.max_calls is not None and calls >= self.max_calls) or (
            self.max_memory is not None and memory > self.max_memory
        )


class ProcessRunner:
    """A fixed number of children, each with a thread that hands it attempts."""

    def __init__(self, children: int, take: Take, ended: Ended, wear: Wear) -> None:
        self._wear = wear
        self._take = take
        self._ended = ended
        self._waiting: queue.SimpleQueue[Attempt | None] = queue.SimpleQueue()
        self._children = children
        for number in range(children):
            threading.Thread(target=self._keep_child, name=f"tocsin child {number}", daemon=True).start()

    def start(self, attempt: Attempt) -> None:
        """Hand it to the next child that is idle."""
        self._waiting.put(attempt)

    def close(self) -> None:
        """Let idle children end."""
        for _ in range(self._children):
            self._waiting.put(None)

    def _keep_child(self) -> None:
        child: _Child | None = _Child(
            self._wear
        )  # ahead of the first attempt: a process takes a while to come up
        while (attempt := self._waiting.get()) is not None:
            if not self._take(attempt):
                continue
            if child is None or not child.process.is_alive():
                child = _Child(self._wear)
            settlement = self._run(child, attempt)
            if not child.process.is_alive():
                child = None
            self._ended(attempt, settlement)
            if child is not None and child.worn_out:
                child.close()
                child = _Child(self._wear)
        if child is not None:
            child.close()

    def _run(self, child: "_Child", attempt: Attempt) -> TaskSettlement:
        attempt.handled_by(lambda _: child.process.terminate(), kill=child.process.kill)
        if attempt.context.why is not None:  # it was asked to stop before it could be interrupted
            return settlement_of(attempt, attempt.context.why)
        try:
            settlement = child.run(attempt)
        except (EOFError, OSError):
            child.process.kill()  # its pipe has ended: until it is gone, it would be given the next attempt
            child.process.join()
            error = ChildDied(f"the process that ran it ended with {child.process.exitcode}")
            settlement = settlement_of(attempt, attempt.context.why or error)
        if attempt.context.why is not None and settlement.verdict != "succeeded":
            return settlement_of(attempt, attempt.context.why)
        return settlement


class _Child:
    """One child process, as its worker sees it."""

    def __init__(self, wear: Wear) -> None:
        self._wear = wear
        context = multiprocessing.get_context("spawn")
        self._pipe, theirs = context.Pipe()
        self.process: BaseProcess = context.Process(
            target=_live, args=(theirs, wear.max_memory is not None), daemon=True
        )
        self.process.start()
        theirs.close()
        self._calls = 0
        self._memory = 0
        """Bytes, as it last told."""

    @property
    def worn_out(self) -> bool:
        """Whether another is to take its place."""
        return self._wear.reached(self._calls, self._memory)

    def run(self, attempt: Attempt) -> TaskSettlement:
        """Have one attempt made. Its time begins when its function does. What it says meanwhile is kept."""
        function = attempt.task.function
        claim = msgspec.json.encode(attempt.claim)
        self._pipe.send((claim, function.__module__, function.__qualname__))
        self._calls += 1
        while True:
            kind, text = self._pipe.recv()
            if kind == _BEGUN:
                attempt.begin()
                continue
            if kind == _MEMORY:
                self._memory = text
                continue
            said = msgspec.json.decode(text, type=_KINDS[kind])
            if kind == _ENDED:
                settlement: TaskSettlement = said
                return settlement
            attempt.keep(said)

    def close(self) -> None:
        """Let it end: it has a while for its lifespan, and is killed if that is not enough."""
        self._pipe.close()
        self.process.join(GRACE)
        self.process.kill()


def _live(pipe: "Connection[Any, Any]", tells_memory: bool) -> None:  # noqa: FBT001 - arguments of a process are a tuple
    """The life of a child: run what comes, until the pipe ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # a terminal sends it to all; the worker decides
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    with asyncio.Runner() as loop:
        home = _Home(loop)
        while True:
            try:
                claim, module, name = pipe.recv()
            except EOFError:
                loop.run(home.leave())
                return
            settlement = _run_one(pipe, home, msgspec.json.decode(claim, type=TaskClaim), module, name)
            if tells_memory:
                pipe.send((_MEMORY, _memory()))
            pipe.send((_ENDED, msgspec.json.encode(settlement)))


class _Home:
    """What lives as long as a child: made when its app's first task comes."""

    def __init__(self, loop: asyncio.Runner) -> None:
        self._loop = loop
        self._living = contextlib.AsyncExitStack()
        self._entered = False
        self.shared = Shared()
        self.state: Any = None

    def enter(self, app: "App") -> None:
        """Enter the app's lifespan, unless that was done. It is tried again if it failed."""
        if not self._entered:
            self._loop.run(self._enter(app))
            self._entered = True

    async def _enter(self, app: "App") -> None:
        here = [task for task in app.tasks.values() if task.run == "process"]
        try:
            self.state = await self._living.enter_async_context(app.alive())
            for task in here:
                await self.shared.open(self._living, task.signature.dependencies.values())
        except BaseException:
            await self._living.aclose()
            raise

    async def leave(self) -> None:
        """Let go of it."""
        await self._living.aclose()


def _run_one(
    pipe: "Connection[Any, Any]", home: _Home, claim: TaskClaim, module: str, name: str
) -> TaskSettlement:
    def keep(what: LogLine | Progress) -> None:
        pipe.send((_PROGRESS if isinstance(what, Progress) else _LINE, msgspec.json.encode(what)))

    def stop(*_: Any) -> None:
        context.stop(Stopped("the attempt was stopped"))
        raise Stopped("the attempt was stopped")

    never: Any = ()
    on: Any = ()
    try:
        task = _task_of(module, name)
        never, on = task.options.retry.never, task.options.retry.on
        home.enter(task.app)
        context = Context(claim, keep, home.state)
        arguments = task.signature.arguments(claim.payload)
        pipe.send((_BEGUN, b""))
        signal.signal(signal.SIGTERM, stop)
        try:
            with running(context):
                value = call(task, arguments, context, home.shared)
        finally:
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
        return succeeded(claim, task.kept(value))
    except BaseException as error:  # noqa: BLE001 - whatever a task raises is its outcome
        return failed(claim, error, never, on)


def _memory() -> int:
    """The bytes of memory that this process has; where that cannot be seen, the most that it had."""
    try:
        pages = int(Path("/proc/self/statm").read_text().split()[1])
    except OSError:  # no Linux. There the most is no answer: a child has that of the worker that started it
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return peak if sys.platform == "darwin" else peak * 1024
    return pages * resource.getpagesize()


def _task_of(module: str, name: str) -> Any:
    """The task whose function has this name in this module: the decorated one is what the name stands for."""
    found: Any = sys.modules["__main__"] if module == "__main__" else importlib.import_module(module)
    for part in name.split("."):
        found = getattr(found, part)
    return found
