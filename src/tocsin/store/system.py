"""How the database is, as its own catalogue says: for operators."""

from tocsin.db.pool import Database, Record
from tocsin.domain.standing import Standing
from tocsin.store.standing import database_standing
from tocsin.store.statements import sql


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
