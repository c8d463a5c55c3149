"""Numbered, forward-only SQL, applied once, in order, under one lock.

Any number of nodes may start at once: the advisory lock lets one migrate while the others wait and then find
nothing to do. Each file runs in its own transaction together with the row that records it, so a crash leaves
a whole number of migrations. A file that was applied is never edited: its checksum is kept and compared.
"""

import hashlib
from importlib.resources import files
from typing import Any, Final

import msgspec
import structlog

from tocsin.db.pool import MINIMUM_VERSION, SCHEMA, open_connection
from tocsin.db.trouble import translating
from tocsin.domain.errors import Refused

_LOCK: Final = 0x70C51  # any number, the same for every node
_log = structlog.get_logger()


class Migration(msgspec.Struct, frozen=True):
    """One file."""

    number: int
    name: str
    sql: str

    @property
    def checksum(self) -> str:
        """What the file said when it was applied."""
        return hashlib.sha256(self.sql.encode()).hexdigest()


def migrations() -> list[Migration]:
    """All files, in order."""
    found = []
    for file in (files("tocsin.db") / "migrations").iterdir():
        stem, _, suffix = file.name.rpartition(".")
        if suffix == "sql":
            found.append(Migration(int(stem[:4]), stem, file.read_text()))
    return sorted(found, key=lambda migration: migration.number)


async def migrate(url: str) -> list[str]:
    """Bring the database to the newest schema. Returns the names of what was applied."""
    connection = await open_connection(url, name="tocsin migrate", timeout=120)
    try:
        with translating():
            await _check_version(connection)
            await connection.execute("SELECT pg_advisory_lock($1)", _LOCK)
            applied = await _apply_pending(connection)
            trouble = await connection.fetchval("SELECT secure_tables()")
            await connection.execute("SELECT pg_advisory_unlock($1)", _LOCK)
    finally:
        await connection.close(timeout=5)
    for name in applied:
        _log.info("migration.applied", migration=name)
    if trouble is not None:
        _log.warning("row_security.incomplete", reason=trouble)
    return applied


async def _check_version(connection: Any) -> None:
    version = connection.get_server_version()
    if version.major < MINIMUM_VERSION:
        raise Refused(
            f"PostgreSQL {MINIMUM_VERSION} or newer is needed; this server is {version.major}",
            field="database_url",
        )


async def _apply_pending(connection: Any) -> list[str]:
    await connection.execute(f"CREATE SCHEMA IF NOT EXISTS {SCHEMA}")
    await connection.execute(
        "CREATE TABLE IF NOT EXISTS migrations (number integer PRIMARY KEY, name text NOT NULL,"
        " checksum text NOT NULL, applied_at timestamptz NOT NULL DEFAULT clock_timestamp())"
    )
    known = {row["number"]: row for row in await connection.fetch("SELECT * FROM migrations")}
    applied = []
    for migration in migrations():
        row = known.get(migration.number)
        if row is None:
            async with connection.transaction():
                await connection.execute(migration.sql)
                await connection.execute(
                    "INSERT INTO migrations (number, name, checksum) VALUES ($1, $2, $3)",
                    migration.number,
                    migration.name,
                    migration.checksum,
                )
            applied.append(migration.name)
        elif row["checksum"] != migration.checksum:
            raise Refused(
                f"migration {migration.name} was applied with other contents; this build does not fit the database"
            )
    return applied
