"""The secrets that a tenant's requests are signed with: one, or two while one replaces the other.

The first is made when a worker or a reader first needs it. The version is part of the key, so of two that
make the same version at once one wins, and the other takes what is there.
"""

from datetime import timedelta

import msgspec

from tocsin.db.pool import Database, Session, UniqueViolation
from tocsin.domain.errors import Conflict, Unreadable
from tocsin.domain.instant import Instant, Span
from tocsin.domain.sealing import CannotOpen, SecretBox
from tocsin.domain.signature import new_signing_secret
from tocsin.store.secrets import box_of


class SigningSecret(msgspec.Struct, frozen=True):
    """A live secret. `expires_at` is None for the newest."""

    secret: bytes
    created_at: Instant
    expires_at: Instant | None


class WebhookSecretStore:
    """Signing secrets of all tenants; every method names the tenant it acts for."""

    def __init__(self, database: Database, box: SecretBox | None) -> None:
        self._database = database
        self._box = box

    async def live(self, tenant_id: int) -> list[SigningSecret]:
        """The live secrets, newest first; the first one is made if there is none."""
        box = box_of(self._box)
        found = await self._read(box, tenant_id)
        if not found:
            await _insert(self._database, box, tenant_id, 1)
            found = await self._read(box, tenant_id)
        return found

    async def rotate(self, tenant_id: int, overlap: Span) -> list[SigningSecret]:
        """Make a new secret; the one before stays live for `overlap`, older ones end now."""
        box = box_of(self._box)
        try:
            await self.live(tenant_id)
        except Unreadable:
            overlap = 0  # nothing can be signed with it, and replacing it is the way out
        try:
            async with self._database.transaction() as session:
                row = await session.fetchrow(
                    "UPDATE webhook_secrets SET expires_at = tocsin_now() + $2 WHERE tenant_id = $1"
                    " AND expires_at IS NULL RETURNING version",
                    tenant_id,
                    timedelta(microseconds=overlap),
                )
                if row is None:
                    raise Conflict("another request rotates the secret at this moment")
                await session.execute(
                    "DELETE FROM webhook_secrets WHERE tenant_id = $1 AND version < $2",
                    tenant_id,
                    row["version"],
                )
                await _insert(session, box, tenant_id, row["version"] + 1)
        except UniqueViolation:
            raise Conflict("another request rotates the secret at this moment") from None
        return await self._read(box, tenant_id)

    async def _read(self, box: SecretBox, tenant_id: int) -> list[SigningSecret]:
        rows = await self._database.fetch(
            "SELECT version, key_id, sealed, created_at, expires_at FROM webhook_secrets WHERE tenant_id = $1"
            " AND (expires_at IS NULL OR expires_at > tocsin_now()) ORDER BY version DESC",
            tenant_id,
        )
        try:
            return [
                SigningSecret(
                    box.open(tenant_id, _name(row["version"]), row["key_id"], row["sealed"]),
                    row["created_at"],
                    row["expires_at"],
                )
                for row in rows
            ]
        except CannotOpen as error:
            raise Unreadable(f"the webhook secret does not open: {error}") from None


async def _insert(session: Session, box: SecretBox, tenant_id: int, version: int) -> None:
    await session.execute(
        "INSERT INTO webhook_secrets (tenant_id, version, key_id, sealed) VALUES ($1, $2, $3, $4)"
        " ON CONFLICT DO NOTHING",
        tenant_id,
        version,
        box.key_id,
        box.seal(tenant_id, _name(version), new_signing_secret()),
    )


def _name(version: int) -> str:
    # No secret of a user can be called that: their names have no slash.
    return f"webhook/{version}"
