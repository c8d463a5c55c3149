"""What the pages tell a reader to run does run: the first job of the README, the first ten minutes, the examples.

One real `tocsin serve` in a directory that looks like a checkout. Only ports differ from what is written.
"""

import json
import os
import re
import shutil
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.postgres import temporary_directory
from tests.support.processes import Process, Processes, free_port, wait_for

ROOT = Path(__file__).parents[2]
SINK = "python3 examples/sink.py"
pytestmark = pytest.mark.xdist_group("docs")


class Checkout:
    """A directory in which `make run` and the sink are running."""

    def __init__(self, directory: Path, port: int, sink_port: int, sink: Process) -> None:
        self.directory = directory
        self.url = f"http://127.0.0.1:{port}"
        self.sink = sink
        self._ports = {"127.0.0.1:8420": f"127.0.0.1:{port}", "127.0.0.1:9009": f"127.0.0.1:{sink_port}"}

    def run(self, command: str, **environment: str) -> str:
        """Run a command as a reader would. Returns what it printed."""
        for written, actual in self._ports.items():
            command = command.replace(written, actual)
        inherited = {name: value for name, value in os.environ.items() if not name.startswith("TOCSIN_")}
        done = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", command],
            cwd=self.directory,
            env=inherited | {"TOCSIN_URL": self.url} | environment,
            capture_output=True,
            text=True,
            timeout=30,
            check=False,
        )
        assert done.returncode == 0, f"{command}\n{done.stdout}{done.stderr}"
        return done.stdout

    def ready(self) -> bool:
        try:
            with urllib.request.urlopen(f"{self.url}/readyz", timeout=5) as answer:
                return bool(answer.status == 200)
        except OSError:
            return False


@pytest.fixture(scope="module")
def checkout() -> Iterator[Checkout]:
    directory = temporary_directory()
    (directory / ".venv").symlink_to(sys.prefix)
    (directory / "examples").symlink_to(ROOT / "examples")
    port, sink_port = free_port(), free_port()
    with Processes(directory) as processes:
        serve = processes.tocsin("serve", "serve", "--port", str(port), "--engines", "1", cwd=directory)
        sink = Process(
            "sink", ["bash", "-c", f"exec {SINK} {sink_port}"], {}, directory / "sink.log", directory
        )
        made = Checkout(directory, port, sink_port, sink)
        try:
            serve.start()
            sink.start()
            wait_for(made.ready, 30, "serve is not ready")
            wait_for(lambda: "listening on" in sink.output(), 10, "the sink does not listen")
            yield made
            serve.terminate()
            assert serve.wait(30) == 0
        finally:
            sink.close()
    shutil.rmtree(directory, ignore_errors=True)


def test_the_first_job_of_the_readme_runs_as_written(checkout: Checkout) -> None:
    section = (ROOT / "README.md").read_text().split("## First job")[1].split("\n## ")[0]
    start_sink, create_by_curl, create_by_cli = shell_blocks(section)
    assert start_sink == SINK
    job = json.loads(checkout.run(create_by_curl))
    assert (job["name"], job["kind"], job["state"]) == ("hello", "once", "active")
    printed = checkout.run(create_by_cli)
    shown_heading = next(line for line in section.splitlines() if line.startswith("ID "))
    assert (
        shown_heading.split() == next(line for line in printed.splitlines() if line.startswith("ID ")).split()
    )
    wait_for(lambda: "POST /hello attempt=1" in checkout.sink.output(), 20, "the first job is not called")
    wait_for(lambda: "POST /tick attempt=1" in checkout.sink.output(), 20, "the second job is not called")


def test_the_first_ten_minutes_run_as_written(checkout: Checkout) -> None:
    blocks = shell_blocks((ROOT / "docs" / "start.md").read_text())
    printed = [checkout.run(block) for block in blocks if block != SINK]
    assert json.loads(printed[0])["status"] == "ready"
    wait_for(lambda: "POST /beat attempt=1" in checkout.sink.output(), 20, "the recurring job is not called")
    wait_for(
        lambda: "POST /flaky/2 attempt=3" in checkout.sink.output(), 20, "the flaky job is not tried again"
    )
    dead = lambda: "the target answered 500" in checkout.run(blocks[-1])  # noqa: E731
    wait_for(dead, 20, "the broken job is not a dead letter")


def test_the_example_in_shell_runs(checkout: Checkout) -> None:
    printed = checkout.run("sh examples/first_job.sh", SINK_PORT=str(free_port()))
    assert "POST /hello attempt=1" in printed
    assert printed.rstrip().endswith("execution succeeded")


def test_the_example_in_python_runs(checkout: Checkout) -> None:
    printed = checkout.run("python3 examples/reminders.py")
    assert printed.count("ring: stretch") == 3
    assert printed.count("ring: tea is ready") == 1
    assert "the meeting was called off" in printed
    assert "ring: the meeting begins" not in printed


@pytest.mark.parametrize("example", sorted((ROOT / "examples").glob("*.*")), ids=lambda file: file.name)
def test_every_example_says_how_to_run_it(example: Path) -> None:
    assert re.search(rf"(python3|sh) examples/{example.name}", example.read_text()[:800])


def shell_blocks(text: str) -> list[str]:
    """What stands in fences marked `sh`: commands to run as they are."""
    return [block.strip() for block in re.findall(r"^```sh\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)]
