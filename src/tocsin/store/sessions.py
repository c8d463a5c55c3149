"""Logins of the dashboard at rest: tickets, which are good for one login, and the sessions that they become.

Both are random texts of which only a hash is stored. A session lives as long as its key does, for twelve
hours after its last use, and for seven days at most. Rows that are over go when the next login comes, and a
key has a bounded number of them, so the table stays small without a part that tidies it.
"""

import hashlib
import secrets
from datetime import timedelta
from typing import Final

import msgspec

from tocsin.db.pool import Database
from tocsin.domain.instant import DAY, HOUR, Instant
from tocsin.domain.keys import BOOTSTRAP_ID, Scope
from tocsin.domain.limits import TenantLimits
from tocsin.store.statements import sql
from tocsin.store.tenants import limits_of

TICKET_LIFE: Final = timedelta(minutes=10)
SESSION_LIFE: Final = timedelta(hours=12)
_LONGEST_LIFE: Final = 7 * DAY
_EXTENDED_BELOW: Final = 23 * HOUR // 2  # one write per half hour of use
_MOST_OF_KEY: Final = 200


class LiveSession(msgspec.Struct, frozen=True):
    """A session that counts, with the key that it acts as."""

    key_id: str
    tenant_id: int
    tenant: str
    scopes: frozenset[Scope]
    limits: TenantLimits
    expires_at: Instant


class SessionStore:
    """Over connections that see all tenants: whose a cookie is, is not known before it is looked up."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def find(self, token: str, now: Instant) -> LiveSession | None:
        """The session of a cookie, kept alive by being used."""
        row = await self._database.fetchrow(sql("find_session"), _hash(token))
        if row is None:
            return None
        may_grow = row["expires_at"] < row["created_at"] + _LONGEST_LIFE
        if may_grow and row["expires_at"] - now < _EXTENDED_BELOW:
            await self._extend(token)
        scopes = frozenset(map(Scope, row["scopes"]))
        return LiveSession(
            row["id"], row["tenant_id"], row["tenant"], scopes, limits_of(row), row["expires_at"]
        )

    async def open_session(self, key_id: str) -> str | None:
        """A new session for a key: its text. None if the key is not valid any more."""
        return await self._open("session", key_id, SESSION_LIFE)

    async def issue_ticket(self, key_id: str = BOOTSTRAP_ID) -> str | None:
        """A text that is good for one login as the key."""
        return await self._open("ticket", key_id, TICKET_LIFE)

    async def redeem(self, ticket: str) -> str | None:
        """Turn a ticket into a session: its text. None if the ticket is unknown, used or over."""
        token = secrets.token_urlsafe(32)
        row = await self._database.fetchrow(sql("redeem_ticket"), _hash(ticket), _hash(token), SESSION_LIFE)
        return None if row is None else token

    async def close(self, token: str) -> None:
        """End a session. Every API process hears of it."""
        await self._database.execute("DELETE FROM dashboard_sessions WHERE token_hash = $1", _hash(token))
        await self._database.execute("SELECT pg_notify('tocsin', 'keys')")

    async def _open(self, kind: str, key_id: str, life: timedelta) -> str | None:
        token = secrets.token_urlsafe(32)
        row = await self._database.fetchrow(
            sql("open_session"), _hash(token), kind, key_id, life, _MOST_OF_KEY - 1
        )
        return None if row is None else token

    async def _extend(self, token: str) -> None:
        await self._database.execute(
            "UPDATE dashboard_sessions SET expires_at = least(created_at + $3::interval, tocsin_now() + $2::interval)"
            " WHERE token_hash = $1 AND kind = 'session'",
            _hash(token),
            SESSION_LIFE,
            timedelta(microseconds=_LONGEST_LIFE),
        )


def _hash(text: str) -> bytes:
    return hashlib.sha256(text.encode()).digest()
