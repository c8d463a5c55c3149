"""Copies a part of a day out of the database and makes a Parquet file of it, in a process of its own.

``python -m tocsin.store.exporting``: one task on standard input, one answer on standard output, as in
`archive/work`. Rows, their number and their content are read in one snapshot, so that the file can be held
against the database later. The process has a connection of its own, and the URL never stands in a command.
"""

import asyncio
import os
import sys
from datetime import date
from pathlib import Path
from typing import Final

import msgspec

from tocsin.archive.files import digest, make_file
from tocsin.archive.priority import give_way
from tocsin.archive.tables import TABLES, Table
from tocsin.archive.work import Answer
from tocsin.db.pool import Database, open_database
from tocsin.domain.cells import CELL
from tocsin.domain.errors import TocsinError
from tocsin.store.archives import PATIENCE_SECONDS, Bound, Made, partition_of, proof_of, within

MODULE: Final = "tocsin.store.exporting"


class Export(msgspec.Struct, frozen=True, kw_only=True):
    """Which part, and where its file is to be."""

    url: str
    table: str
    day: date
    part: int
    file: str
    """The file to make; its folder is scratch, too."""
    seconds: float
    after: Bound | None = None
    upto: Bound | None = None


async def export(task: Export) -> Made:
    """Make the file of a part."""
    table, file = TABLES[task.table], Path(task.file)
    copied = file.with_suffix(".csv")
    database = await open_database(
        task.url, name=f"tocsin archive {os.getpid()}", timeout=PATIENCE_SECONDS, size=1
    )
    try:
        rows, content = await _copy(database, table, task, copied)
    finally:
        await database.close()
    if not rows:
        return Made(0, content, None, None, 0, table.edition)
    make_file(table, copied, file, file.parent)
    copied.unlink()
    sha256 = digest(file)
    name = name_of(table, task.day, task.part, sha256)
    return Made(rows, content, name, sha256, file.stat().st_size, table.edition)  # noqa: ASYNC240 - in a process of its own


async def _copy(database: Database, table: Table, task: Export, copied: Path) -> tuple[int, str]:
    wanted = within(table, task.after, task.upto)
    query = (
        f"SELECT {table.selected} FROM {partition_of(table, task.day)} AS t WHERE {wanted}"  # noqa: S608
        f" ORDER BY {table.tenant}, {table.at}, {table.rest}"
    )
    async with (
        database.connection() as connection,
        connection.transaction(isolation="repeatable_read", readonly=True),
    ):
        proof = await proof_of(connection, table, task.day, task.after, task.upto)
        await connection.copy_from_query(query, output=copied, format="csv", timeout=PATIENCE_SECONDS)
    return proof


def name_of(table: Table, day: date, part: int, sha256: str) -> str:
    """What a file is called: by what it holds."""
    return f"archive/v1/{table.name}/day={day}/{CELL}-{part:05}-{sha256[:16]}.parquet"


def main() -> None:
    """Do the task on standard input."""
    task = msgspec.json.decode(sys.stdin.buffer.read(), type=Export)
    give_way(task.seconds)
    try:
        answer = Answer(msgspec.Raw(msgspec.json.encode(asyncio.run(export(task)))))
    except TocsinError as error:
        answer = Answer(trouble=str(error))
    except OSError as error:
        answer = Answer(trouble=str(error))
    sys.stdout.buffer.write(msgspec.json.encode(answer))
    sys.stdout.buffer.flush()


if __name__ == "__main__":
    main()
