"""The wheel, in an environment with nothing but what it says it needs. Alone it is the client, tasks and
their worker; with its extra `server` it contains the dashboard, and `tocsin serve` shows it.

The environment is filled in two ways: from this one, by links, and by pip where an index is within reach."""

import http.client
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from importlib.metadata import Distribution, PathDistribution, distribution, distributions
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.support.api import RealApi
from tests.support.postgres import temporary_directory
from tests.support.processes import Processes, free_port
from tocsin.dashboard.pages import STATIC

ROOT = Path(__file__).parents[2]
SHOP = """
from tocsin import App

app = App("shop")


@app.task
def greet(name: str) -> str:
    return f"hello {name}"
"""


class Environment:
    """A fresh virtual environment with a wheel that was just built, and what its metadata asks for, without
    our sources."""

    def __init__(self, directory: Path, wheel: Path, extra: str, *, from_index: bool) -> None:
        self.directory = directory
        home = directory / f"venv-{extra or 'small'}-{from_index}"
        _run(sys.executable, "-m", "venv", "--without-pip", str(home))
        self.python = home / "bin" / "python"
        self.command = home / "bin" / "tocsin"
        self._packages = next(home.glob("lib/python*/site-packages"))
        if from_index:
            self._pip("install", "-q", f"{wheel}[{extra}]" if extra else str(wheel))
        else:
            self._pip("install", "-q", "--no-deps", "--no-index", str(wheel))
            self._link_closure(extra)

    @property
    def needed(self) -> set[str]:
        """Everything beside Tocsin itself."""
        there = {canonicalize_name(one.name) for one in distributions(path=[str(self._packages)])}
        return there - {"tocsin"}

    @property
    def direct(self) -> set[str]:
        """What Tocsin asks for by itself, without an extra."""
        asked_for = map(Requirement, self._ours.requires or ())
        return {canonicalize_name(one.name) for one in asked_for if _wanted(one, set())}

    @property
    def size(self) -> int:
        """Bytes of all files that come with it."""
        return sum(
            Path(str(file.locate())).stat().st_size
            for one in distributions(path=[str(self._packages)])
            for file in one.files or ()
            if file.suffix != ".pyc" and Path(str(file.locate())).exists()
        )

    @property
    def _ours(self) -> PathDistribution:
        return PathDistribution(next(self._packages.glob("tocsin-*.dist-info")))

    def _pip(self, *words: str) -> None:
        _run(sys.executable, "-m", "pip", "--python", str(self.python), *words)

    def _link_closure(self, extra: str) -> None:
        for one in _closure(self._ours, {extra}):
            for top in {
                file.parts[0] for file in one.files or () if file.parts[0] not in ("..", "__pycache__")
            }:
                (self._packages / top).symlink_to(one.locate_file(top))

    def run(self, *command: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [str(self.python), *command],
            capture_output=True,
            text=True,
            check=False,
            cwd=self.directory,
            env={},
        )


def _closure(root: Distribution, extras: set[str]) -> Iterator[Distribution]:
    """What a distribution needs, and what that needs."""
    waiting, seen = [(root, extras)], set()
    while waiting:
        one, extras = waiting.pop()
        for requirement in map(Requirement, one.requires or ()):
            name = canonicalize_name(requirement.name)
            if _wanted(requirement, extras) and name not in seen:
                seen.add(name)
                found = distribution(name)
                waiting.append((found, requirement.extras))
                yield found


def _wanted(requirement: Requirement, extras: set[str]) -> bool:
    marker = requirement.marker
    return marker is None or any(marker.evaluate({"extra": extra}) for extra in extras | {""})


@pytest.fixture(scope="module")
def directory() -> Iterator[Path]:
    made = temporary_directory()
    yield made
    shutil.rmtree(made, ignore_errors=True)


@pytest.fixture(scope="module")
def wheel(directory: Path) -> Path:
    built = directory / "dist"
    _run(sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(built), cwd=ROOT)
    return next(built.glob("*.whl"))


@pytest.fixture(scope="module", params=["linked", "from_index"])
def from_index(request: pytest.FixtureRequest, directory: Path) -> bool:
    wanted: bool = request.param == "from_index"
    probe = ("download", "-q", "--no-deps", "-d", str(directory / "probe"), "msgspec")
    if wanted and subprocess.run([sys.executable, "-m", "pip", *probe], check=False).returncode != 0:
        pytest.skip("no package index is within reach")
    return wanted


