"""Pools of connections to PostgreSQL.

Two kinds are opened. *Plain* connections serve the API and the CLI. *Engine* connections serve the hot
statements and pin the planner: over `unnest` batches PostgreSQL guesses row counts so badly that the same
statement ran 25 times slower with its default choices (sequential scans and hash joins over the live table),
so these are switched off and generic plans are forced; plan tests guard the result.

Instants travel as integers (microseconds since the Unix epoch), JSON as text. Every call has a timeout, on
the client and on the server; a connection that broke or a server that is away is `Unavailable`, never a
driver's exception (`trouble`). A connection whose server fell silent is not waited for a second time: it is
closed.

A connection acts for the tenants that `acting_for` names, or for none: the tables' policies (migration 0003)
show a role that does not own them only those tenants' rows. The session's setting is compared at every single
checkout and changed when it differs, so it costs a round trip only when a connection passes from one tenant
to another. It lives in the session: a proxy that shares sessions between clients (transaction pooling) is not
supported, which LISTEN and prepared statements do not allow either.

Which server connections lead to, and whether there is one at all, is for `presence` to know: all that a
process opens should be opened over the same one.
"""

import asyncio
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from contextvars import ContextVar
from time import monotonic
from typing import Any, Final, Protocol

import asyncpg

from tocsin.db.connection import Connection
from tocsin.db.patience import is_over, left, surrounding
from tocsin.db.presence import Presence
from tocsin.db.trouble import AWAY, changing, may_write, translating
from tocsin.domain.errors import Refused, Unavailable

SCHEMA: Final = "tocsin"
MINIMUM_VERSION: Final = 15
_PLAIN: Final = {"search_path": SCHEMA, "timezone": "UTC", "jit": "off"}
_PINNED: Final = _PLAIN | {
    "enable_seqscan": "off",
    "enable_hashjoin": "off",
    "enable_mergejoin": "off",
    "plan_cache_mode": "force_generic_plan",
}
_SHORTEST_TIMEOUT: Final = 0.05
_NOBODY: Final = ""
_acting_for: ContextVar[str | None] = ContextVar("acting_for", default=_NOBODY)
_witness: ContextVar["Witness | None"] = ContextVar("witness", default=None)
_changes: ContextVar["Changes | None"] = ContextVar("changes", default=None)

Record = asyncpg.Record
UniqueViolation = asyncpg.UniqueViolationError
LockTaken = asyncpg.LockNotAvailableError
"""The cause of `Unavailable` where `lock_timeout` was over."""
DatabaseError = asyncpg.PostgresError
"""What the server says about a statement that it refuses, unless it is away or busy, which is
`Unavailable`."""
RoleRefused = (asyncpg.InvalidParameterValueError, asyncpg.InsufficientPrivilegeError)
"""What opening a database as a role raises when there is no such role, or the login may not turn into it."""


class Session(Protocol):
    """What stores need of a connection or a pool."""

    async def fetch(self, query: str, *args: Any) -> list[Record]:
        """Rows of a statement."""

    async def fetchrow(self, query: str, *args: Any) -> Record | None:
        """The first row, if any."""

    async def execute(self, query: str, *args: Any) -> str:
        """Run a statement for its effect."""


class Witness(Protocol):
    """Sees a transaction begin and end, inside of it: what it writes is committed with the rest or not at
    all."""

    async def begin(self, session: Session) -> None:
        """Before the first statement."""

    async def end(self, session: Session) -> None:
        """After the last statement, before the commit."""


class acting_for:  # noqa: N801 - reads as a statement: `with acting_for(tenant_id):`
    """Statements inside act for these tenants, as far as the tables' policies go."""

    def __init__(self, *tenant_ids: int) -> None:
        self._tenants: str | None = ",".join(map(str, tenant_ids))

    def __enter__(self) -> None:
        self._token = _acting_for.set(self._tenants)

    def __exit__(self, *_: object) -> None:
        _acting_for.reset(self._token)


class acting_by_statement(acting_for):  # noqa: N801
    """Each statement inside names its tenant by itself; connections are taken as they are."""

    def __init__(self) -> None:
        self._tenants = None


def acting_tenants() -> str:
    """For whom we act: tenant ids separated by commas; empty for none, and where each statement names its
    tenant."""
    return _acting_for.get() or _NOBODY


