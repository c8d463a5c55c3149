"""The types of the SDK, as its users' type checkers see them: mypy and pyright accept what the documentation
writes, and refuse calls that the function would not take."""

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
PYTHON = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
RIGHT = """
from collections.abc import Iterator

from tocsin import App, AsyncClient, Client, Depends, Handle

app = App("shop")


def connection() -> Iterator[list[str]]:
    yield []


@app.task
def send_receipt(order_id: int, *, copy_to: str | None = None) -> str:
    return f"{order_id} {copy_to}"


@app.task(timeout="30s", queue="users")
async def sync_user(user_id: int, rows: list[str] = Depends(connection)) -> bool:
    return bool(rows) and user_id > 0


def right() -> None:
    plain: str = send_receipt(17)
    handle: Handle[str] = send_receipt.enqueue(17, copy_to="a@b.c")
    result: str = handle.result(timeout=30)
    later: Handle[str] = send_receipt.having(delay="10m", priority=2).enqueue(order_id=17)
    many: list[Handle[str]] = send_receipt.enqueue_many(send_receipt.args(n) for n in range(3))
    done: bool = sync_user.enqueue(17).result()
    print(plain, result, later, many, done)


def with_client() -> None:
    with Client() as tocsin:
        job = tocsin.jobs.create(schedule="0 9 * * MON", target={"kind": "noop"}, name="weekly")
        for execution in tocsin.executions.list(job=job["id"], state="dead"):
            identity: str = tocsin.executions.retry(execution["id"])["id"]
            print(identity)
        tocsin.queues.pause("mail", reason="moving")


async def with_async_client() -> None:
    async with AsyncClient() as tocsin:
        async for entry in tocsin.audit.list(limit=5):
            print(entry["action"])


async def in_a_loop() -> Handle[str]:
    return await send_receipt.enqueue_async(17)
"""
WRONG = (
    'send_receipt.enqueue("17")',
    "send_receipt.enqueue(17, copy=1)",
    "number: int = send_receipt.enqueue(17).result()",
)


@pytest.fixture(scope="module")
def module(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, set[int]]:
    """A module of right and wrong calls, and the lines of the wrong ones."""
    right = RIGHT.splitlines()
    lines = [*right, "", "", "def wrong() -> None:", *(f"    {call}" for call in WRONG)]
    path = tmp_path_factory.mktemp("typed") / "calls.py"
    path.write_text("\n".join(lines) + "\n")
    return path, {len(right) + 4 + number for number in range(len(WRONG))}


@pytest.fixture(scope="module")
def documented(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with the examples, and each block of the guides that is a module of its own. Tests there
    are as pytest's users write them: without types."""
    directory = tmp_path_factory.mktemp("documented")
    for example in sorted((ROOT / "examples").glob("*.py")):
        (directory / example.name).write_text(example.read_text())
    for page in sorted((ROOT / "docs" / "guides").glob("*.md")):
        for number, code in enumerate(PYTHON.findall(page.read_text())):
            if "from tocsin import" in code and "def test_" not in code:
                (directory / f"{page.stem.replace('-', '_')}_{number}.py").write_text(code)
    return directory


def test_mypy_accepts_the_examples_and_the_modules_of_the_guides(documented: Path) -> None:
    files = sorted(str(path) for path in documented.glob("*.py"))
    assert len(files) > 10
    assert mypy(*files) == []


def test_pyright_accepts_the_examples_and_the_modules_of_the_guides(documented: Path) -> None:
    assert pyright(documented) == []


def test_mypy_accepts_what_is_right_and_refuses_what_is_wrong(module: tuple[Path, set[int]]) -> None:
    path, wrong = module
    errors = mypy(str(path))
    assert {int(line.split(":")[1]) for line in errors} == wrong, errors


def test_pyright_accepts_what_is_right_and_refuses_what_is_wrong(module: tuple[Path, set[int]]) -> None:
    path, wrong = module
    errors = pyright(path)
    assert {one["range"]["start"]["line"] + 1 for one in errors} == wrong, errors


def mypy(*files: str) -> list[str]:
    """What it refuses."""
    options = ("--strict", "--config-file=", "--no-error-summary")
    found = subprocess.run(
        (sys.executable, "-m", "mypy", *options, *files),
        capture_output=True,
        text=True,
        check=False,
        cwd=ROOT / "src",
    )
    assert not found.stderr, found.stderr
    return [line for line in found.stdout.splitlines() if " error: " in line]


def pyright(path: Path) -> list[dict[str, Any]]:
    """The same of pyright."""
    directory = path if path.is_dir() else path.parent
    settings = {
        "typeCheckingMode": "strict",
        "include": [str(path)],
        "extraPaths": [str(ROOT / "src")],
        "reportUnknownMemberType": False,
    }
    config = directory / "pyrightconfig.json"
    config.write_text(json.dumps(settings))
    command = (
        sys.executable,
        "-m",
        "basedpyright",
        "--outputjson",
        "--pythonpath",
        sys.executable,
        "-p",
        str(config),
    )
    found = subprocess.run(command, capture_output=True, text=True, check=False, cwd=directory)
    told = json.loads(found.stdout)["generalDiagnostics"]
    return [one for one in told if one["severity"] == "error"]
