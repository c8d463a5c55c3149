"""Days are copied into files before they are dropped: every row is in the database or in the archive, once,
whatever happens in between."""

import asyncio
import contextlib
import os
import signal
import tempfile
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from tests.support.archive import Crash, Days, inline
from tests.support.object_store import BUCKET, object_store
from tocsin.archive.asked import Asked
from tocsin.archive.process import WORK, in_a_process
from tocsin.archive.tables import AUDIT, HISTORY
from tocsin.archive.work import Place
from tocsin.db.pool import open_database
from tocsin.domain.errors import Unavailable
from tocsin.store import archived_executions, archives
from tocsin.store.archived_executions import ArchivedExecutions
from tocsin.store.exporting import Export
from tocsin.store.history import HistoryStore

Story = Callable[[Days], Awaitable[None]]
POINTS = (
    "archive.begun",
    "archive.made",
    "archive.named",
    "archive.put",
    "archive.written",
    "archive.checked",
    "archive.proved",
    "archive.before_drop",
    "archive.before_drop_commits",
)


def play(url: str, folder: Path, story: Story, place: Place | None = None, **given: object) -> None:
    """A story over a directory, or another place."""

    async def main() -> None:
        database = await open_database(url, name="test archive", size=3)
        try:
            await story(Days(database, url, place or Place(str(folder)), **given))  # type: ignore[arg-type]
        finally:
            await database.close()

    asyncio.run(main())


def test_what_was_dropped_is_in_the_files_row_by_row(url: str, tmp_path: Path) -> None:
    async def story(days: Days) -> None:
        await days.fill(3, 450, notes=120)
        await days.fill(2, 30)
        history, audit = await days.stored(), await days.stored(AUDIT)
        assert (len(history), len(audit)) == (480, 120)
        assert await days.archive() == 600
        for table, rows in (("history", 480), ("audit", 120)):
            assert days.telemetry.archived_rows.labels(table)._value.get() == rows
        assert await days.stored() == history  # to archive is not to drop
        await days.tidy()
        assert await days.old_days() == []
        assert (await days.stored(), await days.stored(AUDIT)) == ([], [])
        assert await days.archived() == history
        assert await days.archived(AUDIT) == audit

    play(url, tmp_path, story)


@pytest.mark.parametrize("point", POINTS)
def test_a_crash_loses_nothing_and_doubles_nothing(url: str, tmp_path: Path, point: str) -> None:
    async def story(days: Days) -> None:
        await days.fill(2, 60)
        history = await days.stored()
        days.crash_at(point)
        with pytest.raises(Crash):
            await days.tidy()
        assert sorted(await days.stored() + await days.archived()) == history
        await days.tidy()
        assert await days.stored() == []
        assert await days.archived() == history

    play(url, tmp_path, story)


@pytest.mark.parametrize("point", ["archive.put", "archive.before_drop_commits"])
def test_a_bucket_is_as_good_as_a_directory(
    url: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, point: str
) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "key-of-tests")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret-of-tests")
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))

    async def story(days: Days) -> None:
        await days.fill(2, 150)
        history = await days.stored()
        days.crash_at(point)
        with pytest.raises(Crash):
            await days.tidy()
        store.losing_answers = 1  # the object is there, and the try after it is told so
        await days.tidy()
        assert await days.stored() == []
        for name, body in store.objects.items():
            file = tmp_path / name.removeprefix("prefix/")
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(body)
        assert await days.archived(folder=tmp_path) == history
        assert store.signed >= store.puts > 0

    with object_store() as store:
        play(url, tmp_path, story, place=Place(f"s3://{BUCKET}/prefix", store.endpoint))


def test_a_dead_letter_that_was_replayed_meanwhile_is_not_in_the_archive(url: str, tmp_path: Path) -> None:
    async def story(days: Days) -> None:
        await days.fill(2, 250)
        await days.archive()
        gone = "DELETE FROM history WHERE ctid = (SELECT ctid FROM history WHERE state = 'dead' LIMIT 1)"
        await days.database.execute(gone)
        discarded = "UPDATE history SET discarded_at = finished_at WHERE state = 'dead'"
        await days.database.execute(discarded)
        history = await days.stored()
        assert await days.drop() == 0  # what is archived is not what is there
        assert await days.stored() == history
        await days.tidy()
        assert await days.archived() == history

    play(url, tmp_path, story)