@contextmanager
def witnessed(witness: Witness) -> Iterator[None]:
    """Transactions inside are seen by `witness`."""
    token = _witness.set(witness)
    try:
        yield
    finally:
        _witness.reset(token)


class Changes:
    """Whether something was committed."""

    made = False


@contextmanager
def noting_changes() -> Iterator[Changes]:
    """What is yielded says whether something was committed inside."""
    changes = Changes()
    token = _changes.set(changes)
    try:
        yield changes
    finally:
        _changes.reset(token)


def _note_change() -> None:
    if (changes := _changes.get()) is not None:
        changes.made = True


class _Undone(Exception):
    """What ends a trial."""


class Database:
    """A pool of connections that speaks integers for instants and `Unavailable` for trouble."""

    def __init__(self, pool: "asyncpg.Pool[Record]", timeout: float, presence: Presence) -> None:
        self._pool = pool
        self._timeout = timeout
        self.presence = presence

    async def fetch(self, query: str, *args: Any) -> list[Record]:
        rows: list[Record] = await self._ask("fetch", query, args)
        return rows

    async def fetchrow(self, query: str, *args: Any) -> Record | None:
        row: Record | None = await self._ask("fetchrow", query, args)
        return row

    async def one(self, query: str, *args: Any) -> Record:
        """The row of a statement that always has one."""
        row = await self.fetchrow(query, *args)
        if row is None:
            raise LookupError(f"no row from {query[:80]!r}")
        return row

    async def execute(self, query: str, *args: Any) -> str:
        done: str = await self._ask("execute", query, args)
        return done

    async def within(self, seconds: float, query: str, *args: Any) -> list[Record] | None:
        """The rows of a statement that only reads; None if the server could not tell in time."""
        try:
            async with self.connection() as connection, connection.transaction(readonly=True):
                await connection.execute(f"SET LOCAL statement_timeout = {round(seconds * 1000)}")
                rows: list[Record] = await connection.fetch(query, *args)
                return rows
        except Unavailable as error:
            if isinstance(error.__cause__, asyncpg.QueryCanceledError):
                return None
            raise

    async def _ask(self, method: str, query: str, args: tuple[Any, ...]) -> Any:
        """One statement, within the timeout from the wait for a connection to the answer."""
        until = monotonic() + (left(self._timeout) or 0)
        async with self.connection() as connection:
            rest = max(_SHORTEST_TIMEOUT, until - monotonic())
            if not may_write(query):
                return await getattr(connection, method)(query, *args, timeout=rest)
            with changing():
                answer = await getattr(connection, method)(query, *args, timeout=rest)
            _note_change()
            return answer

    @asynccontextmanager
    async def connection(self) -> AsyncIterator[Any]:
        """One connection for several statements. Trouble inside becomes `Unavailable`."""
        self.presence.refuse_if_away()
        call, answered = self.presence.began(), False
        try:
            with translating():
                async with surrounding(), self._pool.acquire(timeout=left(self._timeout)) as acquired:
                    connection: Any = acquired  # the driver's stand-in for one of our connections
                    tenants = _acting_for.get()
                    with _not_waiting_twice(connection), self._leaving_read_only(connection):
                        if tenants is not None and connection.acts_for != tenants:
                            await connection.act_for(tenants)
                        yield connection
            answered = True
        finally:
            self.presence.ended(call, answered=answered)

    @contextmanager
    def _leaving_read_only(self, connection: Any) -> Iterator[None]:
        try:
            yield
        except asyncpg.ReadOnlySQLTransactionError:
            self.presence.turned_read_only(connection)
            raise

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[Any]:
        """One connection inside one transaction."""
        witness = _witness.get()
        async with self.connection() as connection:
            transaction = connection.transaction()
            await transaction.start()
            try:
                with _not_waiting_twice(connection):
                    if witness is not None:
                        await witness.begin(connection)
                    yield connection
                    if witness is not None:
                        await witness.end(connection)
            except BaseException:
                if not connection.is_closed():
                    await transaction.rollback()
                raise
            with changing():
                async with asyncio.timeout(left()):
                    await transaction.commit()
            _note_change()

    @asynccontextmanager
    async def trial(self) -> AsyncIterator[Any]:
        """A transaction that is undone in the end: it shows what would happen, and nothing does."""
        try:
            async with self.transaction() as session:
                yield session
                raise _Undone
        except _Undone:
            pass

    async def close(self) -> None:
        """Give back every connection, waiting a moment for those in use."""
        try:
            await asyncio.wait_for(self._pool.close(), 5)
        except AWAY:
            self._pool.terminate()
        finally:
            self.presence.leave()


