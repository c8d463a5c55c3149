"""Copies days that are over into the archive, piece by piece, so that retention may drop them.

A piece is exported by a process of its own, written under a name that contains its hash, read back and held
against what the database held; each step is written down before the next begins. A crash at any point leaves
a piece that is taken up again, and never a row in two places or in none: only retention drops, and only what
was verified (`store/archived_days`). Between pieces it rests, for what fires has precedence; the more days
wait, the shorter.

A failure is kept with the piece, for alerts and `tocsin doctor`, and the step is tried again minutes later.
"""

import contextlib
import fcntl
import os
import shutil
import tempfile
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any, Final

import msgspec
import structlog

from tocsin.archive.process import in_a_process
from tocsin.archive.tables import AUDIT, HISTORY, Table
from tocsin.archive.work import Check, Place, Put, Remove
from tocsin.clock import Clock
from tocsin.domain.errors import Refused, Unavailable
from tocsin.domain.instant import MINUTE, SECOND, Instant, Span
from tocsin.failpoints import Failpoints
from tocsin.scheduler.leaser import Leases
from tocsin.service import AGAIN_NOW, Report
from tocsin.store.archives import ArchiveStore, Made, Piece
from tocsin.store.exporting import MODULE as EXPORTING
from tocsin.store.exporting import Export
from tocsin.telemetry import Telemetry

PIECE: Final = 250_000
"""Rows of a file: what a process of 256 MB sorts and writes in some seconds."""
_RESTS: Final = 4
"""How many times as long as a piece took the rest is."""
_LONGEST_REST: Final[Span] = 2 * MINUTE
_NEXT_LOOK: Final[Span] = 5 * MINUTE
_AFTER_TROUBLE: Final[Span] = MINUTE
_LONGEST_AFTER_TROUBLE: Final[Span] = 30 * MINUTE
_MOST_LEFTOVERS: Final = 100
_EXPORT_SECONDS: Final = 3600.0
_FILE_SECONDS: Final = 300.0
_FOLDER: Final = "tocsin-export-"
_log = structlog.get_logger()

Run = Callable[..., Awaitable[Any]]


