"""`tocsin conformance` judges our own worker and those in `examples/workers`, and finds fault with others."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tocsin.sdk.conformance.run import SCENARIOS

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples" / "workers"
TOCSIN = (sys.executable, "-m", "tocsin")
GREEDY = """
from tocsin.sdk.conformance.tasks import app
from tocsin.sdk.worker import worker
from tocsin.sdk.worker.hand import Hand
worker.Hand = lambda capacity: Hand(5 * capacity)
app.worker(concurrency=2).serve()
"""
"""A worker that runs five times what it said."""


def judged(command: list[str], only: str = "") -> tuple[int, dict[str, dict[str, object]]]:
    """The exit code, and what was seen in each scenario."""
    judge = [*TOCSIN, "conformance", "--json", "--patience", "60", "--only", only, "--", *command]
    done = subprocess.run(judge, cwd=ROOT, capture_output=True, text=True, timeout=400, check=False)
    verdicts = [json.loads(line) for line in done.stdout.splitlines()]
    assert verdicts, done.stderr
    return done.returncode, {one["name"]: one for one in verdicts}


def passes(command: list[str]) -> None:
    code, verdicts = judged(command)
    missed = {
        name: (one["expected"], one["seen"], one["printed"])
        for name, one in verdicts.items()
        if not one["passed"]
    }
    assert missed == {}
    assert code == 0
    assert set(verdicts) == {one.name for one in SCENARIOS}


def test_our_own_worker_passes_every_scenario() -> None:
    passes([*TOCSIN, "tasks", "serve", "tocsin.sdk.conformance.tasks:app"])


def test_the_worker_in_go_passes_every_scenario(tmp_path: Path) -> None:
    go = shutil.which("go")
    if go is None:
        pytest.skip("there is no go")
    built = tmp_path / "worker"
    subprocess.run([go, "build", "-o", str(built), "."], cwd=EXAMPLES / "go", check=True)
    passes([str(built)])


def test_the_worker_in_typescript_passes_every_scenario(tmp_path: Path) -> None:
    node, esbuild = shutil.which("node"), ROOT / "web" / "node_modules" / ".bin" / "esbuild"
    if node is None or not esbuild.exists():
        pytest.skip("there is no node, or the dashboard's tools are not installed")
    built = tmp_path / "worker.mjs"
    source = str(EXAMPLES / "typescript" / "worker.ts")
    subprocess.run([str(esbuild), source, f"--outfile={built}", "--format=esm"], check=True)
    passes([node, str(built)])


def test_a_worker_that_serves_other_tasks_or_does_not_work_is_found_at_fault() -> None:
    code, verdicts = judged([*TOCSIN, "tasks", "serve", "tests.acceptance.diary:app"], "register")
    assert code == 1
    assert "conformance.echo" in str(verdicts["register"]["seen"])
    code, verdicts = judged([sys.executable, "-c", GREEDY], "more than its capacity")
    assert code == 1
    seen = str(verdicts["more than its capacity"]["seen"])
    assert "more than 2 ran at once" in seen or "run at once, with a capacity of 2" in seen
    code, verdicts = judged(["false"], "skip")
    assert (code, verdicts["skip"]["seen"]) == (1, "the worker did not register: the worker ended with 1")
    code, verdicts = judged(["/no/such/worker"], "skip")
    assert code == 1
    assert "cannot be run" in str(verdicts["skip"]["seen"])
