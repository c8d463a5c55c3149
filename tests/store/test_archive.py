"""Days are copied into files before they are dropped: every row is in the database or in the archive, once,
whatever happens in between."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from tests.support.archive import Crash, Days
from tocsin.archive.tables import AUDIT
from tocsin.archive.work import Place
from tocsin.db.pool import open_database

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


def play(url: str, folder: Path, story: Story, **given: object) -> None:
    """A story over a directory."""

    async def main() -> None:
        database = await open_database(url, name="test archive", size=3)
        try:
            await story(Days(database, url, Place(str(folder)), **given))  # type: ignore[arg-type]
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
        await days.fill(2, 150)
        history = await days.stored()
        days.crash_at(point)
        with pytest.raises(Crash):
            await days.tidy()
        assert sorted(await days.stored() + await days.archived()) == history
        await days.tidy()
        assert await days.stored() == []
        assert await days.archived() == history

    play(url, tmp_path, story)
