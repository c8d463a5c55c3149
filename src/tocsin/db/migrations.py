"""Numbered, forward-only SQL, applied once, in order, under one lock.

Any number of nodes may start at once: the advisory lock lets one migrate while the others wait and then find
nothing to do. Each file runs in its own transaction together with the row that records it, so a crash leaves
a whole number of migrations. A file that was applied is never edited: its checksum is kept and compared.

A file says which builds may work on its schema: ``-- runs beside: 0008`` admits every build whose newest
migration is 0008 or later. That is kept in the database, so that a build finds out about migrations that it
does not have. One that is not admitted refuses to join, and stops if it runs; a file without the line admits
no older build.
"""

import hashlib
import re
from collections.abc import Sequence
from importlib.resources import files
from typing import Any, Final

import msgspec
import structlog

from tocsin.db.pool import MINIMUM_VERSION, SCHEMA, Database, Record, Where, open_connection
from tocsin.db.trouble import translating
from tocsin.domain.errors import Refused
from tocsin.domain.shard import DEFAULT_SHARDS

_RUNS_BESIDE: Final = re.compile(r"^-- runs beside: (\d{4})$", re.MULTILINE)
_FIRST: Final = 1
_LOCK: Final = 0x70C51  # any number, the same for every node
_MIGRATE: Final = "run `tocsin migrate` first"
_log = structlog.get_logger()


class Migration(msgspec.Struct, frozen=True):
    """One file."""

    number: int
    name: str
    sql: str

    @property
    def runs_beside(self) -> int | None:
        """The newest migration that the oldest build knows which may work on this schema."""
        found = _RUNS_BESIDE.search(self.sql)
        return None if found is None else int(found[1])

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


def newest_known() -> int:
    """The number of the newest migration that this build has."""
    return migrations()[-1].number


async def check_schema(database: Database) -> None:
    """Refuse a database on which this build cannot work."""
    row = await database.one("SELECT to_regclass('tocsin.installation') IS NOT NULL AS there")
    if not row["there"]:
        raise Refused("the database has no Tocsin schema", field="database_url", hint=_MIGRATE)
    # A schema from before the column was has no row that names builds beside it.
    applied = await database.fetch(
        "SELECT number, name, (to_jsonb(m) ->> 'runs_beside')::integer AS runs_beside FROM migrations m ORDER BY number"
    )
    refuse_newer(applied)
    there = {row["number"] for row in applied}
    if missing := [migration.name for migration in migrations() if migration.number not in there]:
        raise Refused(
            f"the database has the schema of an older version: migration {missing[0]} was not applied",
            field="database_url",
            hint=_MIGRATE,
        )


def refuse_newer(applied: Sequence[Record]) -> None:
    """Refuse migrations that this build does not have and that do not run beside it."""
    if (name := first_beyond(applied, newest_known())) is not None:
        raise overtaken(name)


def first_beyond(applied: Sequence[Record], newest: int) -> str | None:
    """The first migration that does not run beside builds whose newest is that one."""
    for row in applied:
        if row["number"] > newest and (row["runs_beside"] is None or row["runs_beside"] > newest):
            return str(row["name"])
    return None


def overtaken(migration: str) -> Refused:
    """The answer to a migration that this build cannot work beside."""
    return Refused(
        f"the database has the schema of a newer version: migration {migration} does not run beside this build,"
        f" whose newest is {newest_known():04}",
        field="database_url",
        hint="run a build that has it; see `tocsin nodes` for what the others run",
    )


async def migrate(where: Where, shards: int = DEFAULT_SHARDS) -> list[str]:
    """Bring the database to the newest schema. Returns the names of what was applied.

    A new installation gets so many shards. One that exists keeps its own: another number would move its jobs.
    """
    connection = await open_connection(where, name="tocsin migrate", timeout=120)
    try:
        with translating():
            await _check_version(connection)
            await connection.execute("SELECT pg_advisory_lock($1)", _LOCK)
            applied = await _apply_pending(connection, shards)
            trouble = await connection.fetchval("SELECT secure_tables()")
            await connection.execute("SELECT pg_advisory_unlock($1)", _LOCK)
    finally:
        await connection.close(timeout=5)
    if applied and applied[0].startswith(f"{_FIRST:04}"):
        _log.info("schema.created", migrations=len(applied), newest=applied[-1])
    else:
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


async def _apply_pending(connection: Any, shards: int) -> list[str]:
    await connection.execute(f"CREATE SCHEMA IF NOT EXISTS {SCHEMA}")
    await connection.execute(
        "CREATE TABLE IF NOT EXISTS migrations (number integer PRIMARY KEY, name text NOT NULL,"
        " checksum text NOT NULL, applied_at timestamptz NOT NULL DEFAULT clock_timestamp())"
    )
    await connection.execute("ALTER TABLE migrations ADD COLUMN IF NOT EXISTS runs_beside integer")
    rows = await connection.fetch("SELECT * FROM migrations ORDER BY number")
    refuse_newer(rows)
    known = {row["number"]: row for row in rows}
    applied = []
    for migration in migrations():
        row = known.get(migration.number)
        if row is None:
            async with connection.transaction():
                await connection.execute(migration.sql)
                if migration.number == _FIRST:
                    await _make_shards(connection, shards)
                await connection.execute(
                    "INSERT INTO migrations (number, name, checksum, runs_beside) VALUES ($1, $2, $3, $4)",
                    migration.number,
                    migration.name,
                    migration.checksum,
                    migration.runs_beside,
                )
            applied.append(migration.name)
        elif row["checksum"] != migration.checksum:
            raise Refused(
                f"migration {migration.name} was applied with other contents; this build does not fit the database"
            )
    return applied


async def _make_shards(connection: Any, count: int) -> None:
    """In the transaction that makes the installation, so that no crash leaves it with another number."""
    await connection.execute("UPDATE installation SET shard_count = $1", count)
    await connection.execute("DELETE FROM shards")
    await connection.execute("INSERT INTO shards (shard) SELECT generate_series(0, $1::smallint - 1)", count)