def test_a_change_between_the_proof_and_the_drop_keeps_the_day(url: str, tmp_path: Path) -> None:
    async def story(days: Days) -> None:
        await days.fill(2, 50)
        await days.archive()

        async def change() -> None:
            days.failpoints._armed.pop("archive.proved")
            await days.database.execute("UPDATE history SET reason = 'changed' WHERE claim_token = 7")

        days.failpoints.arm("archive.proved", change)
        assert await days.drop() == 0
        history = await days.stored()
        await days.tidy()
        assert await days.archived() == history

    play(url, tmp_path, story)


def test_a_file_that_decays_before_it_is_verified_is_written_again(url: str, tmp_path: Path) -> None:
    async def story(days: Days) -> None:
        await days.fill(2, 150)
        history = await days.stored()

        async def decay() -> None:
            days.failpoints._armed.pop("archive.written")
            for file in tmp_path.rglob("*.parquet"):
                content = bytearray(file.read_bytes())
                content[len(content) // 2] ^= 1
                file.write_bytes(content)

        days.failpoints.arm("archive.written", decay)
        await days.archive()
        rows = await days.database.fetch("SELECT state, failures, trouble FROM archives WHERE failures > 0")
        assert [(row["state"], row["failures"]) for row in rows] == [("exporting", 1)]
        assert "bytes" in rows[0]["trouble"]
        assert days.telemetry.archive_failed._value.get() == 1
        assert await days.drop() == 0
        await days.tidy()
        assert await days.archived() == history
        assert (
            await days.database.fetch("SELECT FROM archives WHERE failures > 0 OR trouble IS NOT NULL") == []
        )

    play(url, tmp_path, story)


def test_while_nothing_can_be_written_nothing_is_dropped(url: str, tmp_path: Path) -> None:
    async def story(days: Days) -> None:
        await days.fill(2, 50)
        history = await days.stored()
        tmp_path.joinpath("archive").write_text("a file where the directory should be")
        await days.archive()
        assert await days.drop() == 0
        assert await days.stored() == history
        (row,) = await days.database.fetch("SELECT trouble FROM archives")
        assert "cannot be written" in row["trouble"]
        tmp_path.joinpath("archive").unlink()
        await days.tidy()
        assert await days.archived() == history

    play(url, tmp_path, story)


def test_a_node_without_room_for_a_piece_says_that_the_archive_fails(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def story(days: Days) -> None:
        await days.fill(2, 50)
        history = await days.stored()
        monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "gone"))
        await days.archive()
        assert days.telemetry.archive_failed._value.get() == 1
        (row,) = await days.database.fetch("SELECT trouble, failures FROM archives")
        assert (row["failures"], "temporary directory" in row["trouble"]) == (1, True)
        monkeypatch.undo()
        await days.tidy()
        assert await days.archived() == history

    play(url, tmp_path / "archive", story)


