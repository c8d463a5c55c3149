"""A scheduler that archives is killed by SIGKILL at ten places: a row is in the database or in the archive,
once; in the end all of the day is archived."""

import signal
from pathlib import Path

from tests.store.test_archive import POINTS
from tests.support.api import with_database
from tests.support.archive import Days, fill_day
from tests.support.postgres import Cluster
from tests.support.processes import Process, Processes, children_of, command_of, wait_for
from tocsin.archive.work import Place
from tocsin.clock import system_now
from tocsin.db.pool import Database
from tocsin.domain.instant import DAY

ROWS, PATIENCE = 3000, 90
OLD = system_now() // DAY * DAY - 40 * DAY
SETTINGS = {"lease_ttl": "2", "audit_days": "30"}


def test_a_scheduler_that_is_killed_at_ten_places_archives_every_row_once(
    cluster: Cluster, tmp_path: Path
) -> None:
    url, folder, scratch = cluster.new_database(), tmp_path / "archive", tmp_path / "tmp"
    scratch.mkdir()

    async def of_database(database: Database) -> tuple[list[str], list[str]]:
        days = Days(database, url, Place(str(folder)))
        return await days.stored(), await days.archived()

    with_database(url, lambda database: fill_day(database, OLD, ROWS, 0))
    before, _ = with_database(url, of_database)
    with Processes(tmp_path) as processes:
        scheduler = processes.tocsin(
            "scheduler", "scheduler", database_url=url, archive=str(folder), **SETTINGS
        )
        for place in ("its export", *POINTS):
            if place == POINTS[-3]:  # retention looks as it starts, and an hour later
                scheduler.start(TMPDIR=str(scratch))
                wait_for(lambda: with_database(url, _verified), PATIENCE, "the day is not verified")
                scheduler.kill()
            _kill(scheduler, place, str(scratch))
            stored, archived = with_database(url, of_database)
            assert sorted(stored + archived) == before, place
        scheduler.start(TMPDIR=str(scratch))
        wait_for(lambda: with_database(url, of_database) == ([], before), PATIENCE, scheduler.last_words())
        assert list(scratch.iterdir()) == []
        scheduler.terminate()
        assert scheduler.wait(PATIENCE) == 0
    cluster.drop(url)


def _kill(scheduler: Process, place: str, scratch: str) -> None:
    """Let it work until it gets there."""
    if place in POINTS:
        scheduler.start(TMPDIR=scratch, TOCSIN_FAILPOINTS=f"{place}=crash")
    else:
        scheduler.start(TMPDIR=scratch)
        wait_for(lambda: _exporting(scheduler), PATIENCE, "nothing is exported")
        scheduler.kill()
    wait_for(lambda: not scheduler.alive, PATIENCE, f"it does not get to {place}")
    assert scheduler.exit_code == -signal.SIGKILL, scheduler.last_words()


async def _verified(database: Database) -> bool:
    row = await database.one("SELECT bool_and(state = 'verified') AND count(*) = 4 AS all FROM archives")
    return bool(row["all"])


def _exporting(scheduler: Process) -> bool:
    return any("tocsin.store.exporting" in command_of(pid) for pid in children_of(scheduler.pid))
