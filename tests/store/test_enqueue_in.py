"""`enqueue_in` through each library that applications have: the job is there if their commit is."""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import urlsplit, urlunsplit

import asyncpg
import django
import psycopg
import psycopg2
import psycopg2.extras
import pytest
import sqlalchemy
from django.conf import settings
from django.db import connections, transaction
from psycopg.conninfo import conninfo_to_dict
from psycopg.rows import dict_row
from sqlalchemy import orm
from sqlalchemy.ext import asyncio as sqlalchemy_asyncio

from tests.support.logins import Bound, bound
from tocsin import App, Handle, Limit, enqueue_in, enqueue_in_async, enqueue_many_in, enqueue_many_in_async
from tocsin.domain.errors import Refused
from tocsin.domain.ids import parse_job_text

__all__ = ["bound"]
app = App("shop")
CUSTOMER = "é\\'%s :at {id} $1"
"""Every character that a driver might take for its own."""


@app.task(queue="mail", limit=Limit("customer:{customer}", max_parallel=2))
def send(order: int, customer: str) -> None:
    """With a limit that names a parameter."""


@app.task
def plain(order: int) -> None:
    """Without a limit, so that many go in one statement."""


def _sqlalchemy_url(url: str, driver: str) -> str:
    return urlunsplit(urlsplit(url)._replace(scheme=f"postgresql+{driver}"))


@contextmanager
def _sqlalchemy(bound: Bound, work: Callable[[Any], None]) -> Iterator[None]:
    engine = sqlalchemy.create_engine(_sqlalchemy_url(bound.url, "psycopg"), poolclass=sqlalchemy.NullPool)
    with orm.Session(engine) as session, session.begin():
        work(session)
        yield


@contextmanager
def _sqlalchemy_connection(bound: Bound, work: Callable[[Any], None]) -> Iterator[None]:
    engine = sqlalchemy.create_engine(_sqlalchemy_url(bound.url, "psycopg2"), poolclass=sqlalchemy.NullPool)
    with engine.begin() as connection:
        work(connection)
        yield


@contextmanager
def _psycopg(bound: Bound, work: Callable[[Any], None]) -> Iterator[None]:
    with psycopg.connect(bound.url, row_factory=dict_row) as connection:
        work(connection)
        yield


@contextmanager
def _psycopg2(bound: Bound, work: Callable[[Any], None]) -> Iterator[None]:
    connection = psycopg2.connect(bound.url, cursor_factory=psycopg2.extras.RealDictCursor)
    try:
        with connection:
            work(connection)
            yield
    finally:
        connection.close()


@contextmanager
def _django(bound: Bound, work: Callable[[Any], None]) -> Iterator[None]:
    given = conninfo_to_dict(bound.url)
    database = {
        "ENGINE": "django.db.backends.postgresql", "NAME": given["dbname"], "USER": given["user"],
        "HOST": given["host"], "PORT": given.get("port", ""),
    }  # fmt: skip
    if not settings.configured:
        settings.configure(DATABASES={"default": database})
        django.setup()
    connections["default"].settings_dict.update(database)
    try:
        with transaction.atomic():
            work(connections["default"])
            yield
    finally:
        connections.close_all()


@contextmanager
def _django_alias(bound: Bound, work: Callable[[Any], None]) -> Iterator[None]:
    with _django(bound, lambda _: work("default")):
        yield


BLOCKING = [_sqlalchemy, _sqlalchemy_connection, _psycopg, _psycopg2, _django, _django_alias]


class Done(Exception):
    """Rolls a transaction back."""


def _ids(owner_url: str) -> set[Any]:
    with psycopg.connect(owner_url) as owner:
        return {row[0] for row in owner.execute("SELECT id FROM tocsin.jobs")}


def _clear(bound: Bound) -> None:
    with psycopg.connect(bound.owner_url) as owner:
        owner.execute("TRUNCATE tocsin.executions, tocsin.jobs")


