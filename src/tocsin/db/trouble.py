"""What the driver's errors mean to callers: `Unavailable`, and whether a change may have been made all the
same.

The server's own words are the truth: a statement that it refused or gave up changed nothing. Silence is not:
a connection that broke, or an answer that did not come in time, leaves open whether the server committed.
That is `OutcomeUnknown`, and only for what can write: a single statement that is not a plain SELECT, and the
commit of a transaction.

The driver's words name hosts, users and databases. They go into `why`, for logs, and never into `detail`.
"""

import re
from functools import lru_cache
from typing import Final

import asyncpg

from tocsin.domain.errors import OutcomeUnknown, Refused, Unavailable

# The server says that it did not do it.
_NOT_DONE: Final = (
    asyncpg.CannotConnectNowError,
    asyncpg.TooManyConnectionsError,
    asyncpg.QueryCanceledError,
    asyncpg.LockNotAvailableError,
    asyncpg.DiskFullError,
    asyncpg.OutOfMemoryError,
    asyncpg.PostgresSystemError,  # its disk
    asyncpg.IdleInTransactionSessionTimeoutError,  # this process stood still in the middle of one
    asyncpg.IdleSessionTimeoutError,
    asyncpg.ReadOnlySQLTransactionError,
    asyncpg.DeadlockDetectedError,
    asyncpg.SerializationError,
)
AWAY: Final = (
    OSError,
    TimeoutError,
    asyncpg.PostgresConnectionError,
    asyncpg.InterfaceError,
    asyncpg.InternalClientError,  # how the driver may meet a connection that the server ended just now
    asyncpg.AdminShutdownError,
    asyncpg.CrashShutdownError,
    *_NOT_DONE,
)
# The URL names what is not there, or not for us. At the start waiting does not help; later it may.
LOGIN_REFUSED: Final = (
    asyncpg.InvalidCatalogNameError,
    asyncpg.InvalidPasswordError,
    asyncpg.InvalidAuthorizationSpecificationError,
)
_READS: Final = re.compile(r"(\s|--[^\n]*\n)*SELECT\b", re.IGNORECASE)


class translating:  # noqa: N801 - reads as a statement: `with translating():`
    """Turn the driver's many ways of saying "the server is away" into `Unavailable`.

    `starting`: a login that the server refuses is a wrong URL, and the operator hears of it.
    """

    def __init__(self, *, starting: bool = False) -> None:
        self._starting = starting

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        if isinstance(error, asyncpg.ClientConfigurationError):  # the URL itself: it will not get better
            raise Refused(_words(error), field="database_url") from error
        if isinstance(error, LOGIN_REFUSED):
            raise login_refused(error, starting=self._starting) from error
        if isinstance(error, AWAY):
            raise Unavailable("the database did not answer", why=_words(error)) from error


def login_refused(error: BaseException, *, starting: bool) -> Refused | Unavailable:
    """What it means that a server refuses the user or database of the URL."""
    if starting:
        return Refused(_words(error), field="database_url")
    return Unavailable("the database is not available", why=_words(error))


class changing:  # noqa: N801 - reads as a statement: `with changing():`
    """Statements inside may change something. Unless the server says that it did not, silence means that the
    outcome is unknown."""

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        if isinstance(error, AWAY) and not isinstance(error, _NOT_DONE):
            raise OutcomeUnknown("the database did not answer in time", why=_words(error)) from error


@lru_cache(maxsize=1024)
def may_write(query: str) -> bool:
    """Whether a statement may change something. Only a plain SELECT surely does not."""
    return _READS.match(query) is None


def _words(error: BaseException) -> str:
    text = str(error) or type(error).__name__
    return text.splitlines()[0][:200]
