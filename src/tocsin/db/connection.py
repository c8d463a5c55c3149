"""One connection: how it is opened on one host, and what it must prove before it is used.

It asks the server once what it got. Settings that did not arrive as sent mean that something stands between:
a pooler that shares sessions, on which neither pinned plans nor LISTEN nor row security work. A server that
cannot be written to is not the primary. The instant at which the server was started tells it from any other,
whatever address leads there.

A peer that vanished without a word is noticed by the kernel: after ten seconds without an acknowledgement the
socket is closed, on our side and, because it is asked to, on the server's.
"""

import socket
from typing import Any, Final

import asyncpg

from tocsin.db.hosts import Host
from tocsin.db.reaching import EACH
from tocsin.db.trouble import login_refused, translating
from tocsin.domain.errors import Refused, Unavailable

# PostgreSQL counts microseconds from 2000-01-01.
_POSTGRES_EPOCH: Final = 946_684_800_000_000
_USER_TIMEOUT_MS: Final = 10_000
_KEEPALIVE: Final = {"IDLE": 5, "INTVL": 2, "CNT": 3}
_SERVER_SOCKET: Final = {
    "tcp_user_timeout": str(_USER_TIMEOUT_MS),
    "tcp_keepalives_idle": "5",
    "tcp_keepalives_interval": "2",
    "tcp_keepalives_count": "3",
}
_PROVEN: Final = ("search_path", "plan_cache_mode", "enable_seqscan")
_ASK: Final = f"""
    SELECT {", ".join(f"current_setting('{name}') AS {name}" for name in _PROVEN)},
           current_setting('transaction_read_only') = 'off' AS writable, pg_postmaster_start_time() AS started_at"""
_NOBODY: Final = ""
# What a server says about a word of the URL that it took for a setting.
_WRONG_WORD: Final = (
    asyncpg.UndefinedObjectError,
    asyncpg.CantChangeRuntimeParamError,
    asyncpg.InvalidParameterValueError,
    asyncpg.InsufficientPrivilegeError,
)


class Connection(asyncpg.Connection):
    """A connection that knows for whom it acts (None when that is uncertain) and which server it leads to."""

    acts_for: str | None = _NOBODY
    server: int = 0
    """When the server at the other end was started: which server it is."""

    def __init__(self, protocol: Any, transport: Any, *rest: Any) -> None:
        super().__init__(protocol, transport, *rest)
        _notice_silence(transport.get_extra_info("socket"))

    async def act_for(self, tenants: str) -> None:
        # Unknown until the server has said yes.
        self.acts_for = None
        await self.execute("SELECT set_config('tocsin.tenants', $1, false)", tenants)
        self.acts_for = tenants


class ReadOnly(Unavailable):
    """The server is there and cannot be written to: a standby, or one that was made read-only."""


async def open_on(
    host: Host, settings: dict[str, str], *, command_timeout: float, starting: bool
) -> Connection:
    """A connection to the database on this host, which is writable and has these settings."""
    with translating(starting=starting):
        try:
            connection: Connection = await asyncpg.connect(
                host.url,
                timeout=EACH,
                command_timeout=command_timeout,
                connection_class=Connection,
                max_cached_statement_lifetime=0,  # to prepare one anew takes as long as many a statement
                server_settings=settings | (_SERVER_SOCKET if host.tcp else {}),
            )
        except asyncpg.ProtocolViolationError as error:
            if "startup parameter" in str(error):
                raise _pooler() from error
            raise
        except _WRONG_WORD as error:
            if "role" in settings and "role" in str(error):
                raise
            raise login_refused(error, starting=starting) from error
        except ValueError as error:  # a host name that cannot be one
            raise Refused(str(error), field="database_url") from error
        try:
            await _prove(connection, host, settings)
        except BaseException:
            connection.terminate()
            raise
    return connection


async def _prove(connection: Connection, host: Host, settings: dict[str, str]) -> None:
    await connection.set_type_codec(
        "timestamptz",
        schema="pg_catalog",
        format="tuple",
        encoder=lambda instant: (instant - _POSTGRES_EPOCH,),
        decoder=lambda parts: parts[0] + _POSTGRES_EPOCH,
    )
    (row,) = await connection.fetch(_ASK)
    if any(row[name] != settings[name] for name in _PROVEN if name in settings):
        raise _pooler()
    if not row["writable"]:
        raise ReadOnly("the database cannot be written to", why=f"{host.name} is read-only or a standby")
    connection.server = row["started_at"]


def _notice_silence(sock: Any) -> None:
    if sock is None or sock.family == socket.AF_UNIX:
        return
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, seconds in _KEEPALIVE.items():
        option = getattr(socket, f"TCP_KEEP{name}", None)  # not every system has all of them
        if option is not None:
            sock.setsockopt(socket.IPPROTO_TCP, option, seconds)
    if hasattr(socket, "TCP_USER_TIMEOUT"):
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, _USER_TIMEOUT_MS)


def _pooler() -> Refused:
    return Refused(
        "there is a connection pooler in front; connect directly",
        field="database_url",
        hint="see docs/operating/high-availability.md#no-pooler-in-front",
    )
