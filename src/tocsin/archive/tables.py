"""What is archived, column by column, and how content is proved.

A file holds what the database held if both give the same two numbers: how many rows, and the exclusive or of
the rows' hashes. A row's hash is the MD5 of its columns as text; it guards against mistakes and decay, not
against forgers. Both sides compute it by themselves, PostgreSQL from its rows and duckdb from the file, so
the proof covers everything in between. Columns have the same text on both sides: instants are microseconds
since 1970, JSON is text already.
"""

from collections.abc import Iterator
from typing import Final, Literal

import msgspec

Kind = Literal["bigint", "integer", "text", "uuid", "instant", "json"]
_TYPES: Final = {
    "bigint": "BIGINT",
    "integer": "INTEGER",
    "text": "VARCHAR",
    "uuid": "UUID",
    "instant": "BIGINT",
    "json": "VARCHAR",
}
_NULL: Final = "chr(1)"
_BETWEEN: Final = "chr(2)"


class Column(msgspec.Struct, frozen=True):
    """A column, and the first edition of the files that has it."""

    name: str
    kind: Kind = "text"
    since: int = 1


class Table(msgspec.Struct, frozen=True):
    """A table with days: its rows are sorted by tenant and by the instant that puts a row into its day."""

    name: str
    at: str
    tenant: str
    """Whose a row is, as an expression that is never NULL: 0 means none's."""
    rest: str
    """What orders rows of one tenant and instant."""
    tie: str
    """The column that tells nearly all rows of one tenant and instant apart, and its type."""
    columns: tuple[Column, ...]
    edition: int = 1
    extra: str = ""
    """Columns that are written for readers and are not part of the row: they prove nothing."""
    extra_types: tuple[tuple[str, str], ...] = ()

    @property
    def size(self) -> str:
        """About how many bytes a row has when it is copied out."""
        long = [column.name for column in self.columns if column.kind in ("text", "json")]
        return " + ".join(["200", *(f"coalesce(octet_length({name}::text), 0)" for name in long)])

    def of_edition(self, edition: int) -> Iterator[Column]:
        """Those that files of an edition have."""
        return (column for column in self.columns if column.since <= edition)

    @property
    def selected(self) -> str:
        """What is copied out of the database."""
        columns = ", ".join(f"{_told(column)} AS {column.name}" for column in self.columns)
        return f"{columns}, {self.extra}" if self.extra else columns

    @property
    def types(self) -> dict[str, str]:
        """The columns of a new file, and what duckdb calls their types."""
        return {column.name: _TYPES[column.kind] for column in self.columns} | dict(self.extra_types)

    @property
    def stored_proof(self) -> str:
        """Rows and content, as PostgreSQL computes them."""
        row = ", ".join(f"coalesce({_told(column)}::text, {_NULL})" for column in self.columns)
        content = f"bit_xor(('x' || md5(concat_ws({_BETWEEN}, {row})))::bit(128))::text"
        return f"count(*) AS rows, coalesce({content}, repeat('0', 128)) AS content"

    def archived_proof(self, edition: int) -> str:
        """The same of a file, as duckdb computes it: the content is in two halves."""
        columns = self.of_edition(edition)
        row = ", ".join(f'coalesce(CAST("{column.name}" AS VARCHAR), {_NULL})' for column in columns)
        hashed = f"md5(concat_ws({_BETWEEN}, {row}))"
        halves = [f"coalesce(bit_xor(CAST('0x' || substr(hash, {at}, 16) AS UBIGINT)), 0)" for at in (1, 17)]
        return f"SELECT count(*), {', '.join(halves)} FROM (SELECT {hashed} AS hash FROM read_parquet($file))"  # noqa: S608


def content_of_bits(bits: str) -> str:
    """Content as it is written down, from the bits that PostgreSQL answers."""
    return f"{int(bits, 2):032x}"


def content_of_halves(upper: int, lower: int) -> str:
    """The same, from duckdb's halves."""
    return f"{upper:016x}{lower:016x}"


def _told(column: Column) -> str:
    match column.kind:
        case "instant":
            return f"(extract(epoch FROM {column.name}) * 1000000)::bigint"
        case "uuid" | "json":
            return f"{column.name}::text"
        case _:
            return column.name


HISTORY: Final = Table(
    name="history",
    at="finished_at",
    tenant="tenant_id",
    rest="job_id, fire_at",
    tie="job_id::uuid",
    columns=(
        Column("cell", "integer"),
        Column("job_id", "uuid"),
        Column("fire_at", "instant"),
        Column("tenant_id", "integer"),
        Column("queue"),
        Column("priority", "integer"),
        Column("cause"),
        Column("state"),
        Column("due_at", "instant"),
        Column("run_at", "instant"),
        Column("started_at", "instant"),
        Column("finished_at", "instant"),
        Column("attempt", "integer"),
        Column("attempts", "json"),
        Column("outcome", "json"),
        Column("reason"),
        Column("error_fingerprint"),
        Column("fire_until", "instant"),
        Column("fire_count", "integer"),
        Column("claim_token", "bigint"),
        Column("node_id", "bigint"),
        Column("job_version", "integer"),
        Column("origin_fire_at", "instant"),
        Column("backfill_id", "bigint"),
        Column("waits", "json"),
        Column("late_for"),
        Column("worker_id", "bigint"),
        Column("discarded_at", "instant"),
    ),
    # A job may be forgotten long before its history is.
    extra="(SELECT j.name FROM jobs j WHERE j.cell = t.cell AND j.id = t.job_id) AS job_name",
    extra_types=(("job_name", "VARCHAR"),),
)
AUDIT: Final = Table(
    name="audit",
    at="at",
    tenant="coalesce(tenant_id, 0)",
    rest="id",
    tie="id::bigint",
    columns=(
        Column("at", "instant"),
        Column("tenant_id", "integer"),
        Column("actor"),
        Column("action"),
        Column("object"),
        Column("before", "json"),
        Column("after", "json"),
        Column("request_id"),
        Column("address"),
        Column("id", "bigint"),
        Column("via", since=2),
    ),
    edition=2,
)
TABLES: Final = {table.name: table for table in (HISTORY, AUDIT)}
