"""What is in the archive, and how far each part of a day is: exporting → written → verified → dropped.

The node that holds shard 0 works on a part, step by step, and each step is one guarded statement here: it
names the try that it belongs to, so that a node which was away for a while and comes back changes nothing. A
file's name is written down before the file is, so that there is never a file that the database does not know
of; what was replaced goes into `archive_leftovers`, and is removed a day later.
"""

from collections.abc import Sequence
from datetime import date
from typing import Any, Final

import msgspec

from tocsin.archive.tables import Table, content_of_bits
from tocsin.archive.work import Part
from tocsin.db.conditions import Conditions
from tocsin.db.pool import Database, Record
from tocsin.db.statements import named
from tocsin.domain.instant import HOUR, Instant, to_datetime
from tocsin.store.statements import sql

_PATIENTLY: Final = "SET LOCAL statement_timeout = '3600s'; SET LOCAL enable_seqscan = on"
PATIENCE_SECONDS: Final = 3600
MOST_BYTES: Final = 64 << 20
"""Text of a part: a file is made and read in bounded memory, however long its rows are."""
_SETTLED: Final = HOUR
"""How long a day must be over before it is archived: what ended on it is written by then."""
_KEY: Final = "name = $1 AND day = $2 AND round = $3 AND part = $4 AND tries = $5"
_LEFT: Final = "INSERT INTO archive_leftovers (object) VALUES ($1) ON CONFLICT (object) DO UPDATE SET since = tocsin_now()"

_GONE: Final = (
    "UPDATE archives SET state = 'dropped', changed_at = tocsin_now() WHERE name = $1 AND state = 'verified'"
    " AND to_regclass(name || '_' || to_char(day, 'YYYYMMDD')) IS NULL"
)
"""Days that a node dropped which has no archive: their files are all that is left."""


class Bound(msgspec.Struct, frozen=True):
    """A place between rows of a day."""

    tenant: int
    at: Instant
    tie: str | None = None
    """Which row of this tenant and instant; None: all of them are before."""


class Piece(msgspec.Struct, frozen=True, kw_only=True):
    """A part of a day that is being archived."""

    table: str
    day: date
    round: int
    part: int
    tries: int
    state: str
    after: Bound | None = None
    upto: Bound | None = None
    file: Part | None = None

    @property
    def key(self) -> tuple[str, date, int, int, int]:
        """What names it and the try."""
        return self.table, self.day, self.round, self.part, self.tries


class Made(msgspec.Struct, frozen=True):
    """A file that was made: what the database held, and what came of it. No rows make no file."""

    rows: int
    content: str
    object: str | None
    sha256: str | None
    bytes: int
    edition: int

    @property
    def file(self) -> Part | None:
        """The file, if there is one."""
        if self.object is None or self.sha256 is None:
            return None
        return Part(self.object, self.sha256, self.rows, self.content, self.edition)


class ArchiveFilter(msgspec.Struct, frozen=True):
    """What a listing is narrowed to."""

    table: str | None = None
    day_from: date | None = None
    day_to: date | None = None


