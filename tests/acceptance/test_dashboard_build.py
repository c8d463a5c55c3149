"""The dashboard is built where there is only Python: with the Node of a wheel."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def test_without_node_in_the_path_the_dashboard_is_built_with_the_one_of_a_wheel(tmp_path: Path) -> None:
    shutil.copytree(ROOT / "web", tmp_path / "web", ignore=shutil.ignore_patterns("node_modules"))
    shutil.copytree(ROOT / "requirements", tmp_path / "requirements")
    (tmp_path / "src/tocsin/dashboard").mkdir(parents=True)
    subprocess.run([sys.executable, "-m", "venv", str(tmp_path / "venv")], check=True)
    python, pinned = tmp_path / "venv/bin/python", tmp_path / "requirements/web.txt"
    probe = [str(python), "-m", "pip", "download", "-q", "--require-hashes", "--only-binary", ":all:"]
    if subprocess.run([*probe, "-d", str(tmp_path), "-r", str(pinned)], check=False).returncode != 0:
        pytest.skip("no index with a wheel of Node for this machine is within reach")
    built = subprocess.run(
        [str(python), str(tmp_path / "web/build.py")],
        env=os.environ | {"PATH": str(tmp_path / "nothing")},
        capture_output=True,
        text=True,
        check=False,
    )
    if "is a registry within reach?" in built.stderr:
        pytest.skip("no registry of JavaScript packages is within reach")
    assert built.returncode == 0, built.stderr
    static = tmp_path / "src/tocsin/dashboard/static"
    named = json.loads((static / "manifest.json").read_text())
    assert all((static / name).stat().st_size for name in named.values())
