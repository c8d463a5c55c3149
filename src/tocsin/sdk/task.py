"""A task: a function with a name, that can be called here and now, or enqueued."""

import asyncio
import inspect
from collections.abc import Callable, Coroutine, Iterable, Mapping
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, Generic, ParamSpec, Self, TypeVar

import msgspec

from tocsin.domain.errors import Refused
from tocsin.domain.ids import ExecutionKey, execution_text, parse_job_text
from tocsin.domain.instant import parse_instant
from tocsin.domain.task_target import check_task_name
from tocsin.sdk.calling import plain_call
from tocsin.sdk.handle import Handle
from tocsin.sdk.options import Limit, Options, Retry, Run, Span
from tocsin.sdk.signature import Signature

if TYPE_CHECKING:
    from tocsin.sdk.app import App

P = ParamSpec("P")
R = TypeVar("R")
_BATCH: Final = 10_000


class Call(msgspec.Struct, frozen=True):
    """A checked payload on its way to `enqueue_many`."""

    payload: dict[str, Any]


class Task(Generic[P, R]):
    """A function known by a name."""

    def __init__(
        self,
        app: "App",
        function: Callable[P, Any],
        name: str,
        options: Options,
        run: Run | None,
        *,
        keep_result: bool = True,
    ) -> None:
        check_task_name(name, "name")
        options.check()
        self.app = app
        self.name = name
        self.function = function
        self.options = options
        self.keep_result = keep_result
        self.is_async = inspect.iscoroutinefunction(function)
        self.run: Run = run or ("async" if self.is_async else "thread")
        if (self.run == "async") != self.is_async:
            kind = "an async function" if self.is_async else "a plain function"
            raise TypeError(f"task {name}: {kind} does not run as {self.run!r}")
        self.signature = Signature(function, name)
        for dependency in self.signature.dependencies.values():
            if (
                dependency.is_async
                and not self.is_async
                and (dependency.scope == "call" or self.run == "process")
            ):
                raise TypeError(
                    f'task {name}: a plain function cannot wait for {dependency}; make it scope="worker", or the task async'
                )
        self.__doc__ = function.__doc__
        self.__name__ = name
        self.__wrapped__ = function

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """A plain call, here and now. Dependencies that are not given are made for it."""
        if not self.signature.dependencies.keys() - kwargs.keys():
            here: R = self.function(*args, **kwargs)
            return here
        made: R = plain_call(self.function, self.signature.missing(args, kwargs), args, kwargs)
        return made

    def __repr__(self) -> str:
        return f"<Task {self.name}>"

    def enqueue(self, *args: P.args, **kwargs: P.kwargs) -> Handle[R]:
        """Have it run by a worker. It is on disk when this returns."""
        return self._enqueue(self.options, self.signature.payload(args, kwargs))

    async def enqueue_async(self, *args: P.args, **kwargs: P.kwargs) -> Handle[R]:
        """`enqueue`, without blocking the event loop."""
        payload = self.signature.payload(args, kwargs)
        return await asyncio.to_thread(self._enqueue, self.options, payload)

    def args(self, *args: P.args, **kwargs: P.kwargs) -> Call:
        """The arguments of one call, checked, for `enqueue_many`."""
        return Call(self.signature.payload(args, kwargs))

    def enqueue_many(self, calls: Iterable[Call]) -> list[Handle[R]]:
        """Enqueue many calls, 10,000 in a request. If one is refused, none of its request is written."""
        handles: list[Handle[R]] = []
        left = iter(calls)
        while batch := list(islice(left, _BATCH)):
            handles += self._enqueue_batch(batch, len(handles) // _BATCH)
        return handles

    def having(
        self,
        *,
        at: str | None = None,
        delay: Span | None = None,
        queue: str | None = None,
        priority: int | None = None,
        timeout: Span | None = None,
        retry: Retry | None = None,
        limit: Limit | None = None,
        start_within: Span | None = None,
        tags: Iterable[str] | None = None,
        idempotency_key: str | None = None,
        unique: str | None = None,
        debounce: str | None = None,
        max_wait: Span | None = None,
        trace: str | None = None,
    ) -> Self:
        """The same task, enqueued otherwise: later, elsewhere, under other policies, once per
        `idempotency_key`, or as the only live call of this task under a `unique` or `debounce` key. `trace`
        is a ``traceparent``, where OpenTelemetry has none to offer."""
        given: Mapping[str, Any] = {
            "at": at, "delay": delay, "queue": queue, "priority": priority, "timeout": timeout, "retry": retry,
            "limit": limit, "start_within": start_within, "tags": None if tags is None else tuple(tags),
            "idempotency_key": idempotency_key, "unique": unique, "debounce": debounce, "max_wait": max_wait,
            "trace": trace,
        }  # fmt: skip
        changed = {name: value for name, value in given.items() if value is not None}
        options = msgspec.structs.replace(self.options, **changed)
        run, keep_result = self.run, self.keep_result
        return type(self)(self.app, self.function, self.name, options, run, keep_result=keep_result)

    def kept(self, value: R) -> R | None:
        """What is kept of what it returned."""
        return value if self.keep_result else None

    def _body(self, options: Options, payload: dict[str, Any]) -> dict[str, Any]:
        return options.job(_target(self.name, payload, options), payload)

    def _enqueue(self, options: Options, payload: dict[str, Any]) -> Handle[R]:
        client = self.app.client
        job = client.jobs.create(**self._body(options, payload), idempotency_key=options.idempotency_key)
        fire_at = job["next_fire_at"]  # null if it has run by now: a repeated creation of what is over
        execution = None
        if fire_at is not None:
            key = ExecutionKey(parse_job_text(job["id"]), parse_instant(fire_at, "next_fire_at"))
            execution = execution_text(key)
        return Handle(client, job["id"], execution, self.signature, job.get("outcome"))

    def _enqueue_batch(self, batch: list[Call], number: int) -> list[Handle[R]]:
        if self.options.unique is not None or self.options.debounce is not None:
            raise Refused("a unique key needs a call of its own", field="unique")
        client = self.app.client
        bodies = [self._body(self.options, call.payload) for call in batch]
        key = self.options.idempotency_key
        if key is not None and number > 0:  # each request is another, and so is its key
            key = f"{key}:{number}"
        made = client.jobs.create_many(bodies, atomic=True, idempotency_key=key)
        return [Handle(client, str(item["id"]), None, self.signature) for item in made["items"]]


class AsyncTask(Task[P, R]):
    """An `async def`: a plain call of it is awaited, and its result is what it returns then."""

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> Coroutine[Any, Any, R]:  # type: ignore[override]
        """A plain call, here and now, to be awaited."""
        called: Any = super().__call__(*args, **kwargs)
        awaited: Coroutine[Any, Any, R] = called
        return awaited


class NamedTask:
    """A task of another service, or in another language: known by its name alone."""

    def __init__(self, app: "App", name: str) -> None:
        check_task_name(name, "name")
        self.app = app
        self.name = name

    def enqueue_json(self, payload: Any = None, **options: Any) -> Handle[Any]:
        """Have it run with this payload; options as for `Task.having`."""
        chosen = Options(**options)
        names = payload if isinstance(payload, dict) else {}
        body = chosen.job(_target(self.name, payload, chosen), names)
        job = self.app.client.jobs.create(**body, idempotency_key=chosen.idempotency_key)
        return Handle(self.app.client, job["id"], None, None, job.get("outcome"))


def _target(task: str, payload: Any, options: Options) -> dict[str, Any]:
    target = {"kind": "task", "task": task, "payload": payload}
    trace = options.asked_by
    return target if trace is None else target | {"trace": trace}
