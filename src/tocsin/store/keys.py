"""API keys at rest: hashes, scopes, and whom they act for."""

import msgspec

from tocsin.db.pool import Database
from tocsin.domain.instant import Instant
from tocsin.domain.keys import BOOTSTRAP_ID, Scope, hash_of


class StoredKey(msgspec.Struct, frozen=True):
    """A live key."""

    id: str
    tenant_id: int
    secret_hash: bytes
    scopes: frozenset[Scope]


class KeyStore:
    """Look-up and bootstrap of keys."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def find(self, key_id: str) -> StoredKey | None:
        """The key, unless it is revoked, expired, or its tenant suspended."""
        row = await self._database.fetchrow(
            "SELECT k.id, k.tenant_id, k.secret_hash, k.scopes FROM api_keys k JOIN tenants t ON t.id = k.tenant_id"
            " WHERE k.id = $1 AND k.revoked_at IS NULL AND (k.expires_at IS NULL OR k.expires_at > tocsin_now())"
            " AND t.state = 'active'",
            key_id,
        )
        if row is None:
            return None
        return StoredKey(
            row["id"], row["tenant_id"], row["secret_hash"], frozenset(map(Scope, row["scopes"]))
        )

    async def has_bootstrap(self) -> bool:
        """Whether an administrator's key was ever made."""
        row = await self._database.fetchrow("SELECT true FROM api_keys WHERE id = $1", BOOTSTRAP_ID)
        return row is not None

    async def put_bootstrap(self, text: str) -> None:
        """Make `text` the administrator's key of the default tenant, replacing an earlier one."""
        await self._database.execute(
            "INSERT INTO api_keys (id, tenant_id, name, secret_hash, scopes)"
            " SELECT $1, id, 'bootstrap administrator', $2, ARRAY['read', 'write', 'worker', 'admin']"
            " FROM tenants WHERE name = 'default'"
            " ON CONFLICT (id) DO UPDATE SET secret_hash = excluded.secret_hash, revoked_at = NULL",
            BOOTSTRAP_ID,
            hash_of(text),
        )

    async def mark_used(self, used: dict[str, Instant]) -> None:
        """Remember when keys were last used; called now and then, not per request."""
        await self._database.execute(
            "UPDATE api_keys k SET last_used_at = u.at FROM unnest($1::text[], $2::timestamptz[]) AS u (id, at)"
            " WHERE k.id = u.id",
            list(used),
            list(used.values()),
        )
