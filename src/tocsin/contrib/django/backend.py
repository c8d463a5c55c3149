"""Django's tasks, enqueued in Tocsin.

A Django task is a task of one app, by the path of its function, with ``args`` and ``kwargs`` as its payload.
Its result's id is the job's. With the option `database` it is enqueued by SQL in the current transaction of
that connection; without, over HTTP, at once.
"""

import functools
import inspect
import re
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Final

from django.core import checks
from django.db import close_old_connections
from django.utils import timezone
from django.utils.module_loading import import_string

from tocsin.contrib.django.framework import (
    BaseTaskBackend,
    TaskContext,
    TaskError,
    TaskResult,
    TaskResultDoesNotExist,
    TaskResultStatus,
    task_enqueued,
    task_finished,
    task_started,
)
from tocsin.domain.errors import NotFound
from tocsin.domain.ids import job_text, parse_execution_text
from tocsin.domain.lifecycle import FINAL
from tocsin.sdk.app import App
from tocsin.sdk.context import Context, current
from tocsin.sdk.options import Retry
from tocsin.sdk.outcomes import TaskEnd
from tocsin.sdk.signature import to_plain
from tocsin.sdk.task import Task
from tocsin.sdk.transactions import enqueue_in

_DEFAULT: Final = 5
"""Tocsin's priority of a task that has none of its own. Django's go from -100 to 100, where 100 is the most
urgent; Tocsin's from 0, the most urgent, to 9."""
_STATUS: Final = {"running": TaskResultStatus.RUNNING, "succeeded": TaskResultStatus.SUCCESSFUL}
_RAISED: Final = re.compile(r"^([A-Za-z_][\w.]*)(?::|$)")
_OPTIONS: Final = frozenset({"database", "url", "api_key", "max_attempts", "timeout", "app"})


@functools.lru_cache(maxsize=64)
def app_of(name: str, url: str | None, api_key: str | None) -> App:
    """The app of a back end: the same in all threads, while Django has a back end for each."""
    return App(name, url=url, api_key=api_key)


