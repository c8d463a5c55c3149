"""API keys at rest: hashes, scopes, and whom they act for. The secret itself is nowhere."""

from datetime import timedelta
from typing import Any

import msgspec

from tocsin.db.conditions import Conditions
from tocsin.db.pool import Database, Record, Session, acting_by_statement
from tocsin.domain.audit import Origin
from tocsin.domain.errors import Conflict, NotFound
from tocsin.domain.instant import SECOND, Instant, Span, format_instant
from tocsin.domain.keys import BOOTSTRAP_ID, Scope, hash_of
from tocsin.domain.limits import TenantLimits
from tocsin.store.audit import Entry, write_audit
from tocsin.store.tenants import limits_of

_COLUMNS = (
    "k.id, k.tenant_id, t.name AS tenant, k.name, k.scopes, k.created_at, k.expires_at, k.revoked_at, k.last_used_at,"
    " k.replaced_by, k.revoked_at IS NULL AND (k.expires_at IS NULL OR k.expires_at > tocsin_now()) AS valid"
)
_FROM = "FROM api_keys k JOIN tenants t ON t.id = k.tenant_id"


class StoredKey(msgspec.Struct, frozen=True):
    """A live key and its tenant."""

    id: str
    tenant_id: int
    tenant: str
    secret_hash: bytes
    scopes: frozenset[Scope]
    limits: TenantLimits
    expires_at: Instant | None = None
    suspended: bool = False
    """Whether its tenant is."""


class NewKey(msgspec.Struct, frozen=True):
    """A key to store."""

    id: str
    text: str
    tenant_id: int
    name: str
    scopes: frozenset[Scope]
    expires_at: Instant | None = None


class KeyStore:
    """Look-up for all connections; the rest is for connections that may see the keys of all tenants."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def find(self, key_id: str) -> StoredKey | None:
        """The key, unless it is revoked or expired."""
        with acting_by_statement():
            row = await self._database.fetchrow("SELECT * FROM find_api_key($1)", key_id)
        if row is None:
            return None
        scopes = frozenset(map(Scope, row["scopes"]))
        return StoredKey(
            row["id"],
            row["tenant_id"],
            row["tenant"],
            row["true_hash"],
            scopes,
            limits_of(row),
            row["expires_at"],
            row["suspended"],
        )

    async def get(self, key_id: str, tenant_id: int | None) -> Record:
        """One key, of this tenant if one is named."""
        return _known(await self._database.fetchrow(*_select(key_id, tenant_id)), key_id)

    async def ending(self, tenant_id: int, until: Instant, most: int) -> list[Record]:
        """A tenant's keys that end soon and were not replaced, the first to end first."""
        return await self._database.fetch(
            "SELECT name, expires_at FROM api_keys WHERE tenant_id = $1 AND revoked_at IS NULL"
            " AND replaced_by IS NULL AND expires_at > tocsin_now() AND expires_at < $2 ORDER BY expires_at LIMIT $3",
            tenant_id,
            until,
            most,
        )

    async def list(self, tenant_id: int | None, after: str | None, limit: int) -> list[Record]:
        """A page of keys by id, of one tenant or of all."""
        where = Conditions()
        where.add("k.tenant_id = {}", tenant_id)
        where.add("k.id > {}", after)
        return await self._database.fetch(
            f"SELECT {_COLUMNS} {_FROM} WHERE {where} ORDER BY k.id LIMIT {limit:d}", *where.values
        )

    async def create(self, new: NewKey, origin: Origin) -> Record:
        """Store a key."""
        async with self._database.transaction() as session:
            row = await _insert(session, new)
            await _note(session, origin, "key.create", None, row)
            return row

    async def rotate(
        self, key_id: str, tenant_id: int | None, new: NewKey, overlap: Span, origin: Origin
    ) -> Record:
        """Store a key in the place of another, which stays valid for `overlap` and no longer."""
        async with self._database.transaction() as session:
            before = await _lock_live(session, key_id, tenant_id, "rotate")
            row = await _insert(session, new)
            await session.execute(
                "UPDATE api_keys SET replaced_by = $2, expires_at = least(expires_at, tocsin_now() + $3::interval)"
                " WHERE id = $1",
                key_id,
                new.id,
                timedelta(seconds=overlap / SECOND),
            )
            after = await session.fetchrow(*_select(key_id, None))
            await _note(session, origin, "key.rotate", before, after)
            await _note(session, origin, "key.create", None, row)
            return row

    async def revoke(self, key_id: str, tenant_id: int | None, origin: Origin) -> Record:
        """End a key at once."""
        async with self._database.transaction() as session:
            before = await _lock_live(session, key_id, tenant_id, "revoke")
            await session.execute("UPDATE api_keys SET revoked_at = tocsin_now() WHERE id = $1", key_id)
            after: Record = await session.fetchrow(*_select(key_id, None))
            await _note(session, origin, "key.revoke", before, after)
            return after

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
            " ON CONFLICT (id) DO UPDATE SET secret_hash = excluded.secret_hash, revoked_at = NULL, expires_at = NULL",
            BOOTSTRAP_ID,
            hash_of(text),
        )

    async def mark_used(self, used: dict[str, Instant]) -> None:
        """Remember when keys were last used; called now and then, not per request."""
        await self._database.execute(
            "UPDATE api_keys k SET last_used_at = greatest(k.last_used_at, u.at)"
            " FROM unnest($1::text[], $2::timestamptz[]) AS u (id, at) WHERE k.id = u.id",
            list(used),
            list(used.values()),
        )


async def _insert(session: Session, new: NewKey) -> Record:
    await session.execute(
        "INSERT INTO api_keys (id, tenant_id, name, secret_hash, scopes, expires_at) VALUES ($1, $2, $3, $4, $5, $6)",
        new.id,
        new.tenant_id,
        new.name,
        hash_of(new.text),
        sorted(new.scopes),
        new.expires_at,
    )
    return _known(await session.fetchrow(*_select(new.id, None)), new.id)


async def _lock_live(session: Session, key_id: str, tenant_id: int | None, verb: str) -> Record:
    query, *args = _select(key_id, tenant_id)
    row = _known(await session.fetchrow(f"{query} FOR UPDATE OF k", *args), key_id)
    if not row["valid"]:
        raise Conflict(f"cannot {verb} a key that is {'revoked' if row['revoked_at'] else 'expired'}")
    return row


async def _note(
    session: Session, origin: Origin, action: str, before: Record | None, after: Record | None
) -> None:
    row = before or after
    if row is None:
        raise LookupError(action)
    await write_audit(
        session, [Entry(row["tenant_id"], origin, action, f"key:{row['id']}", _shown(before), _shown(after))]
    )
    await session.execute("SELECT pg_notify('tocsin', 'keys')")


def _select(key_id: str, tenant_id: int | None) -> tuple[str, *tuple[Any, ...]]:
    where = Conditions()
    where.add("k.id = {}", key_id)
    where.add("k.tenant_id = {}", tenant_id)
    return f"SELECT {_COLUMNS} {_FROM} WHERE {where}", *where.values


def _known(row: Record | None, key_id: str) -> Record:
    if row is None:
        raise NotFound(f"no key {key_id[:80]!r}")
    return row


def _shown(row: Record | None) -> dict[str, Any] | None:
    """A key as the audit log shows it."""
    if row is None:
        return None
    times = {
        name: format_instant(row[name]) for name in ("expires_at", "revoked_at") if row[name] is not None
    }
    plain = {"name": row["name"], "scopes": sorted(row["scopes"])} | times
    return plain | ({"replaced_by": row["replaced_by"]} if row["replaced_by"] else {})