@pytest.fixture(scope="module")
def small(directory: Path, wheel: Path, from_index: bool) -> Environment:
    return Environment(directory, wheel, "", from_index=from_index)


@pytest.fixture(scope="module")
def server(directory: Path, wheel: Path, from_index: bool) -> Environment:
    return Environment(directory, wheel, "server", from_index=from_index)


def test_alone_it_needs_two_packages_and_what_they_need(small: Environment) -> None:
    assert small.direct == {"httpx2", "msgspec"}
    assert small.direct <= small.needed
    assert {"click", "asyncpg", "starlette", "uvicorn", "cryptography"} & small.needed == set()
    assert small.size <= 7_000_000
    everything = "import tocsin; [getattr(tocsin, name) for name in tocsin.__all__]; print(tocsin.__file__)"
    imported = small.run("-c", everything)
    assert imported.stdout.startswith(str(small.directory)), imported.stderr


def test_alone_its_command_runs_tasks_and_says_what_the_others_need(small: Environment) -> None:
    small.directory.joinpath("shop.py").write_text(SHOP)
    helped = small.run(str(small.command), "tasks", "serve", "--help")
    assert "--concurrency" in helped.stdout, helped.stderr
    unreached = small.run(
        str(small.command), "tasks", "serve", "shop:app", "--api-key", "k", "--concurrency", "0"
    )
    assert "0 lies not between 1 and 10000" in unreached.stderr
    missing = small.run(str(small.command), "serve")
    assert (missing.returncode, missing.stdout) == (2, "")
    assert "pip install 'tocsin[server]'" in missing.stderr


def test_alone_it_judges_its_own_worker(small: Environment) -> None:
    worker = (str(small.python), str(small.command), "tasks", "serve", "tocsin.sdk.conformance.tasks:app")
    judged = small.run(
        str(small.command), "conformance", "--patience", "60", "--only", "batches", "--", *worker
    )
    assert judged.returncode == 0, judged.stdout + judged.stderr
    assert judged.stdout.endswith("1 of 1 scenarios passed\n")
    nothing = small.run(str(small.command), "conformance", "--only", "no such scenario")
    assert (nothing.returncode, nothing.stdout) == (2, "")
    assert "--list names them" in nothing.stderr


def test_with_the_server_it_serves_and_the_small_one_runs_a_task(
    directory: Path, server: Environment, small: Environment
) -> None:
    directory.joinpath("shop.py").write_text(SHOP)
    home = server.python.parents[1]
    port, data = free_port(), home / "data"
    with Processes(home) as processes:
        process = processes.tocsin(
            "serve", "serve", "--port", str(port), "--engines", "1", "--data-dir", str(data), cwd=directory,
        )  # fmt: skip
        process.command[0] = str(server.python)
        process.start()
        RealApi(port).wait_until_ready(process)
        if (STATIC / "manifest.json").exists():  # built into the wheel, too
            shell = _get(port, "/")
            script = re.search(r'src="(/assets/main-[^"]+)"', shell)
            assert script, shell
            assert "import" in _get(port, script[1])
        reach = {
            "url": f"http://127.0.0.1:{port}",
            "api_key": (data / "admin-key").read_text().strip(),
        }
        worker = processes.tocsin("worker", "tasks", "serve", "shop:app", cwd=directory, **reach)
        worker.command[0] = str(small.python)
        worker.start()
        call = f"import shop; shop.app.reach({reach['url']!r}, {reach['api_key']!r}); print(shop.greet.enqueue('Ada').result(60))"
        called = small.run("-c", call)
        assert called.stdout == "hello Ada\n", called.stderr + worker.last_words()
        for one in (worker, process):
            one.terminate()
            assert one.wait(60) == 0, one.last_words()


def _run(*command: str, cwd: Path | None = None) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=cwd)
    assert done.returncode == 0, done.stdout + done.stderr


def _get(port: int, path: str) -> str:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
    connection.request("GET", path, headers={"Accept": "text/html"})
    answer = connection.getresponse()
    assert answer.status == 200, path
    return answer.read().decode()
