"""Drops days that are in the archive, and nothing else.

A day may go if every part of it was verified and the database still holds what was archived: a user may have
replayed or discarded one of its dead letters. So its rows are proved once more, which may take a while and
delays no other work. Then they are locked, for the moment that it takes to see that there are as many and
none is newer than the proof; and the same transaction drops the day and marks its parts. At every moment a
row is found in the database or in the archive. The drop needs a lock on the whole table, and asks for it
briefly, again and again.

A day that was changed is exported again, as far as it was changed.
"""

import asyncio
from collections.abc import Sequence
from datetime import date
from typing import Any, Final

import msgspec
import structlog

from tocsin.archive.tables import Table
from tocsin.db.pool import Database, DatabaseError, Record, Session
from tocsin.failpoints import Failpoints
from tocsin.store.archives import PATIENCE_SECONDS, Piece, partition_of, piece_of, proof_of

_LOCK_TRIES: Final = 40
_BETWEEN_TRIES: Final = 0.25
_LOCK_DAY: Final = "SET LOCAL lock_timeout = '2s'"
"""Only what changes rows of this old day would stand in line behind us."""
_PATIENTLY: Final = (
    f"SET LOCAL statement_timeout = '{PATIENCE_SECONDS}s'; SET LOCAL enable_seqscan = on;"
    f" SET LOCAL idle_in_transaction_session_timeout = '{PATIENCE_SECONDS}s'"
)
_LOCKED: Final = "55P03"
_log = structlog.get_logger()


class _Proved(msgspec.Struct, frozen=True):
    """What was proved of a day: its round, how many rows it has, and the oldest transaction that could write
    then. What was written since is not older."""

    round: int
    rows: int
    mark: int


class ArchivedDays:
    """Days of archived tables."""

    def __init__(self, database: Database, failpoints: Failpoints) -> None:
        self._database = database
        self._failpoints = failpoints

    async def drop(self, table: Table, day: date, lock_timeout_ms: int) -> bool:
        """Drop a day, if it may go."""
        proved = await self._prove(table, day)
        if proved is None:
            return False
        await self._failpoints.reach("archive.proved")
        async with self._database.transaction() as session:
            await session.execute(f"{_LOCK_DAY}; {_PATIENTLY}")
            await session.execute(f"LOCK TABLE {partition_of(table, day)} IN SHARE MODE")
            if not await _as_proved(session, table, day, proved):
                return False
            await self._failpoints.reach("archive.before_drop")
            await session.execute(
                "UPDATE archives SET state = 'dropped', changed_at = tocsin_now()"
                " WHERE name = $1 AND day = $2 AND round = $3",
                table.name,
                day,
                proved.round,
            )
            await _drop_partition(session, partition_of(table, day), lock_timeout_ms)
            await self._failpoints.reach("archive.before_drop_commits")
        _log.info("archive.day_dropped", table=table.name, day=str(day), rows=proved.rows)
        return True

    async def _prove(self, table: Table, day: date) -> _Proved | None:
        """Hold what the database has against what was archived."""
        async with self._database.transaction() as session:
            await session.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
            await session.execute(_PATIENTLY)
            rows = await _parts(session, table, day)
            parts = [piece_of(row) for row in rows]
            whole = bool(parts) and parts[-1].upto is None
            if not whole or any(part.state != "verified" for part in parts):
                return None
            mark = await session.fetchrow("SELECT pg_snapshot_xmin(pg_current_snapshot())::xid AS mark")
            changed = []
            for row, part in zip(rows, parts, strict=True):
                now = await proof_of(session, table, day, part.after, part.upto)
                if now != (row["rows"], row["content"]):
                    changed.append(part)
        if changed:
            await self._export_again(changed)
            return None
        return _Proved(parts[0].round, sum(row["rows"] for row in rows), mark["mark"])

    async def _export_again(self, parts: Sequence[Piece]) -> None:
        async with self._database.transaction() as session:
            for part in parts:
                await session.execute(
                    "UPDATE archives SET state = 'exporting', changed_at = tocsin_now() WHERE name = $1 AND day = $2"
                    " AND round = $3 AND part = $4 AND tries = $5 AND state = 'verified'",
                    *part.key,
                )
        _log.info("archive.day_changed", table=parts[0].table, day=str(parts[0].day), parts=len(parts))


async def _as_proved(session: Any, table: Table, day: date, proved: _Proved) -> bool:
    """Whether a day that is locked is as it was proved: nothing was deleted, nothing written since."""
    row = await session.fetchrow(
        f"SELECT count(*) AS rows, count(*) FILTER (WHERE age(xmin) <= age('{proved.mark:d}'::xid)) AS newer,"  # noqa: S608
        " (SELECT bool_and(state = 'verified') FROM archives WHERE name = $1 AND day = $2 AND round = $3) AS verified"
        f" FROM {partition_of(table, day)}",
        table.name,
        day,
        proved.round,
        timeout=PATIENCE_SECONDS,
    )
    return row is not None and bool(row["verified"]) and (row["rows"], row["newer"]) == (proved.rows, 0)


async def _parts(session: Session, table: Table, day: date) -> list[Record]:
    """The parts of a day's newest round."""
    return await session.fetch(
        "SELECT * FROM archives WHERE name = $1 AND day = $2 AND round ="
        " (SELECT max(round) FROM archives WHERE name = $1 AND day = $2) ORDER BY part",
        table.name,
        day,
    )


async def _drop_partition(session: Any, partition: str, lock_timeout_ms: int) -> None:
    """Drop a day. What stands behind a lock that we wait for would be held up, so we wait briefly, and more
    than once: to prove the day again would take longer."""
    await session.execute(f"SET LOCAL lock_timeout = {lock_timeout_ms}")
    for attempt in range(_LOCK_TRIES):
        try:
            async with session.transaction():
                await session.execute(f"DROP TABLE {partition}")
            break
        except DatabaseError as error:
            if error.sqlstate != _LOCKED or attempt == _LOCK_TRIES - 1:
                raise
        await asyncio.sleep(_BETWEEN_TRIES)
    await session.execute("DELETE FROM day_walks WHERE partition = $1", partition)
