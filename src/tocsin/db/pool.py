"""Connections to PostgreSQL: the only module that knows the driver.

Two kinds are opened. *Plain* connections serve the API and the CLI. *Engine* connections serve the hot
statements and pin the planner: over `unnest` batches PostgreSQL guesses row counts so badly that the same
statement ran 25 times slower with its default choices (sequential scans and hash joins over the live table),
so these are switched off and generic plans are forced; plan tests guard the result.

Instants travel as integers (microseconds since the Unix epoch), JSON as text. Every call has a timeout, on
the client and on the server; a connection that broke or a server that is away is `Unavailable`, never a
driver's exception.
"""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any, Final, Protocol

import asyncpg
import structlog

from tocsin.domain.errors import Unavailable

SCHEMA: Final = "tocsin"
MINIMUM_VERSION: Final = 15
# PostgreSQL counts microseconds from 2000-01-01.
_POSTGRES_EPOCH: Final = 946_684_800_000_000
_PLAIN: Final = {"search_path": SCHEMA, "timezone": "UTC", "jit": "off"}
_PINNED: Final = _PLAIN | {
    "enable_seqscan": "off",
    "enable_hashjoin": "off",
    "enable_mergejoin": "off",
    "plan_cache_mode": "force_generic_plan",
}
_AWAY: Final = (
    OSError,
    TimeoutError,
    asyncpg.PostgresConnectionError,
    asyncpg.InterfaceError,
    asyncpg.CannotConnectNowError,
    asyncpg.AdminShutdownError,
    asyncpg.CrashShutdownError,
    asyncpg.TooManyConnectionsError,
    asyncpg.QueryCanceledError,
    asyncpg.LockNotAvailableError,
    asyncpg.DiskFullError,
    asyncpg.ReadOnlySQLTransactionError,
    asyncpg.DeadlockDetectedError,
    asyncpg.SerializationError,
)
_log = structlog.get_logger()

Record = asyncpg.Record
UniqueViolation = asyncpg.UniqueViolationError


class Session(Protocol):
    """What stores need of a connection or a pool."""

    async def fetch(self, query: str, *args: Any) -> list[Record]:
        """Rows of a statement."""

    async def fetchrow(self, query: str, *args: Any) -> Record | None:
        """The first row, if any."""

    async def execute(self, query: str, *args: Any) -> str:
        """Run a statement for its effect."""


class Database:
    """A pool of connections that speaks integers for instants and `Unavailable` for trouble."""

    def __init__(self, pool: "asyncpg.Pool[Record]", timeout: float) -> None:
        self._pool = pool
        self._timeout = timeout

    async def fetch(self, query: str, *args: Any) -> list[Record]:
        async with self.connection() as connection:
            rows: list[Record] = await connection.fetch(query, *args)
            return rows

    async def fetchrow(self, query: str, *args: Any) -> Record | None:
        async with self.connection() as connection:
            row: Record | None = await connection.fetchrow(query, *args)
            return row

    async def one(self, query: str, *args: Any) -> Record:
        """The row of a statement that always has one."""
        row = await self.fetchrow(query, *args)
        if row is None:
            raise LookupError(f"no row from {query[:80]!r}")
        return row

    async def execute(self, query: str, *args: Any) -> str:
        async with self.connection() as connection:
            done: str = await connection.execute(query, *args)
            return done

    @asynccontextmanager
    async def connection(self) -> AsyncIterator[Any]:
        """One connection for several statements. Trouble inside becomes `Unavailable`."""
        with translating():
            async with self._pool.acquire(timeout=self._timeout) as connection:
                yield connection

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[Any]:
        """One connection inside one transaction."""
        async with self.connection() as connection, connection.transaction():
            yield connection

    async def close(self) -> None:
        """Give back every connection, waiting a moment for those in use."""
        try:
            await asyncio.wait_for(self._pool.close(), 5)
        except (TimeoutError, *_AWAY):
            self._pool.terminate()


class translating:  # noqa: N801 - reads as a statement: `with translating():`
    """Turn the driver's many ways of saying "the server is away" into `Unavailable`."""

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        if error is not None and isinstance(error, _AWAY):
            raise Unavailable(f"the database did not answer: {_words(error)}") from error


async def open_database(
    url: str, *, name: str, timeout: float = 15.0, size: int = 4, pinned: bool = False
) -> Database:
    """Open a pool. `pinned` gives engine connections; `name` shows in pg_stat_activity."""
    settings = (_PINNED if pinned else _PLAIN) | {
        "application_name": name,
        "statement_timeout": str(int(timeout * 1000)),
        "idle_in_transaction_session_timeout": str(int(timeout * 1000)),
    }
    with translating():
        pool = await asyncpg.create_pool(
            url,
            min_size=1,
            max_size=size,
            timeout=timeout,
            command_timeout=timeout,
            max_inactive_connection_lifetime=300,
            init=_prepare,
            reset=_keep,
            server_settings=settings,
        )
    return Database(pool, timeout)


async def open_connection(url: str, *, name: str, timeout: float = 15.0) -> "asyncpg.Connection[Record]":
    """A single plain connection: for LISTEN, migrations, and other things a pool must not share."""
    with translating():
        connection: asyncpg.Connection[Record] = await asyncpg.connect(
            url, timeout=timeout, command_timeout=timeout, server_settings=_PLAIN | {"application_name": name}
        )
        await _prepare(connection)
    return connection


async def _prepare(connection: "asyncpg.Connection[Record]") -> None:
    await connection.set_type_codec(
        "timestamptz",
        schema="pg_catalog",
        format="tuple",
        encoder=lambda instant: (instant - _POSTGRES_EPOCH,),
        decoder=lambda parts: parts[0] + _POSTGRES_EPOCH,
    )


async def _keep(_: "asyncpg.Connection[Record]") -> None:
    """Nothing to reset: sessions keep no state between uses, and the reset would be a query per use."""


def _words(error: BaseException) -> str:
    text = str(error) or type(error).__name__
    return text.splitlines()[0][:200]


def columns(rows: Sequence[Sequence[Any]], width: int) -> list[list[Any]]:
    """Rows turned into the column arrays that `unnest` statements take."""
    return [list(column) for column in zip(*rows, strict=True)] if rows else [[] for _ in range(width)]
