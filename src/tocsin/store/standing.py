"""How the database stands among its standbys, for the parts that tell operators."""

import msgspec

from tocsin.db.pool import Database
from tocsin.domain.standing import Standing, standing_of
from tocsin.store.statements import sql


async def database_standing(database: Database) -> Standing:
    """Alone, followed asynchronously, or in step with a standby. A login without `pg_monitor` may not see
    which."""
    row = await database.one(sql("standing"))
    standing = standing_of(row["states"], wanted=row["wanted"], synchronous_commit=row["synchronous_commit"])
    return msgspec.structs.replace(standing, behind_bytes=row["behind_bytes"], behind_s=row["behind_s"])
