"""How the database is, as its own catalogue says: for operators."""

from collections.abc import Collection
from typing import Final

from tocsin.db.pool import Database, Record
from tocsin.domain.cells import CELL
from tocsin.domain.standing import Standing
from tocsin.store.standing import database_standing
from tocsin.store.statements import sql

MOST_DEAD_LETTERS: Final = 10_000


class SystemStore:
    """Looks at the whole installation."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def standing(self) -> Standing:
        """What a failover would cost."""
        return await database_standing(self._database)

    async def health(self) -> Record:
        """Size, connections, oldest transaction, tables."""
        return await self._database.one(sql("database_health"))

    async def numbers(self) -> Record:
        """The fleet's numbers for `/metrics`."""
        return await self._database.one(sql("fleet_numbers"), CELL, MOST_DEAD_LETTERS)

    async def names_of(self, tenant_ids: Collection[int]) -> dict[int, str]:
        """Tenants' names by their ids."""
        rows = await self._database.fetch(
            "SELECT id, name FROM tenants WHERE id = ANY ($1::integer[])", list(tenant_ids)
        )
        return {row["id"]: row["name"] for row in rows}