class Archiver:
    """Runs on the node that leases shard 0."""

    name = "archiver"
    interval = 300.0

    def __init__(
        self,
        store: ArchiveStore,
        leases: Leases,
        clock: Clock,
        telemetry: Telemetry,
        failpoints: Failpoints,
        place: Place,
        url: str,
        *,
        piece: int = PIECE,
        run: Run = in_a_process,
    ) -> None:
        """`url`: the database, for the process that copies rows out of it."""
        self._store = store
        self._leases = leases
        self._clock = clock
        self._telemetry = telemetry
        self._failpoints = failpoints
        self._place = place
        self._url = url
        self._piece = piece
        self._run = run
        self._troubles = 0
        self._not_before: Instant = 0

    async def run_once(self, now: Instant) -> Report:
        """One piece, the oldest day first."""
        if 0 not in self._leases.trusted():
            return Report(again_at=now + MINUTE)
        if now < self._not_before:
            return Report(again_at=self._not_before)
        began = self._clock.monotonic()
        try:
            await self._remove_leftovers()
            rows, behind = await self._next(now)
        except (Unavailable, Refused) as error:
            return self._again_later(now, error)
        self._troubles = 0
        if rows is None:
            return Report(again_at=now + _NEXT_LOOK)
        took = round((self._clock.monotonic() - began) * SECOND)
        rest = min(took * _RESTS // (1 + behind), _LONGEST_REST)
        return Report(rows, again_at=now + took + rest if rest else AGAIN_NOW)

    def _again_later(self, now: Instant, error: Exception) -> Report:
        pause = min(_AFTER_TROUBLE << self._troubles, _LONGEST_AFTER_TROUBLE)
        self._troubles = min(self._troubles + 1, 10)
        self._not_before = now + pause
        self._telemetry.archive_failed.inc()
        _log.error("archive.failed", error=str(error), retry_in=pause // SECOND)
        return Report(again_at=self._not_before)

    async def _next(self, now: Instant) -> tuple[int | None, int]:
        """How many rows were archived, and how many days wait; None if there is nothing to archive."""
        for table in (HISTORY, AUDIT):
            unknown = await self._store.unknown_columns(table)
            if unknown:
                words = f"{table.name} has columns of a newer version: {', '.join(unknown)}"
                raise Unavailable("days are left to newer nodes", why=words)
            day, behind = await self._store.next_day(table, now)
            piece = None if day is None else await self._store.begin(table, day, self._piece)
            if piece is not None:
                return await self._archive(table, piece), behind
        return None, 0

    async def _archive(self, table: Table, piece: Piece) -> int:
        """Take a piece as far as `verified`. Returns its rows; none if another node took it over."""
        try:
            await self._failpoints.reach("archive.begun")
            if piece.state == "exporting":
                made = await self._export(piece)
                if made is None:
                    return 0
                piece = made
            rows = await self._verify(table, piece)
        except (Unavailable, Refused) as error:
            await self._store.failed(piece, str(error))
            raise
        self._telemetry.archived_rows.labels(table.name).inc(rows)
        return rows

    async def _export(self, piece: Piece) -> Piece | None:
        """Make the file and put it under its name."""
        with _scratch() as folder:
            file = folder / "piece.parquet"
            task = Export(
                url=self._url,
                table=piece.table,
                day=piece.day,
                part=piece.part,
                file=str(file),
                seconds=_EXPORT_SECONDS,
                after=piece.after,
                upto=piece.upto,
            )
            made: Made = await self._run(task, Made, EXPORTING)
            await self._failpoints.reach("archive.made")
            if not await self._store.made(piece, made):
                return None
            await self._failpoints.reach("archive.named")
            if made.object is not None:
                put = Put(place=self._place, seconds=_FILE_SECONDS, name=made.object, file=str(file))
                await self._run(put, None)
        await self._failpoints.reach("archive.put")
        if not await self._store.written(piece):
            return None
        await self._failpoints.reach("archive.written")
        return msgspec.structs.replace(piece, state="written", file=made.file)

    async def _verify(self, table: Table, piece: Piece) -> int:
        """Read the file back, and hold it against what the database held."""
        if piece.file is not None:
            check = Check(place=self._place, seconds=_FILE_SECONDS, table=table.name, part=piece.file)
            wrong = await self._run(check, str | None)
            if wrong is not None:
                # A new file could not be put under its name; and a file that was never verified is never
                # read.
                await self._run(
                    Remove(place=self._place, seconds=_FILE_SECONDS, names=[piece.file.object]), None
                )
                await self._store.spoiled(piece, wrong)
                raise Unavailable("a file of the archive was spoiled", why=f"{piece.file.object}: {wrong}")
        await self._failpoints.reach("archive.checked")
        if not await self._store.verified(piece):
            return 0
        _log.info(
            "archive.verified",
            table=piece.table,
            day=str(piece.day),
            part=piece.part,
            rows=piece.file.rows if piece.file else 0,
        )
        return piece.file.rows if piece.file else 0

    async def _remove_leftovers(self) -> None:
        objects = await self._store.leftovers(_MOST_LEFTOVERS)
        if objects:
            await self._run(Remove(place=self._place, seconds=_FILE_SECONDS, names=objects), None)
            await self._store.removed(objects)
            _log.info("archive.tidied", removed=len(objects))


@contextlib.contextmanager
def _scratch() -> Iterator[Path]:
    """A new folder for one piece, locked while it is used. Those of processes that died, which hold no lock
    any more, are removed first."""
    with contextlib.ExitStack() as stack:
        try:
            for left in Path(tempfile.gettempdir()).glob(f"{_FOLDER}*"):
                with contextlib.suppress(OSError), _locked(left):
                    shutil.rmtree(left, ignore_errors=True)
            folder = Path(tempfile.mkdtemp(prefix=_FOLDER))
            stack.enter_context(_locked(folder))
        except OSError as error:
            raise Unavailable("the temporary directory cannot be written", why=str(error)) from error
        stack.callback(shutil.rmtree, folder, ignore_errors=True)
        yield folder


@contextlib.contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Raises an OSError if another process has it."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    finally:
        os.close(descriptor)