def test_what_processes_left_behind_that_were_killed_is_removed_though_their_number_is_in_use_again(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a container each process has the number that the one before it had."""
    (tmp_path / f"tocsin-export-{os.getpid()}-left").mkdir()
    (tmp_path / "tocsin-export-1-left").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))

    async def story(days: Days) -> None:
        await days.fill(2, 50)
        await days.archive()
        assert list(tmp_path.glob("tocsin-export-*")) == []

    play(url, tmp_path / "archive", story)


def test_a_day_that_cannot_be_archived_keeps_no_other_waiting(url: str, tmp_path: Path) -> None:
    broken = []

    async def run(task: Any, kind: Any, module: str = "") -> Any:
        if isinstance(task, Export) and str(task.day) in broken:
            raise Unavailable("a page of it cannot be read")
        return await inline(task, kind, module)

    async def story(days: Days) -> None:
        await days.fill(3, 30)
        broken.append(str((await days.store.next_day(HISTORY, days.now))[0]))
        left = await days.stored()
        await days.fill(2, 20)
        for _ in range(5):
            days.archiver._not_before = 0
            await days.archive()
        assert await days.drop() == 1
        assert await days.stored() == left
        broken.clear()
        await days.tidy()
        assert len(await days.archived()) == 50

    play(url, tmp_path, story, run=run)


def test_a_day_that_was_dropped_and_is_there_again_is_archived_again(url: str, tmp_path: Path) -> None:
    async def story(days: Days) -> None:
        await days.fill(2, 150)
        await days.tidy()
        first = await days.archived()
        await days.fill(2, 20)
        second = await days.stored()
        await days.tidy()
        assert await days.archived() == sorted(first + second)

    play(url, tmp_path, story)


def test_parts_are_bounded_by_size_also_where_much_ends_at_one_instant(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(archives, "MOST_BYTES", 20_000)

    async def story(days: Days) -> None:
        await days.fill(2, 150)
        await days.database.execute("UPDATE history SET reason = repeat('long', 200)")
        at_once = "UPDATE history SET finished_at = (SELECT min(finished_at) FROM history), job_id = gen_random_uuid()"
        await days.database.execute(f"{at_once} WHERE tenant_id = 1")
        history = await days.stored()
        await days.archive()
        parts = await days.database.fetch("SELECT * FROM archives WHERE name = 'history' ORDER BY part")
        assert all(part["rows"] <= 20 for part in parts)
        assert any(part["upto_tie"] for part in parts)
        assert any(part["upto_at"] and not part["upto_tie"] for part in parts)
        await days.tidy()
        assert await days.archived() == history

        archived, none = ArchivedExecutions(days.database, days.place, inline), Asked()
        for tenant in (1, 2):
            found = await archived.page(tenant, none, None, None, 500)
            assert (len(found.rows), found.down_to) == (75, None)
            monkeypatch.setattr(archived_executions, "_BUDGET", 0.0)
            rows, until = 0, None
            for _ in range(100):
                found = await archived.page(tenant, none, None, until, 500)
                kept = [
                    row for row in found.rows if found.down_to is None or row["finished_at"] > found.down_to
                ]
                rows, until = rows + len(kept), found.down_to and found.down_to + 1
                if until is None:
                    break
            assert (rows, until) == (75, None)

    play(url, tmp_path, story, piece=1000)


def test_files_that_were_replaced_are_removed_a_day_later(url: str, tmp_path: Path) -> None:
    async def story(days: Days) -> None:
        await days.fill(2, 50)
        await days.archive()
        (before,) = tmp_path.rglob("*.parquet")
        await days.database.execute("UPDATE history SET reason = 'changed' WHERE claim_token = 7")
        assert await days.drop() == 0
        await days.archive()
        assert before.exists()
        await days.database.execute("UPDATE archive_leftovers SET since = since - interval '25 h'")
        await days.archive()
        assert not before.exists()
        assert len(list(tmp_path.rglob("*.parquet"))) == 1

    play(url, tmp_path, story)


def test_a_table_with_a_newer_column_is_left_to_newer_nodes(url: str, tmp_path: Path) -> None:
    async def story(days: Days) -> None:
        await days.fill(2, 50)
        await days.database.execute("ALTER TABLE history ADD COLUMN mood text")
        assert await days.archive() == 0
        assert await days.drop() == 0

    play(url, tmp_path, story)


def test_a_day_that_a_node_without_an_archive_dropped_is_answered_from_its_files(
    url: str, tmp_path: Path
) -> None:
    async def story(days: Days) -> None:
        await days.fill(2, 50)
        history = await days.stored()
        await days.archive()
        await HistoryStore(days.database).drop_partitions(days.now, 1)
        await days.archive()
        assert await days.archived() == history

    play(url, tmp_path, story)


def test_every_column_is_archived(url: str, tmp_path: Path) -> None:
    async def story(days: Days) -> None:
        for table in (HISTORY, AUDIT):
            assert await days.store.unknown_columns(table) == []
            await days.database.fetch(
                f"SELECT {', '.join(column.name for column in table.columns)} FROM {table.name}"
            )

    play(url, tmp_path, story)


def test_processes_do_it_and_one_that_is_killed_leaves_nothing_wrong(url: str, tmp_path: Path) -> None:
    """As in production, each step by a process of its own; the one that copies is killed at its work."""
    killed = []

    async def run(task: Any, kind: Any, module: str = WORK) -> Any:
        if isinstance(task, Export) and not killed:
            asked = asyncio.create_task(in_a_process(task, kind, module))
            copied = Path(task.file).with_suffix(".csv")
            while not copied.exists() and not asked.done():
                await asyncio.sleep(0.001)
            for pid in _children():
                os.kill(pid, signal.SIGKILL)
                killed.append(pid)
            return await asked
        return await in_a_process(task, kind, module)

    async def story(days: Days) -> None:
        await days.fill(2, 3000)
        history = await days.stored()
        await days.archive()
        assert killed
        (row,) = await days.database.fetch("SELECT state, trouble FROM archives")
        assert row["state"] == "exporting"
        assert "-9" in row["trouble"]
        await days.tidy()
        assert await days.archived() == history

    play(url, tmp_path, story, run=run, piece=10_000)


def _children() -> list[int]:
    """Processes that export for this one."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            ours = f"PPid:\t{os.getpid()}\n" in (folder / "status").read_text()
            if ours and b"tocsin.store.exporting" in (folder / "cmdline").read_bytes():
                found.append(int(folder.name))
    return found
