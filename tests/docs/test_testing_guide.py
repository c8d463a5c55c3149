"""The guide to testing holds: its examples are run by pytest as a reader would run them."""

import re
import subprocess
import sys
from pathlib import Path

from tests.support.postgres import Cluster

ROOT = Path(__file__).parents[2]
CONFTEST = """
import pytest

@pytest.fixture(scope="session")
def tocsin_server_url():
    return {url!r}
"""
FAILING = """
from shop import remind

def test_it_fails(tocsin):
    remind.enqueue(5).result()
    assert False
"""


def run(directory: Path, *words: str) -> str:
    """What pytest says in a directory of a user's own."""
    command = (
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-p",
        "tocsin.testing.plugin",
        "-p",
        "no:cacheprovider",
        *words,
    )
    done = subprocess.run(command, cwd=directory, capture_output=True, text=True, check=False, timeout=240)
    return done.stdout + done.stderr


def test_the_examples_of_the_guide_pass_and_a_failing_test_shows_what_happened(
    cluster: Cluster, tmp_path: Path
) -> None:
    guide = (ROOT / "docs" / "guides" / "test-your-tasks.md").read_text()
    blocks = re.findall(r"^```python\n# (\w+\.py)\n(.*?)^```$", guide, re.MULTILINE | re.DOTALL)
    assert {name for name, _ in blocks} == {"shop.py", "test_shop.py", "test_eager.py"}
    for name, code in blocks:
        (tmp_path / name).write_text(code)
    (tmp_path / "conftest.py").write_text(CONFTEST.format(url=cluster.server.url))
    (tmp_path / "test_failing.py").write_text(FAILING)
    told = run(tmp_path)
    assert "1 failed, 10 passed" in told, told
    assert re.search(r'succeeded +1 +shop\.remind +\{"user_id":5\}', told), told
