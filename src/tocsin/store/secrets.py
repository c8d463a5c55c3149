"""Secrets of tenants, sealed. The API writes and lists them; only workers open them.

A store without a box (no master key is configured) can list and remove, and refuses to write.
"""

from collections.abc import Sequence

from tocsin.db.pool import Database, Record
from tocsin.domain.errors import Conflict, NotFound
from tocsin.domain.sealing import CannotOpen, KeyMissing, SecretBox

_NO_KEY = "this installation has no key to seal secrets with"
_HINT = "its operator sets TOCSIN_SECRET_KEY or TOCSIN_SECRET_KEY_FILE on every process"


class SecretStore:
    """Secrets of all tenants; every method names the tenant it acts for."""

    def __init__(self, database: Database, box: SecretBox | None) -> None:
        self._database = database
        self._box = box

    async def put(self, tenant_id: int, name: str, value: str) -> Record:
        """Create a secret or replace its value."""
        box = box_of(self._box)
        return await self._database.one(
            "INSERT INTO secrets (tenant_id, name, key_id, sealed) VALUES ($1, $2, $3, $4)"
            " ON CONFLICT (tenant_id, name) DO UPDATE SET key_id = excluded.key_id, sealed = excluded.sealed,"
            " updated_at = tocsin_now() RETURNING name, updated_at",
            tenant_id,
            name,
            box.key_id,
            box.seal(tenant_id, name, value.encode()),
        )

    async def list(self, tenant_id: int, after: str, limit: int) -> list[Record]:
        """Names, in order."""
        return await self._database.fetch(
            'SELECT name, updated_at FROM secrets WHERE tenant_id = $1 AND name COLLATE "C" > $2'
            ' ORDER BY name COLLATE "C" LIMIT $3',
            tenant_id,
            after,
            limit,
        )

    async def delete(self, tenant_id: int, name: str) -> None:
        """Remove a secret. Calls that need it are rejected from then on."""
        gone = await self._database.fetchrow(
            "DELETE FROM secrets WHERE tenant_id = $1 AND name = $2 RETURNING name", tenant_id, name
        )
        if gone is None:
            raise NotFound(f"no secret {name[:100]!r}")

    async def values(self, tenant_id: int, names: Sequence[str]) -> dict[str, str | CannotOpen]:
        """Values by name, or why one does not open. Names without a secret are not among them."""
        rows = await self._database.fetch(
            "SELECT name, key_id, sealed FROM secrets WHERE tenant_id = $1 AND name = ANY ($2::text[])",
            tenant_id,
            list(names),
        )
        return {row["name"]: self._open(tenant_id, row) for row in rows}

    def _open(self, tenant_id: int, row: Record) -> str | CannotOpen:
        if self._box is None:
            return KeyMissing("this worker has no key to open secrets with")
        try:
            return self._box.open(tenant_id, row["name"], row["key_id"], row["sealed"]).decode()
        except CannotOpen as error:
            return error


def box_of(box: SecretBox | None) -> SecretBox:
    """The box, or a refusal that says what the operator must do."""
    if box is None:
        raise Conflict(_NO_KEY, hint=_HINT)
    return box
