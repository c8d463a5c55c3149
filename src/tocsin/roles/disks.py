"""The room on the disks that a process writes to: the embedded database's and the temporary directory's.

A disk of PostgreSQL elsewhere cannot be asked, and one of the archive may hang when it is: an archive that
cannot be written says so itself.
"""

import contextlib
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

from tocsin.settings import Settings


def free_shares(settings: Settings) -> Iterator[tuple[str, float]]:
    """What share of each disk is free, by what is on it."""
    with contextlib.suppress(OSError):
        yield "temporary", _free(Path(tempfile.gettempdir()))
    embedded = settings.data_dir / "postgres"
    with contextlib.suppress(OSError):
        if embedded.is_dir():
            yield "database", _free(embedded)


def _free(directory: Path) -> float:
    usage = shutil.disk_usage(directory)
    return usage.free / usage.total