class ArchiveStore:
    """The table of the archive."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def unknown_columns(self, table: Table) -> list[str]:
        """Columns that a newer version gave the table: we would lose what they hold."""
        rows = await self._database.fetch(
            "SELECT attname FROM pg_attribute WHERE attrelid = $1::text::regclass AND attnum > 0 AND NOT attisdropped"
            " AND attname <> ALL ($2::text[]) ORDER BY attname",
            table.name,
            [column.name for column in table.columns],
        )
        return [row["attname"] for row in rows]

    async def next_day(self, table: Table, now: Instant) -> tuple[date | None, int]:
        """The oldest day that is over and not archived yet, and how many wait behind it."""
        await self._database.execute(_GONE, table.name)
        rows = await self._database.fetch(
            sql("days_to_archive"), table.name, to_datetime(now - _SETTLED).date()
        )
        return (rows[0]["day"], len(rows) - 1) if rows else (None, 0)

    async def begin(self, table: Table, day: date, rows: int) -> Piece | None:
        """Take up a day where it was left, or cut the next part of at most `rows` rows. None: another node is
        doing it, or it is done."""
        async with self._database.transaction() as session:
            await session.execute(_PATIENTLY)
            await session.execute("SELECT pg_advisory_xact_lock(hashtext('tocsin archive'))")
            last = await session.fetchrow(
                "SELECT * FROM archives WHERE name = $1 AND day = $2 ORDER BY round DESC, part DESC LIMIT 1",
                table.name,
                day,
            )
            if last is not None:
                taken_up = await session.fetchrow(
                    "UPDATE archives SET tries = tries + 1 WHERE (name, day, round, part) = (SELECT name, day, round, part"
                    " FROM archives WHERE name = $1 AND day = $2 AND round = $3 AND state IN ('exporting', 'written')"
                    " ORDER BY part LIMIT 1) RETURNING *",
                    table.name,
                    day,
                    last["round"],
                )
                if taken_up is not None:
                    return piece_of(taken_up)
                if last["state"] == "verified" and last["upto_at"] is None:
                    return None
            return await self._cut(session, table, day, last, rows)

    async def _cut(self, session: Any, table: Table, day: date, last: Record | None, rows: int) -> Piece:
        """The part behind the last one of its round, or the first of a new round."""
        goes_on = last is not None and last["state"] != "dropped"
        after = bound_of(last, "upto") if last is not None and goes_on else None
        cut = named("tocsin.store", "cut_archive_part")
        words = {
            "the_day": partition_of(table, day),
            "tenant_of": table.tenant,
            "at_of": table.at,
            "tie_of": table.tie,
            "size_of": table.size,
            "within_bounds": within(table, after, None),
        }
        text, *values = cut.given(rows=rows, bytes=MOST_BYTES)
        for word, meant in words.items():
            text = text.replace(word, meant)
        end = await session.fetchrow(text, *values, timeout=PATIENCE_SECONDS)
        began = await session.fetchrow(
            *named("tocsin.store", "begin_archive_part").given(
                name=table.name,
                day=day,
                round=0 if last is None else last["round"] + (not goes_on),
                part=last["part"] + 1 if last is not None and goes_on else 0,
                after_tenant=after and after.tenant,
                after_at=after and after.at,
                after_tie=after and after.tie,
                upto_tenant=end["tenant"],
                upto_at=end["at"],
                upto_tie=end["tie"],
                edition=table.edition,
            )
        )
        return piece_of(began)

    async def made(self, piece: Piece, made: Made) -> bool:
        """A file was made and is about to be put under its name. False: another node has the part."""
        async with self._database.transaction() as session:
            before = await session.fetchrow(
                f"SELECT object FROM archives WHERE {_KEY} AND state = 'exporting' FOR UPDATE",  # noqa: S608
                *piece.key,
            )
            if before is None:
                return False
            if before["object"] not in (None, made.object):
                await session.execute(_LEFT, before["object"])
            await session.execute("DELETE FROM archive_leftovers WHERE object = $1", made.object)
            key = dict(zip(("name", "day", "round", "part", "tries"), piece.key, strict=True))
            noted = named("tocsin.store", "note_archive_file")
            await session.execute(*noted.given(**msgspec.structs.asdict(made), **key))
            return True

    async def written(self, piece: Piece) -> bool:
        """The file is under its name."""
        return await self._moved(piece, "exporting", "state = 'written'")

    async def verified(self, piece: Piece) -> bool:
        """The file was read back, and holds what the database held."""
        going_well = "state = 'verified', failures = 0, trouble = NULL"
        return await self._moved(piece, "written", going_well)

    async def failed(self, piece: Piece, trouble: str) -> None:
        """A step went wrong; it is tried again."""
        await self._moved(piece, piece.state, "failures = failures + 1, trouble = $6", trouble[:1000])

    async def spoiled(self, piece: Piece, trouble: str) -> None:
        """The file does not hold what it should: the part is exported again."""
        words = "state = 'exporting', failures = failures + 1, trouble = $6"
        await self._moved(piece, "written", words, trouble[:1000])

    async def files(
        self, where: ArchiveFilter, after: tuple[date, str, int, int] | None, limit: int
    ) -> list[Record]:
        """Parts of days, the latest day first."""
        asked = Conditions()
        asked.add("name = {}", where.table)
        asked.add("day >= {}", where.day_from)
        asked.add("day < {}", where.day_to)
        if after is not None:
            asked.add("(day, name, round, part) < ({}::date,", after[0])
            asked.continue_with("{}::text,", after[1])
            asked.continue_with("{}::smallint,", after[2])
            asked.continue_with("{}::integer)", after[3])
        return await self._database.fetch(
            f"SELECT * FROM archives WHERE {asked} ORDER BY day DESC, name DESC, round DESC, part DESC LIMIT {limit:d}",  # noqa: S608
            *asked.values,
        )

    async def leftovers(self, limit: int) -> list[str]:
        """Files that were replaced a day ago or earlier, and are no part of the archive."""
        rows = await self._database.fetch(
            "SELECT l.object FROM archive_leftovers l WHERE l.since < tocsin_now() - interval '1 day'"
            " AND NOT EXISTS (SELECT FROM archives a WHERE a.object = l.object) ORDER BY l.since LIMIT $1",
            limit,
        )
        return [row["object"] for row in rows]

    async def removed(self, objects: Sequence[str]) -> None:
        """Leftovers are gone."""
        await self._database.execute("DELETE FROM archive_leftovers WHERE object = ANY ($1::text[])", objects)

    async def _moved(self, piece: Piece, state: str, changes: str, *values: Any) -> bool:
        done = await self._database.fetchrow(
            f"UPDATE archives SET {changes}, changed_at = tocsin_now() WHERE {_KEY} AND state = '{state}' RETURNING 1",  # noqa: S608
            *piece.key,
            *values,
        )
        return done is not None


def piece_of(row: Record) -> Piece:
    """A part from its row."""
    return Piece(
        table=row["name"],
        day=row["day"],
        round=row["round"],
        part=row["part"],
        tries=row["tries"],
        state=row["state"],
        after=bound_of(row, "after"),
        upto=bound_of(row, "upto"),
        file=file_of(row) if row["state"] != "exporting" else None,
    )


def file_of(row: Record) -> Part | None:
    """The file of a part; None before there is one, and where there are no rows."""
    if row["object"] is None:
        return None
    return Part(row["object"], row["sha256"], row["rows"], row["content"], row["edition"])


def partition_of(table: Table, day: date) -> str:
    """The table of a day."""
    return f"{table.name}_{day:%Y%m%d}"


def bound_of(row: Record, end: str) -> Bound | None:
    """One end of a part, from its row; None if that end is open."""
    if row[f"{end}_at"] is None:
        return None
    return Bound(row[f"{end}_tenant"], row[f"{end}_at"], row[f"{end}_tie"])


def within(table: Table, after: Bound | None, upto: Bound | None) -> str:
    """Which rows of a day are between two places. It is text without parameters, for COPY has none."""
    parts = [f"{_compared(table, bound)[0]} {sign} {_compared(table, bound)[1]}"
             for sign, bound in ((">", after), ("<=", upto)) if bound is not None]  # fmt: skip
    return " AND ".join(parts) or "true"


def _compared(table: Table, bound: Bound) -> tuple[str, str]:
    """The columns that are compared with a bound, and its values. A tie is ours: an id of PostgreSQL's."""
    columns, values = [table.tenant, table.at], [f"{bound.tenant:d}", _instant(bound.at)]
    if bound.tie is not None:
        column, kind = table.tie.split("::")
        columns.append(column)
        values.append(f"'{bound.tie}'::{kind}")
    return f"({', '.join(columns)})", f"({', '.join(values)})"


def _instant(at: Instant) -> str:
    return f"timestamptz 'epoch' + {at:d} * interval '1 microsecond'"


async def proof_of(
    session: Any, table: Table, day: date, after: Bound | None, upto: Bound | None
) -> tuple[int, str]:
    """How many rows a part has in the database now, and their content."""
    row = await session.fetchrow(
        f"SELECT {table.stored_proof} FROM {partition_of(table, day)} WHERE {within(table, after, upto)}",  # noqa: S608
        timeout=PATIENCE_SECONDS,
    )
    return (row["rows"], content_of_bits(row["content"])) if row is not None else (0, "")
