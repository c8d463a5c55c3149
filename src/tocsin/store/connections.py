"""Connections of tenants: brokers under names that targets refer to."""

from typing import Any

import msgspec

from tocsin.db.pool import Database, Record
from tocsin.domain.connection import Connection
from tocsin.domain.errors import Conflict, NotFound, Unreadable


class ConnectionStore:
    """Connections of all tenants; every method names the tenant it acts for."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def create(self, tenant_id: int, name: str, connection: Connection) -> Record:
        """A new connection; refused if there is one of this name."""
        row = await self._database.fetchrow(
            "INSERT INTO connections (tenant_id, name, kind, settings) VALUES ($1, $2, $3, $4)"
            " ON CONFLICT (tenant_id, name) DO NOTHING RETURNING name, kind, settings, version, created_at, updated_at",
            *_values(tenant_id, name, connection),
        )
        if row is None:
            raise Conflict(
                f"there is a connection {name!r}", field="name", hint="PUT replaces it", code="name_taken"
            )
        return row

    async def put(self, tenant_id: int, name: str, connection: Connection) -> Record:
        """Create a connection, or replace one of the same kind."""
        row = await self._database.fetchrow(
            "INSERT INTO connections (tenant_id, name, kind, settings) VALUES ($1, $2, $3, $4)"
            " ON CONFLICT (tenant_id, name) DO UPDATE SET settings = excluded.settings,"
            " version = connections.version + 1, updated_at = tocsin_now()"
            " WHERE connections.kind = excluded.kind RETURNING name, kind, settings, version, created_at, updated_at",
            *_values(tenant_id, name, connection),
        )
        if row is None:
            raise Conflict(f"the connection {name!r} is of another kind", field="kind")
        return row

    async def get(self, tenant_id: int, name: str) -> Record:
        """One connection."""
        row = await self.find(tenant_id, name)
        if row is None:
            raise NotFound(f"no connection {name[:63]!r}")
        return row

    async def find(self, tenant_id: int, name: str) -> Record | None:
        """One connection, if it is there."""
        return await self._database.fetchrow(
            "SELECT name, kind, settings, version, created_at, updated_at FROM connections WHERE tenant_id = $1 AND name = $2",
            tenant_id,
            name,
        )

    async def list(self, tenant_id: int) -> list[Record]:
        """All connections of a tenant, by name."""
        return await self._database.fetch(
            "SELECT name, kind, settings, version, created_at, updated_at FROM connections WHERE tenant_id = $1 ORDER BY name LIMIT 1000",
            tenant_id,
        )

    async def delete(self, tenant_id: int, name: str) -> None:
        """Remove a connection that no job and no alert channel names."""
        used = await self._database.fetchrow(
            "SELECT id FROM jobs WHERE tenant_id = $1 AND target ->> 'connection' = $2 LIMIT 1",
            tenant_id,
            name,
        )
        if used is not None:
            raise Conflict(f"the connection {name!r} is used by jobs")
        channel = await self._database.fetchrow(
            "SELECT name FROM alert_channels WHERE tenant_id = $1 AND settings ->> 'connection' = $2 LIMIT 1",
            tenant_id,
            name,
        )
        if channel is not None:
            raise Conflict(f"the connection {name!r} is used by the alert channel {channel['name']!r}")
        gone = await self._database.fetchrow(
            "DELETE FROM connections WHERE tenant_id = $1 AND name = $2 RETURNING name", tenant_id, name
        )
        if gone is None:
            raise NotFound(f"no connection {name[:63]!r}")


def read_connection(row: Any) -> Connection:
    """What a row says. Raises `Unreadable` if a newer version wrote it."""
    try:
        return msgspec.json.decode(row["settings"], type=Connection)
    except msgspec.DecodeError as error:
        raise Unreadable(f"this version cannot read the connection {row['name']!r}: {error}") from None


def _values(tenant_id: int, name: str, connection: Connection) -> tuple[int, str, str, str]:
    return tenant_id, name, connection.kind, msgspec.json.encode(connection).decode()
