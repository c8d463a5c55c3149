"""How long a new user needs from `make run` to the result of a first task: `python -m tests.docs.first_task`.

A fresh clone, no virtual environment, and the commands of the README as they are written, but for the port.
What the machine has in its caches of packages is used, as a second project of a user would. The time is that
from `make run` to the result; a person also reads.
"""

import argparse
import re
import subprocess
import tempfile
import time
import urllib.request
from pathlib import Path

from tests.docs.test_running import ROOT, shell_blocks
from tests.support.processes import Process, free_port, wait_for

PATIENCE = 600.0
WITHIN = 60.0
"""Seconds, on a machine with nothing else to do and a package index nearby."""


def first_task(clone: Path, port: int) -> float:
    """Seconds from `make run` to the result."""
    section = (clone / "README.md").read_text().split("## First task")[1].split("\n## ")[0]
    (module,) = re.findall(r"^```python\n(.*?)^```$", section, re.MULTILINE | re.DOTALL)
    (printed,) = re.findall(r"^```text\n(.*?)^```$", section, re.MULTILINE | re.DOTALL)
    serve, enqueue = shell_blocks(section)
    url = f"http://127.0.0.1:{port}"
    began = time.monotonic()
    server = _start(clone, "make-run", f'make run ARGS="--port {port}"')
    worker: Process | None = None
    try:
        wait_for(lambda: _ready(url) or not server.alive, PATIENCE, "serve is not ready")
        assert server.alive, server.last_words()
        print(f"{time.monotonic() - began:6.1f} s  make run is ready", flush=True)
        (clone / "shop.py").write_text(module)
        worker = _start(clone, "worker", f"exec {serve}", TOCSIN_URL=url)
        done = subprocess.run(
            ["bash", "-euc", f"export TOCSIN_URL={url}; {enqueue}"],
            cwd=clone,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.stdout == printed, done.stdout + done.stderr + worker.last_words()
        return time.monotonic() - began
    finally:
        for process in (worker, server):
            if process is not None and process.alive:
                process.terminate()
                process.wait(60)


def _start(clone: Path, name: str, command: str, **environment: str) -> Process:
    process = Process(name, ["bash", "-c", command], environment, clone.parent / f"{name}.log", clone)
    process.start()
    return process


def _ready(url: str) -> bool:
    try:
        with urllib.request.urlopen(f"{url}/readyz", timeout=5) as answer:
            return bool(answer.status == 200)
    except OSError:
        return False


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tests.docs.first_task", description=__doc__.partition("\n")[0]
    )
    parser.add_argument("--within", type=float, default=WITHIN, help="seconds; more is a failure")
    within = parser.parse_args().within
    with tempfile.TemporaryDirectory(prefix="tocsin-first-task-") as directory:
        clone = Path(directory) / "tocsin"
        subprocess.run(["git", "clone", "-q", str(ROOT), str(clone)], check=True)
        took = first_task(clone, free_port())
    print(f"{took:6.1f} s  the first task's result")
    return 0 if took <= within else 1


if __name__ == "__main__":
    raise SystemExit(main())