@pytest.mark.parametrize("library", BLOCKING, ids=lambda one: one.__name__.strip("_"))
def test_a_blocking_connection_takes_jobs_into_its_transaction(bound: Bound, library: Any) -> None:
    _clear(bound)
    handles: list[Handle[Any]] = []

    def work(connection: Any) -> None:
        later = send.having(delay="48h", priority=2, tags=["a"])
        handles.append(enqueue_in(connection, later, 17, CUSTOMER))
        handles.append(enqueue_in(connection, app.task_named("billing.charge"), ["any", {"json": None}]))
        handles.extend(enqueue_many_in(connection, plain, (plain.args(number) for number in range(3))))

    with library(bound, work):
        assert _ids(bound.owner_url) == set(), "before the commit"
    written = {parse_job_text(handle.job_id) for handle in handles}
    assert len(written) == 5
    assert _ids(bound.owner_url) == written
    with pytest.raises(Done), library(bound, work):
        raise Done
    assert _ids(bound.owner_url) == written
    with psycopg.connect(bound.owner_url, row_factory=dict_row) as owner:
        job = owner.execute("SELECT * FROM tocsin.jobs WHERE target ->> 'task' = 'shop.send'").fetchone()
        ahead = owner.execute(
            "SELECT extract(epoch FROM max(run_at) - now()) AS seconds FROM tocsin.executions"
        ).fetchone()
    assert job is not None
    assert ahead is not None
    assert job["target"]["payload"] == {"order": 17, "customer": CUSTOMER}
    assert job["policies"]["limit"]["key"] == f"customer:{CUSTOMER}"
    assert (job["queue"], job["priority"], job["tags"]) == ("mail", 2, ["a"])
    assert 47 * 3600 < ahead["seconds"] <= 48 * 3600


async def _with_asyncpg(bound: Bound, work: Callable[[Any], Any]) -> None:
    async with (
        asyncpg.create_pool(bound.url, min_size=1, max_size=1) as pool,
        pool.acquire() as connection,
        connection.transaction(),
    ):
        await work(connection)


async def _with_async_session(bound: Bound, work: Callable[[Any], Any]) -> None:
    engine = sqlalchemy_asyncio.create_async_engine(_sqlalchemy_url(bound.url, "asyncpg"))
    try:
        async with sqlalchemy_asyncio.AsyncSession(engine) as session, session.begin():
            await work(session)
    finally:
        await engine.dispose()


async def _with_async_psycopg(bound: Bound, work: Callable[[Any], Any]) -> None:
    async with await psycopg.AsyncConnection.connect(bound.url) as connection:
        await work(connection)


@pytest.mark.parametrize("library", [_with_asyncpg, _with_async_session, _with_async_psycopg])
def test_a_connection_that_is_awaited_takes_jobs_into_its_transaction(bound: Bound, library: Any) -> None:
    _clear(bound)
    handles: list[Handle[Any]] = []

    async def work(connection: Any) -> None:
        handles.append(await enqueue_in_async(connection, send.having(delay="48h"), 17, CUSTOMER))
        handles.extend(
            await enqueue_many_in_async(connection, plain, [plain.args(number) for number in range(3)])
        )
        assert _ids(bound.owner_url) == set(), "before the commit"

    async def broken(connection: Any) -> None:
        await enqueue_in_async(connection, send, 17, "")
        raise Done

    asyncio.run(library(bound, work))
    written = {parse_job_text(handle.job_id) for handle in handles}
    assert len(written) == 4
    assert _ids(bound.owner_url) == written
    with pytest.raises(Done):
        asyncio.run(library(bound, broken))
    assert _ids(bound.owner_url) == written


def test_a_trace_goes_along(bound: Bound) -> None:
    trace = f"00-{'a' * 32}-{'b' * 16}-01"
    _clear(bound)
    with psycopg.connect(bound.url) as connection:
        enqueue_in(connection, plain.having(trace=trace), 1)
        enqueue_many_in(connection, plain.having(trace=trace), [plain.args(2)])
    with psycopg.connect(bound.owner_url) as owner:
        rows = owner.execute("SELECT target->>'trace' FROM tocsin.jobs").fetchall()
    assert rows == [(trace,), (trace,)]


def test_what_is_no_connection_or_one_of_the_other_kind_is_refused_by_name(bound: Bound) -> None:
    with pytest.raises(TypeError, match=r"builtins\.int is no connection"):
        enqueue_in(3, plain, 1)
    with pytest.raises(TypeError, match="enqueue_in_async"):
        asyncio.run(_with_asyncpg(bound, _enqueue_blocking))
    with psycopg.connect(bound.url) as connection:
        with pytest.raises(TypeError, match="is for enqueue_in"):
            asyncio.run(_enqueue_awaited(connection))
        with pytest.raises(TypeError, match="by its name alone"):
            enqueue_in(connection, app.task_named("x"), 1, 2)  # type: ignore[call-overload]
        with pytest.raises(Refused, match="needs no key"):
            enqueue_in(connection, plain.having(idempotency_key="x"), 1)
        with pytest.raises(Refused, match="a call of its own"):
            enqueue_many_in(connection, send, [send.args(1, "x")])
        with pytest.raises(Refused, match="not both"):
            enqueue_in(connection, plain.having(at="2030-01-01T00:00:00Z", delay=1), 1)
        assert enqueue_many_in(connection, plain, []) == []


async def _enqueue_blocking(connection: Any) -> None:
    enqueue_in(connection, plain, 1)


async def _enqueue_awaited(connection: Any) -> None:
    await enqueue_in_async(connection, plain, 1)
