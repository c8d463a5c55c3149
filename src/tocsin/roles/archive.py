"""The archive as the settings have it: what copies days into it, and what drops them then."""

from tocsin.archive.objects import check_extra
from tocsin.archive.work import Place
from tocsin.db.pool import Database
from tocsin.roles.process import Process
from tocsin.scheduler.archiver import Archiver
from tocsin.scheduler.leaser import Leases
from tocsin.settings import Settings
from tocsin.store.archived_days import ArchivedDays
from tocsin.store.archives import ArchiveStore


def place_of(settings: Settings) -> Place | None:
    """Where the archive is; None without one. An archive that cannot be written here is refused."""
    if settings.archive is None:
        return None
    check_extra()
    return Place(settings.archive, settings.archive_endpoint)


def archived_days(process: Process, database: Database) -> ArchivedDays | None:
    """What drops days that are archived."""
    return None if process.settings.archive is None else ArchivedDays(database, process.failpoints)


def make_archiver(process: Process, database: Database, leases: Leases, place: Place) -> Archiver:
    """What copies days into the archive."""
    return Archiver(
        ArchiveStore(database),
        leases,
        process.clock,
        process.telemetry,
        process.failpoints,
        place,
        process.url,
    )