class Within(Database):
    """A transaction that is under way, for those who make one of their own: theirs are parts of it. What one
    of them undoes leaves the others as they are; nothing is committed before the whole is."""

    def __init__(self, session: Any) -> None:
        self._session = session

    async def _ask(self, method: str, query: str, args: tuple[Any, ...]) -> Any:
        return await getattr(self._session, method)(query, *args)

    @asynccontextmanager
    async def connection(self) -> AsyncIterator[Any]:
        yield self._session

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[Any]:
        async with self._session.transaction():
            yield self._session

    async def close(self) -> None:
        """Nothing: the caller that began it ends it."""


@contextmanager
def _not_waiting_twice(connection: Any) -> Iterator[None]:
    """Close a connection whose server fell silent: to end its transaction or to give it back would wait once
    more."""
    try:
        yield
    except asyncio.CancelledError:
        if is_over():
            connection.terminate()
        raise
    except (TimeoutError, Unavailable) as error:
        if isinstance(error, TimeoutError) or isinstance(error.__cause__, TimeoutError):
            connection.terminate()
        raise


Where = str | Presence
"""A URL, or what this process knows already about the database that is there."""


async def open_database(
    where: Where,
    *,
    name: str,
    timeout: float = 15.0,
    size: int = 4,
    pinned: bool = False,
    role: str | None = None,
) -> Database:
    """Open a pool. `pinned` gives engine connections; `name` shows in pg_stat_activity; `role` is what
    sessions turn into from their first moment on."""
    settings = (_PINNED if pinned else _PLAIN) | {
        "application_name": name,
        "statement_timeout": str(int(timeout * 1000)),
        "idle_in_transaction_session_timeout": str(int(timeout * 1000)),
    }
    if role is not None:
        settings["role"] = role
    presence = _presence(where)
    presence.use()
    try:
        pool = await _fill(_connector(presence, settings, timeout), size)
    except BaseException:
        presence.leave()
        raise
    return Database(pool, timeout, presence)


async def _fill(connect: Any, size: int) -> "asyncpg.Pool[Record]":
    """A pool that has its first connection."""
    with translating(starting=True):
        pool: asyncpg.Pool[Record] = await asyncpg.create_pool(
            connect=connect,
            connection_class=Connection,
            min_size=1,
            max_size=size,
            max_inactive_connection_lifetime=300,
            reset=_keep,
        )
    return pool


def _connector(presence: Presence, settings: dict[str, str], timeout: float) -> Any:
    """What the pool opens connections with. At the start a refused login is a wrong URL; later it may
    pass."""
    starting = True

    async def connect(*_: object, **__: object) -> Connection:
        nonlocal starting
        try:
            connection = await presence.connect(settings, command_timeout=timeout, starting=starting)
        except (Refused, *RoleRefused) as error:
            if starting:
                raise
            raise Unavailable("the database is not available", why=str(error)) from error
        starting = False
        return connection

    return connect


async def open_connection(
    where: Where, *, name: str, timeout: float = 15.0, starting: bool = True
) -> "asyncpg.Connection[Record]":
    """A single plain connection: for LISTEN, migrations, and other things a pool must not share. At the start
    a refused login is a wrong URL; later the server is `Unavailable`."""
    settings = _PLAIN | {"application_name": name}
    return await _presence(where).connect(settings, command_timeout=timeout, starting=starting)


def _presence(where: Where) -> Presence:
    return Presence(where) if isinstance(where, str) else where


async def _keep(_: "asyncpg.Connection[Record]") -> None:
    """Nothing to reset: sessions keep no state between uses, and the reset would be a query per use."""


def columns(rows: Sequence[Sequence[Any]], width: int) -> list[list[Any]]:
    """Rows turned into the column arrays that `unnest` statements take."""
    return [list(column) for column in zip(*rows, strict=True)] if rows else [[] for _ in range(width)]
