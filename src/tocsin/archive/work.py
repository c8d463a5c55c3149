"""What a process of its own does for the archive: one task on standard input, one answer on standard output.

``python -m tocsin.archive.work``. It is started for the task and ends with it, so whatever a broken file, a
large query or a stuck object store does, it does to a process that no other part needs. It has low priority,
dies with the process that started it, and at the latest when its time is over.
"""

import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from time import monotonic
from typing import Any, Final

import msgspec

from tocsin.archive.cache import Cache
from tocsin.archive.files import digest, duckdb_error, open_duckdb, proof, reading
from tocsin.archive.objects import Objects, open_objects
from tocsin.archive.priority import give_way
from tocsin.archive.tables import TABLES, Table
from tocsin.domain.errors import Refused, TocsinError, Unavailable

_MOST_ANSWERED: Final = 5_000


class Place(msgspec.Struct, frozen=True):
    """Where the archive is."""

    where: str
    endpoint: str | None = None

    def open(self) -> Objects:
        """Its files."""
        return open_objects(self.where, self.endpoint)


class Part(msgspec.Struct, frozen=True):
    """A file of the archive, and what is known of it."""

    object: str
    sha256: str
    rows: int
    content: str
    edition: int = 1


class _Task(msgspec.Struct, frozen=True, tag=True, kw_only=True):
    """Something to do."""

    place: Place
    seconds: float
    """After which the process is over."""


class Put(_Task, frozen=True):
    """Keep a file under a name."""

    name: str
    file: str


class Check(_Task, frozen=True):
    """Read a part back, and compare it with what is known of it: the answer is what is wrong, if anything."""

    table: str
    part: Part


class Remove(_Task, frozen=True):
    """Remove files."""

    names: list[str]


class Ask(_Task, frozen=True):
    """Rows of parts, latest first. A group of parts is read together; groups are read in turn until there are
    enough rows, or no time to begin another."""

    table: str
    groups: list[list[Part]]
    condition: str
    values: list[Any]
    order: str
    limit: int
    budget: float
    """Seconds after which no other group is begun."""


class Answered(msgspec.Struct, frozen=True):
    """What was found, and how many groups were read to their ends."""

    rows: list[dict[str, Any]]
    groups: int


class Query(_Task, frozen=True):
    """A statement of a person over parts of a table, which have its name."""

    tables: dict[str, list[Part]]
    statement: str
    limit: int | None = None


class Told(msgspec.Struct, frozen=True):
    """What a statement answered."""

    columns: list[str]
    rows: list[list[Any]]


Task = Put | Check | Remove | Ask


class Answer(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a task answers, or why it does not. `refused`: it is the caller's fault."""

    value: msgspec.Raw = msgspec.Raw(b"null")
    trouble: str | None = None
    refused: bool = False


def perform(task: Task | Query) -> Any:
    """Do a task in this process."""
    with tempfile.TemporaryDirectory(prefix="tocsin-archive-") as folder:
        scratch, objects = Path(folder), task.place.open()
        match task:
            case Put():
                objects.put(task.name, Path(task.file))
                return None
            case Check():
                return wrong_with(objects, TABLES[task.table], task.part, scratch)
            case Remove():
                for name in task.names:
                    objects.remove(name)
                return None
            case Ask():
                return _ask(task, Cache(objects, task.place.where), scratch)
            case Query():
                return query(task, Cache(objects, task.place.where), scratch)


def wrong_with(objects: Objects, table: Table, part: Part, scratch: Path) -> str | None:
    """What is wrong with a part, in words; None if it holds what the database held."""
    file = objects.fetch(part.object, scratch)
    try:
        if digest(file) != part.sha256:
            return "its bytes are not those that were written"
        rows, content = proof(table, part.edition, file, scratch)
    except Unavailable as error:
        return str(error)
    finally:
        if file.is_relative_to(scratch):
            file.unlink(missing_ok=True)
    if rows != part.rows:
        return f"it has {rows:,} rows instead of {part.rows:,}"
    return None if content == part.content else "its rows are not those of the database"


def query(task: Query, cache: Cache, scratch: Path) -> Told:
    """What a person's statement answers. It sees the tables and no file beside theirs."""
    with open_duckdb(scratch) as duckdb:
        try:
            for name, parts in task.tables.items():
                files = [cache.fetch(part.object, part.sha256) for part in parts]
                duckdb.execute(f"CREATE VIEW {name} AS SELECT * FROM {_source(TABLES[name], files)}")  # noqa: S608
            folders = sorted({str(path) for path in cache.folders})
            duckdb.execute("SET allowed_directories = $1", [folders])
            duckdb.execute("SET enable_external_access = false")
            duckdb.execute("SET lock_configuration = true")
            found = duckdb.execute(task.statement)
            rows = found.fetchall() if task.limit is None else found.fetchmany(task.limit)
            return Told([column[0] for column in found.description or ()], [list(row) for row in rows])
        except duckdb_error() as error:
            raise Refused(str(error), field="sql") from error


def _ask(task: Ask, cache: Cache, scratch: Path) -> Answered:
    table, until, read = TABLES[task.table], monotonic() + task.budget, 0
    rows: list[dict[str, Any]] = []
    with open_duckdb(scratch) as duckdb:
        for group in task.groups:
            if len(rows) >= task.limit or (read and monotonic() > until):
                break
            files = [cache.fetch(part.object, part.sha256) for part in group]
            statement = (
                f"SELECT {_columns(table, group)} FROM {_source(table, files)} AS h"  # noqa: S608
                f" WHERE {task.condition} ORDER BY {task.order} LIMIT {min(task.limit, _MOST_ANSWERED) - len(rows):d}"
            )
            try:
                found = duckdb.execute(statement, task.values)
                names = [column[0] for column in found.description]
                rows += [dict(zip(names, row, strict=True)) for row in found.fetchall()]
            except duckdb_error() as error:
                raise Unavailable("the archive cannot be read", why=str(error)) from error
            read += 1
    return Answered(rows, read)


def _columns(table: Table, group: Sequence[Part]) -> str:
    """All columns; those that came after every file of a group are NULL."""
    newest = max(part.edition for part in group)
    known = [
        f'h."{column.name}"' if column.since <= newest else f'NULL AS "{column.name}"'
        for column in table.columns
    ]
    return ", ".join([*known, *(f"h.{name}" for name, _ in table.extra_types)])


def _source(table: Table, files: Sequence[Path]) -> str:
    if files:
        return reading(files)
    columns = ", ".join(f'CAST(NULL AS {kind}) AS "{name}"' for name, kind in table.types.items())
    return f"(SELECT {columns} WHERE false)"


def main() -> None:
    """Do the task on standard input."""
    task = msgspec.json.decode(sys.stdin.buffer.read(), type=Put | Check | Remove | Ask | Query)
    give_way(task.seconds)
    try:
        answer = Answer(msgspec.Raw(msgspec.json.encode(perform(task), enc_hook=str)))
    except TocsinError as error:
        answer = Answer(trouble=str(error), refused=isinstance(error, Refused))
    except (OSError, MemoryError) as error:
        answer = Answer(trouble=str(error) or type(error).__name__)
    sys.stdout.buffer.write(msgspec.json.encode(answer))
    sys.stdout.buffer.flush()


if __name__ == "__main__":
    main()
