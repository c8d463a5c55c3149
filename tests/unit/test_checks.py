"""The sources pass every check of `make check`: `make test` runs them, too."""

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
RECIPE = re.search(r"^check:.*\n((?:\t.*\n)+)", (ROOT / "Makefile").read_text(), re.MULTILINE)
CHECKS = [] if RECIPE is None else [line.strip() for line in RECIPE[1].splitlines()]
MISSING = ("fetching its packages failed", "no Node 20")
"""What the build of the dashboard says without a package registry."""


def test_the_makefile_names_the_checks() -> None:
    assert len(CHECKS) == 5


@pytest.mark.timeout(900)  # types are checked from nothing where there is no cache
@pytest.mark.parametrize("check", CHECKS)
def test_the_sources_pass(check: str) -> None:
    command = shlex.split(check.replace("$(BIN)", str(Path(sys.executable).parent)))
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    said = done.stdout + done.stderr
    if done.returncode and any(words in said for words in MISSING):
        pytest.skip(said.strip())
    assert done.returncode == 0, said
