"""What attempts logged, kept with the execution and dropped by the day like history."""

from collections.abc import Sequence
from typing import Final

import msgspec

from tocsin.db.pool import Database, Record
from tocsin.db.rows import arrays
from tocsin.db.statements import named
from tocsin.domain.cells import CELL
from tocsin.domain.ids import ExecutionKey
from tocsin.domain.instant import Instant
from tocsin.domain.logs import kept_of
from tocsin.domain.protocol import LogLine
from tocsin.store.statements import sql

_APPEND = named("tocsin.store", "append_logs")
_COLUMNS: Final = (
    "job_ids",
    "fire_ats",
    "tokens",
    "seqs",
    "ats",
    "levels",
    "messages",
    "fields",
    "totals",
)


class Logged(msgspec.Struct, frozen=True):
    """Lines of one attempt, by the claim under which it is made."""

    key: ExecutionKey
    attempt: int
    token: int
    lines: Sequence[LogLine]


class LogStore:
    """Lines of all tenants; what is read names the tenant."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def append(self, logged: Sequence[Logged], now: Instant) -> None:
        """Keep what has not been kept, as far as an attempt may log."""
        if not logged:
            return
        rows = await self._database.fetch(
            sql("logged_so_far"),
            CELL,
            [one.key.job_id for one in logged],
            [one.key.fire_at for one in logged],
            [one.attempt for one in logged],
        )
        so_far = {row["place"]: (row["seq"], row["total"]) for row in rows}
        kept = [
            (*one.key, one.token, line.seq, line.at, line.level, line.message, line.fields, line.total)
            for place, one in enumerate(logged)
            for line in kept_of(one.lines, *so_far.get(place, (0, 0)), now)
        ]
        if kept:
            await self._database.execute(*_APPEND.given(cell=CELL, **arrays(_COLUMNS, kept)))

    async def read(
        self, tenant_id: int, key: ExecutionKey, after: tuple[int, int], limit: int
    ) -> list[Record]:
        """Lines of an execution in order, after an attempt's line."""
        return await self._database.fetch(
            "SELECT attempt, seq, at, level, message, fields FROM attempt_logs"
            " WHERE cell = $1 AND job_id = $2 AND fire_at = $3 AND tenant_id = $4 AND (attempt, seq) > ($5, $6)"
            " ORDER BY attempt, seq LIMIT $7",
            CELL,
            key.job_id,
            key.fire_at,
            tenant_id,
            *after,
            limit,
        )
