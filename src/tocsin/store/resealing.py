"""Sealing everything anew: from the master keys that were to the one that is.

A batch reads what is under another key, opens it, seals it, and writes it back where nothing has changed
meanwhile; so it can run while the fleet works, be stopped anywhere and be run again. A value that its owner
replaces at the same moment stays as it was written, and is found by the next run if that was under another
key. A value that does not open (its key is not here) is left as it is, and told.

For connections that see the secrets of all tenants.
"""

from typing import Annotated, Final

import msgspec

from tocsin.db.pool import Database, Record
from tocsin.domain.sealing import CannotOpen, SecretBox
from tocsin.store.secrets import box_of
from tocsin.store.statements import sql

BATCH: Final = 200


class Place(msgspec.Struct, frozen=True, array_like=True):
    """Where a batch ended: tenant and name."""

    tenant_id: Annotated[int, msgspec.Meta(ge=0, lt=2**31)]
    name: Annotated[str, msgspec.Meta(pattern="^[A-Za-z0-9_./-]{0,120}$")]


class Unopened(msgspec.Struct, frozen=True):
    """A secret that stays under its key, since that key is not here, or it is damaged."""

    tenant: str
    name: str
    key_id: str
    reason: str


class Resealed(msgspec.Struct, frozen=True):
    """What one batch did. `end` is None after the last one; `left` are still under another key, anywhere."""

    key_id: str
    secrets: int
    webhook_secrets: int
    unopened: list[Unopened]
    left: int
    end: Place | None


class Resealing:
    """Brings secrets under the key that seals now."""

    def __init__(self, database: Database, box: SecretBox | None, batch: int = BATCH) -> None:
        self._database = database
        self._box = box
        self._batch = batch

    async def batch(self, after: Place | None, tenant_id: int | None = None) -> Resealed:
        """Reseal the next ones, of one tenant or of all."""
        box = box_of(self._box)
        place = after or Place(0, "")
        rows = await self._database.fetch(
            sql("sealed_otherwise"),
            box.key_id,
            place.tenant_id,
            place.name,
            tenant_id,
            self._batch,
        )
        fresh: list[tuple[int, str, bytes, bytes]] = []
        unopened: list[Unopened] = []
        for row in rows:
            try:
                fresh.append((row["tenant_id"], row["name"], row["sealed"], _resealed(box, row)))
            except CannotOpen as error:
                unopened.append(Unopened(row["tenant"], row["name"], row["key_id"], str(error)))
        written = await self._database.one(
            sql("reseal"),
            box.key_id,
            *([list(column) for column in zip(*fresh, strict=True)] or [[]] * 4),
        )
        end = Place(rows[-1]["tenant_id"], rows[-1]["name"]) if len(rows) == self._batch else None
        left = await self._left(box, tenant_id)
        return Resealed(box.key_id, written["secrets"], written["webhook_secrets"], unopened, left, end)

    async def _left(self, box: SecretBox, tenant_id: int | None) -> int:
        row = await self._database.one(
            "SELECT (SELECT count(*) FROM secrets WHERE key_id <> $1 AND ($2::integer IS NULL OR tenant_id = $2))"
            " + (SELECT count(*) FROM webhook_secrets WHERE key_id <> $1 AND ($2::integer IS NULL OR tenant_id = $2)"
            " AND (expires_at IS NULL OR expires_at > tocsin_now())) AS remaining",
            box.key_id,
            tenant_id,
        )
        left: int = row["remaining"]
        return left


def _resealed(box: SecretBox, row: Record) -> bytes:
    value = box.open(row["tenant_id"], row["name"], row["key_id"], row["sealed"])
    return box.seal(row["tenant_id"], row["name"], value)
