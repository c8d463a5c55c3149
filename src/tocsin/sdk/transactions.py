"""Enqueue in the caller's own transaction: what it wrote and what it enqueued commit together, or neither.
And end a task in its own transaction: what it wrote and its end commit together, or neither.

`enqueue_in` is given what the caller works with: a SQLAlchemy session or connection, a connection of psycopg
3 or 2, of asyncpg, or Django's. It sends one statement through it and makes the job's id itself. No driver is
imported that the caller has not imported already, and nothing is committed here.
"""

import importlib
import time
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final, ParamSpec, TypeVar, cast, overload
from uuid import UUID

import msgspec

from tocsin.domain.ids import job_text, new_job_id, parse_execution_text
from tocsin.domain.instant import SECOND, format_instant
from tocsin.sdk.context import current
from tocsin.sdk.handle import Handle
from tocsin.sdk.options import Options
from tocsin.sdk.outcomes import kept_result
from tocsin.sdk.statement import Statement, many, one, succeed
from tocsin.sdk.task import Call, NamedTask, Task

if TYPE_CHECKING:
    from tocsin.sdk.app import App
    from tocsin.sdk.client.sync import Client

P = ParamSpec("P")
R = TypeVar("R")
_ASYNC: Final = {
    ("sqlalchemy", "AsyncSession"), ("sqlalchemy", "AsyncConnection"), ("sqlalchemy", "async_scoped_session"),
    ("psycopg", "AsyncConnection"), ("asyncpg", "Connection"), ("asyncpg", "PoolConnectionProxy"),
}  # fmt: skip
_SYNC: Final = {
    ("sqlalchemy", "Session"), ("sqlalchemy", "Connection"), ("sqlalchemy", "scoped_session"),
    ("psycopg", "Connection"), ("psycopg2", "connection"), ("django", "BaseDatabaseWrapper"),
    ("django", "ConnectionProxy"),
}  # fmt: skip


@overload
def enqueue_in(connection: Any, task: Task[P, R], /, *args: P.args, **kwargs: P.kwargs) -> Handle[R]: ...


@overload
def enqueue_in(connection: Any, task: NamedTask, payload: Any = None, /) -> Handle[Any]: ...


def enqueue_in(
    connection: Any, task: Task[Any, Any] | NamedTask, /, *args: Any, **kwargs: Any
) -> Handle[Any]:
    """Enqueue a call in the transaction that `connection` is in. It is there if the commit is."""
    statement = _one(task, args, kwargs)
    return _handle(task, _run(connection, statement))


@overload
async def enqueue_in_async(
    connection: Any, task: Task[P, R], /, *args: P.args, **kwargs: P.kwargs
) -> Handle[R]: ...


@overload
async def enqueue_in_async(connection: Any, task: NamedTask, payload: Any = None, /) -> Handle[Any]: ...


async def enqueue_in_async(
    connection: Any, task: Task[Any, Any] | NamedTask, /, *args: Any, **kwargs: Any
) -> Handle[Any]:
    """`enqueue_in` for connections that are awaited."""
    statement = _one(task, args, kwargs)
    return _handle(task, await _run_async(connection, statement))


def enqueue_many_in(connection: Any, task: Task[P, R], calls: Iterable[Call]) -> list[Handle[R]]:
    """Enqueue many calls, at most 10,000, by one statement in the transaction that `connection` is in."""
    statement = _many(task, calls)
    return [_handle(task, text) for text in msgspec.json.decode(_run(connection, statement))]


async def enqueue_many_in_async(connection: Any, task: Task[P, R], calls: Iterable[Call]) -> list[Handle[R]]:
    """`enqueue_many_in` for connections that are awaited."""
    statement = _many(task, calls)
    return [_handle(task, text) for text in msgspec.json.decode(await _run_async(connection, statement))]


def succeed_in(connection: Any, result: Any = None) -> None:
    """Have the task that runs here succeed with this result if the transaction that `connection` is in
    commits. The commit fails when the attempt's claim is lost: then another attempt runs, or has. So what the
    task does in that transaction happens exactly once."""
    _run(connection, _end(result))


async def succeed_in_async(connection: Any, result: Any = None) -> None:
    """`succeed_in` for connections that are awaited."""
    await _run_async(connection, _end(result))