class Backend(BaseTaskBackend):  # type: ignore[misc]
    """See the module's text."""

    supports_defer = True
    supports_async_task = True
    supports_get_result = True
    supports_priority = True

    def __init__(self, alias: str, params: Mapping[str, Any]) -> None:
        super().__init__(alias, params)
        self._database: str | None = self.options.get("database")
        self._timeout = self.options.get("timeout")
        self._retry = Retry(max_attempts=self.options.get("max_attempts", 1))

    @property
    def app(self) -> App:
        """Its tasks are those of Django that were imported."""
        options = self.options
        name = options.get("app", f"django.{self.alias}")
        return app_of(name, options.get("url"), options.get("api_key"))

    def validate_task(self, task: Any) -> None:
        """Take a task on. Django calls this when a task is defined, which is how a worker knows it."""
        super().validate_task(task)
        self._known(task)

    def enqueue(self, task: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        """Have a task run by a worker."""
        self.validate_task(task)
        result = TaskResult(
            task=task, id="", status=TaskResultStatus.READY, enqueued_at=timezone.now(), started_at=None,
            finished_at=None, last_attempted_at=None, args=list(args), kwargs=dict(kwargs), backend=self.alias,
            errors=[], worker_ids=[],
        )  # fmt: skip
        wanted = self._known(task).having(
            queue=task.queue_name,
            priority=_priority(task.priority),
            at=None if task.run_after is None else _written(task.run_after),
        )
        if self._database is None:
            handle = wanted.enqueue(result.args, result.kwargs)
        else:
            handle = enqueue_in(self._database, wanted, result.args, result.kwargs)
        object.__setattr__(result, "id", handle.job_id)
        task_enqueued.send(type(self), task_result=result)
        return result

    def get_result(self, result_id: str) -> Any:
        """What became of a task. Raises `TaskResultDoesNotExist`."""
        client = self.app.client
        try:
            job: Any = client.jobs.get(result_id)
            [listed] = client.jobs.executions(result_id, limit=1)
            execution = client.executions.get(listed["id"])
            task = import_string(job["target"]["task"])
        except (NotFound, ImportError, KeyError, ValueError) as error:
            raise TaskResultDoesNotExist(result_id) from error
        return _result(job, execution, task.using(backend=self.alias))

    def check(self, **_: Any) -> list[Any]:
        """What is wrong with its settings."""
        unknown = sorted(self.options.keys() - _OPTIONS)
        if not unknown:
            return []
        words = f"OPTIONS of the task back end {self.alias!r} has no {', '.join(unknown)}"
        return [checks.Error(words, hint=f"It has {', '.join(sorted(_OPTIONS))}.", id="tocsin.E001")]

    def _known(self, task: Any) -> Task[[list[Any], dict[str, Any]], Any]:
        """A Django task as one of Tocsin's."""
        name = task.module_path
        if name not in self.app.tasks:
            run = (
                _running_async(task, self) if inspect.iscoroutinefunction(task.func) else _running(task, self)
            )
            self.app.task(name=name, retry=self._retry, timeout=self._timeout)(run)
        return self.app.tasks[name]


def _result(job: Mapping[str, Any], execution: Any, task: Any) -> Any:
    """What the API tells, as Django has it."""
    attempts, state = execution["attempts"], execution["state"]
    failed = state in FINAL and state != "succeeded"
    result = TaskResult(
        task=task,
        id=job["id"],
        status=TaskResultStatus.FAILED if failed else _STATUS.get(state, TaskResultStatus.READY),
        enqueued_at=_read(job["created_at"]),
        started_at=_read(attempts[0]["started_at"] if attempts else None),
        finished_at=_read(execution["finished_at"]),
        last_attempted_at=_read(attempts[-1]["started_at"] if attempts else None),
        args=job["target"]["payload"]["args"],
        kwargs=job["target"]["payload"]["kwargs"],
        backend=task.backend,
        errors=[_error(attempt) for attempt in attempts if attempt["error"]],
        worker_ids=[str(attempt["worker"]) for attempt in attempts],
    )
    if state == "succeeded":
        object.__setattr__(result, "_return_value", attempts[-1]["result"])
    return result


def _running(task: Any, backend: Backend) -> Any:
    """What a worker calls for a plain function. Connections that the database has closed are not used."""

    def run(args: list[Any], kwargs: dict[str, Any]) -> Any:
        close_old_connections()
        result = _begun(task, backend, args, kwargs)
        try:
            value = to_plain(task.func(*_given(task, result), **kwargs))
        except BaseException as error:
            _ended(backend, result, error)
            raise
        else:
            _ended(backend, result, None, value)
            return value
        finally:
            close_old_connections()

    return run


def _running_async(task: Any, backend: Backend) -> Any:
    """The same for a coroutine function."""

    async def run(args: list[Any], kwargs: dict[str, Any]) -> Any:
        result = _begun(task, backend, args, kwargs)
        try:
            value = to_plain(await task.func(*_given(task, result), **kwargs))
        except BaseException as error:
            _ended(backend, result, error)
            raise
        _ended(backend, result, None, value)
        return value

    return run


def _begun(task: Any, backend: Backend, args: list[Any], kwargs: dict[str, Any]) -> Any:
    """The result of an attempt that begins; those who listen to Django's signal are told."""
    context, now = current(), timezone.now()
    result = TaskResult(
        task=task, id=_job_of(context), status=TaskResultStatus.RUNNING, enqueued_at=context.fire_at,
        started_at=now, finished_at=None, last_attempted_at=now, args=args, kwargs=kwargs, backend=backend.alias,
        errors=[], worker_ids=[backend.alias] * context.attempt,
    )  # fmt: skip
    task_started.send(sender=type(backend), task_result=result)
    return result


def _ended(backend: Backend, result: Any, error: BaseException | None, value: Any = None) -> None:
    """Tell those who listen that an attempt is over. One that asked to be postponed is not."""
    if isinstance(error, TaskEnd):
        return
    status = TaskResultStatus.SUCCESSFUL if error is None else TaskResultStatus.FAILED
    object.__setattr__(result, "status", status)
    object.__setattr__(result, "finished_at", timezone.now())
    object.__setattr__(result, "_return_value", value)
    task_finished.send(type(backend), task_result=result)


def _given(task: Any, result: Any) -> list[Any]:
    """The positional arguments of a call."""
    return [TaskContext(task_result=result), *result.args] if task.takes_context else list(result.args)


def _job_of(context: Context) -> str:
    return job_text(parse_execution_text(context.execution_id).job_id)


def _priority(written: int) -> int:
    return min(9, max(0, _DEFAULT - round(written * _DEFAULT / 100)))


def _written(moment: datetime) -> str:
    aware = moment if timezone.is_aware(moment) else timezone.make_aware(moment)
    return aware.isoformat()


def _read(text: str | None) -> datetime | None:
    return None if text is None else datetime.fromisoformat(text)


def _error(attempt: Mapping[str, Any]) -> Any:
    """An attempt's error as Django has it: the path of its class is in the last lines of the trace."""
    trace = (attempt["detail"] or {}).get("trace") or attempt["error"]
    path = "builtins.Exception"
    for line in reversed(trace.splitlines()):
        if found := _RAISED.match(line):
            path = found[1] if "." in found[1] else f"builtins.{found[1]}"
            break
    return TaskError(exception_class_path=path, traceback=trace)
