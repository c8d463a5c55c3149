"""An app: the tasks of one program, and where they are enqueued."""

import contextlib
import inspect
import os
import threading
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from typing import TYPE_CHECKING, Any, Final, ParamSpec, Protocol, TypeVar, overload

from tocsin.domain.errors import Refused
from tocsin.sdk.context import Context
from tocsin.sdk.options import Limit, Options, Retry, Run, Span
from tocsin.sdk.task import AsyncTask, NamedTask, Task

if TYPE_CHECKING:
    from tocsin.sdk.client import types
    from tocsin.sdk.client.sync import Client
    from tocsin.sdk.schedules import Planned, When
    from tocsin.sdk.worker.worker import Worker

P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T", bound=Task[..., Any] | NamedTask)
_OF_JOB: Final = frozenset(
    {"time_zone", "dst", "jitter", "starts_at", "ends_at", "overlap", "misfire", "description", "pause_after"}
)
Around = Callable[[Context], Iterator[None]]


class Decorator(Protocol):
    """What `App.task` with options returns."""

    @overload
    def __call__(self, function: Callable[P, Coroutine[Any, Any, R]], /) -> AsyncTask[P, R]: ...

    @overload
    def __call__(self, function: Callable[P, R], /) -> Task[P, R]: ...


class App:
    """A set of tasks. The address and the key are read at the first use, not at import: TOCSIN_URL and
    TOCSIN_API_KEY."""

    def __init__(self, name: str, *, url: str | None = None, api_key: str | None = None) -> None:
        self.name = name
        self.tasks: dict[str, Task[Any, Any]] = {}
        self.schedules: dict[str, Planned] = {}
        self.arounds: list[Callable[[Context], AbstractContextManager[None]]] = []
        self._lifespan: Callable[[App], AbstractAsyncContextManager[Any]] | None = None
        self._url = url
        self._api_key = api_key
        self._client: Client | None = None
        self._made_in: int | None = None
        self._lock = threading.Lock()

    @property
    def client(self) -> "Client":
        """The client that tasks are enqueued by. A forked process gets its own."""
        from tocsin.sdk.client.sync import Client  # noqa: PLC0415 - it takes as long as all the rest

        with self._lock:
            if self._client is None or self._made_in != os.getpid():
                self._client = Client(self._url, self._api_key)
                self._made_in = os.getpid()
            return self._client

    @overload
    def task(self, function: Callable[P, Coroutine[Any, Any, R]], /) -> AsyncTask[P, R]: ...

    @overload
    def task(self, function: Callable[P, R], /) -> Task[P, R]: ...

    @overload
    def task(
        self,
        /,
        *,
        name: str | None = None,
        run: Run | None = None,
        queue: str = "default",
        priority: int = 5,
        timeout: Span | None = None,
        retry: Retry | None = None,
        limit: Limit | None = None,
        start_within: Span | None = None,
        tags: tuple[str, ...] = (),
        unique: str | None = None,
        keep_result: bool = True,
    ) -> Decorator: ...

    def task(self, function: Callable[..., Any] | None = None, /, **options: Any) -> Any:
        """Make a function a task. Its name is the app's and its own, ``shop.send_receipt``: moving its file
        does not rename it."""
        if function is not None:
            return self._add(function, {})

        def decorate(decorated: Callable[..., Any]) -> Task[..., Any]:
            return self._add(decorated, dict(options))

        return decorate

    def task_named(self, name: str) -> NamedTask:
        """A task of another service, or in another language."""
        return NamedTask(self, name)

    @overload
    def schedule(
        self, when: "When", task: T, /, *, name: str | None = None, time_zone: str | None = None,
        dst: str | None = None, jitter: Span | None = None, starts_at: str | None = None,
        ends_at: str | None = None, overlap: str | None = None, misfire: Any = None,
        description: str | None = None, pause_after: int | None = None, **arguments: Any,
    ) -> T: ...  # fmt: skip

    @overload
    def schedule(
        self, when: "When", /, *, name: str | None = None, time_zone: str | None = None,
        dst: str | None = None, jitter: Span | None = None, starts_at: str | None = None,
        ends_at: str | None = None, overlap: str | None = None, misfire: Any = None,
        description: str | None = None, pause_after: int | None = None, **arguments: Any,
    ) -> Callable[[T], T]: ...  # fmt: skip

    def schedule(self, when: "When", task: Any = None, /, *, name: str | None = None, **given: Any) -> Any:
        """Have a task enqueued by a schedule: a cron expression, ``every 5m``, or what the API takes. What is
        no option is an argument of the call. Declared by ``tocsin tasks declare``; nothing is sent
        before."""

        def decorate(decorated: Any) -> Any:
            from tocsin.sdk.schedules import planned  # noqa: PLC0415 - most apps have none

            options = {option: given[option] for option in given.keys() & _OF_JOB}
            arguments = {argument: given[argument] for argument in given.keys() - _OF_JOB}
            added = planned(when, decorated, name, options, arguments)
            if added.name in self.schedules:
                raise Refused(f"the app {self.name} has a schedule {added.name} already", field="name")
            self.schedules[added.name] = added
            return decorated

        return decorate if task is None else decorate(task)

    def declare(self, revision: int | None = None, *, dry_run: bool = False) -> "types.Declared":
        """Make the recurring jobs of this app what its schedules say. Those that are declared no longer are
        cancelled. A lower revision than was declared before changes nothing; without one, missing jobs are
        created and differences are told."""
        whole = revision is not None
        return self.client.declarations.declare(
            self.name,
            jobs=[one.job for one in self.schedules.values()],  # type: ignore[misc]
            revision=revision,
            dry_run=dry_run,
            update=whole,
            prune=whole,
        )

    def around(self, function: Around) -> Around:
        """Have a generator function run around every attempt of this app, plain or asynchronous: up to its
        ``yield`` before the task, the rest after it. It sees what the task raises. The first one that was
        declared is the outermost."""
        if not inspect.isgeneratorfunction(function):
            raise TypeError(
                "what runs around a task is a generator function that yields once, and no coroutine"
            )
        self.arounds.append(contextlib.contextmanager(function))
        return function

    def lifespan(
        self, function: Callable[["App"], AsyncIterator[Any]]
    ) -> Callable[["App"], AsyncIterator[Any]]:
        """Have an asynchronous generator function run once per process that runs tasks. What it yields is
        ``current().state``."""
        if not inspect.isasyncgenfunction(function):
            raise TypeError("a lifespan is an async generator function that yields once")
        if self._lifespan is not None:
            raise Refused(f"the app {self.name} has a lifespan already", field="lifespan")
        self._lifespan = contextlib.asynccontextmanager(function)
        return function

    @property
    def queues(self) -> tuple[str, ...]:
        """The queues that its tasks and schedules name; and the one for calls that name none, such as those
        of other services."""
        named = {task.options.queue for task in self.tasks.values()}
        return tuple(sorted({"default"} | named | {one.job["queue"] for one in self.schedules.values()}))

    @property
    def has_lifespan(self) -> bool:
        """Whether something is to be opened before its tasks run."""
        return self._lifespan is not None

    def alive(self) -> AbstractAsyncContextManager[Any]:
        """The app's lifespan, to be entered by a process that runs its tasks."""
        return contextlib.nullcontext() if self._lifespan is None else self._lifespan(self)

    def worker(
        self,
        *,
        concurrency: int = 10,
        processes: int = 1,
        max_calls: int | None = None,
        max_memory: int | str | None = None,
        queues: tuple[str, ...] | None = None,
        name: str | None = None,
        revision: str | None = None,
        lease: str = "30s",
        grace: float = 25.0,
    ) -> "Worker":
        """A worker that runs this app's tasks while it is entered: ``async with app.worker():``. Without
        `queues` it serves those that the tasks themselves name. A child process that has had `max_calls`, or
        has more than `max_memory`, is replaced between two tasks."""
        from tocsin.sdk.worker.processes import Wear  # noqa: PLC0415 - those who only enqueue need none of it
        from tocsin.sdk.worker.worker import Worker  # noqa: PLC0415

        return Worker(
            self,
            concurrency=concurrency,
            processes=processes,
            wear=Wear.of(max_calls, max_memory),
            queues=queues,
            name=name,
            revision=revision,
            lease=lease,
            grace=grace,
        )

    def reach(self, url: str | None, api_key: str | None) -> None:
        """Use this address and key, as far as they are given, from now on."""
        with self._lock:
            self._url, self._api_key, self._client = url or self._url, api_key or self._api_key, None

    def place(self) -> tuple[str | None, str | None]:
        """Where the API is and with which key, as far as it was given."""
        return self._url, self._api_key

    def _add(self, function: Callable[..., Any], options: dict[str, Any]) -> Task[..., Any]:
        name = options.pop("name", None) or f"{self.name}.{function.__name__}"
        run, keep_result = options.pop("run", None), options.pop("keep_result", True)
        given = {option: value for option, value in options.items() if value is not None}
        if name in self.tasks:
            raise Refused(f"the app {self.name} has a task {name} already", field="name")
        kind = AsyncTask if inspect.iscoroutinefunction(function) else Task
        task: Task[..., Any] = kind(self, function, name, Options(**given), run, keep_result=keep_result)
        self.tasks[name] = task
        return task