def _end(result: Any) -> Statement:
    context = current()
    key = parse_execution_text(context.execution_id)
    return succeed(key.job_id, format_instant(key.fire_at), context.token, kept_result(result))


def _one(task: Task[Any, Any] | NamedTask, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Statement:
    if isinstance(task, NamedTask):
        if len(args) > 1 or kwargs:
            raise TypeError(f"{task.name} is known by its name alone: give its payload as one value")
        return one(task.name, Options(), args[0] if args else None, new_id())
    return one(task.name, task.options, task.signature.payload(args, kwargs), new_id())


def _many(task: Task[Any, Any], calls: Iterable[Call]) -> Statement:
    payloads = [call.payload for call in calls]
    return many(task.name, task.options, payloads, [new_id() for _ in payloads])


def new_id() -> UUID:
    """An id for a job, made where it is enqueued."""
    return new_job_id(round(time.time() * SECOND))


def _handle(task: Task[Any, Any] | NamedTask, job_id: str) -> Handle[Any]:
    signature = task.signature if isinstance(task, Task) else None
    return Handle(cast("Client", _ClientOf(task.app)), job_text(UUID(job_id)), None, signature)


class _ClientOf:
    """An app's client when it is asked for something: enqueueing in a transaction needs no API."""

    def __init__(self, app: "App") -> None:
        self._app = app

    def __getattr__(self, name: str) -> Any:
        return getattr(self._app.client, name)


def _kind(connection: Any, known: set[tuple[str, str]]) -> str | None:
    """Whose connection it is, if it is one of `known`."""
    for base in type(connection).__mro__:
        library = base.__module__.partition(".")[0]
        if (library, base.__name__) in known:
            return library
    return None


def connection_kind(connection: Any) -> str | None:
    """Whose connection that blocks it is, of those that are known."""
    return _kind(connection, _SYNC)


def _run(connection: Any, statement: Statement) -> str:
    """The answer to a statement, through a connection that blocks."""
    if isinstance(connection, str):
        connection = importlib.import_module("django.db").connections[connection]
    match _kind(connection, _SYNC):
        case "sqlalchemy":
            return str(connection.execute(_sqlalchemy(statement), statement.values).scalar_one())
        case "psycopg":
            rows = importlib.import_module("psycopg.rows")
            with connection.cursor(row_factory=rows.tuple_row) as cursor:
                return str(cursor.execute(*statement.in_order()).fetchone()[0])
        case "psycopg2":
            cursors = importlib.import_module("psycopg2.extensions")
            with connection.cursor(cursor_factory=cursors.cursor) as cursor:
                cursor.execute(*statement.in_order())
                return str(cursor.fetchone()[0])
        case "django":
            with connection.cursor() as cursor:
                cursor.execute(*statement.in_order())
                return str(cursor.fetchone()[0])
    raise _not_one(connection, _ASYNC, "enqueue_in_async")


async def _run_async(connection: Any, statement: Statement) -> str:
    """The answer to a statement, through a connection that is awaited."""
    match _kind(connection, _ASYNC):
        case "sqlalchemy":
            answer = await connection.execute(_sqlalchemy(statement), statement.values)
            return str(answer.scalar_one())
        case "psycopg":
            rows = importlib.import_module("psycopg.rows")
            async with connection.cursor(row_factory=rows.tuple_row) as cursor:
                await cursor.execute(*statement.in_order())
                return str((await cursor.fetchone())[0])
        case "asyncpg":
            text = statement.written(lambda _, number: f"${number}")
            return str(await connection.fetchval(text, *statement.values.values()))
    raise _not_one(connection, _SYNC, "enqueue_in")


def _sqlalchemy(statement: Statement) -> Any:
    return importlib.import_module("sqlalchemy").text(statement.written(lambda name, _: f":{name}"))


def _not_one(connection: Any, others: set[tuple[str, str]], function: str) -> TypeError:
    name = f"{type(connection).__module__}.{type(connection).__qualname__}"
    if _kind(connection, others) is not None:
        return TypeError(f"{name} is for {function}")
    return TypeError(f"{name} is no connection of SQLAlchemy, psycopg, asyncpg or Django")
