"""The build that an installation is upgraded from: its sources, taken out of git."""

import subprocess
import tarfile
from io import BytesIO
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
OLDEST = "c9540caa2c5fc857d19861128e499a7897c7eb81"
"""The first build with the migration 0040, beside which all later ones say that they run. It stands in until
there is a tag."""


def older_build(directory: Path) -> Path:
    """A folder from which the build of the newest tag is imported, or without tags the oldest that may run
    beside this one."""
    tag = _git("describe", "--tags", "--abbrev=0", "HEAD^")
    commit = tag.decode().strip() if tag else OLDEST
    packed = _git("archive", commit, "src/tocsin")
    if packed is None:
        pytest.skip(f"git has neither a tag nor {OLDEST[:12]}: no older build to upgrade from")
    with tarfile.open(fileobj=BytesIO(packed)) as archive:
        archive.extractall(directory, filter="data")
    return directory / "src"


def _git(*words: str) -> bytes | None:
    try:
        done = subprocess.run(["git", *words], cwd=ROOT, capture_output=True, check=False)
    except OSError:
        return None
    return done.stdout if done.returncode == 0 else None
