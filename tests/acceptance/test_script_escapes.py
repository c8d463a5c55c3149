"""Scripts that want out stay in: as the child of a root worker and of an ordinary one.

The harmless ones are run without a sandbox, too, and get through: nothing but the walls holds them.
"""

import functools
import json
import os
import shutil
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.acceptance.escapes import CANARY, ESCAPES, THROUGH
from tocsin.db.account import PASSAGE

ROOT = Path(__file__).parents[2]
NOBODY = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", *PASSAGE[:2], "--"]
USERS = {"root": [], "nobody": NOBODY} if os.geteuid() == 0 else {"ourselves": []}
HARMLESS = [name for name, escape in ESCAPES.items() if escape.harmless]
pytestmark = pytest.mark.skipif(shutil.which("bwrap") is None, reason="bubblewrap is not installed")


@functools.cache
def report(user: str) -> dict[str, Any]:
    """All escapes by one user, in one process."""
    command = [*USERS[user], sys.executable, "-m", "tests.acceptance.escape_runner"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=200, check=False)
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def test_there_are_more_than_forty() -> None:
    assert len(ESCAPES) >= 40


@pytest.mark.parametrize("user", USERS)
def test_all_walls_stand(user: str) -> None:
    assert report(user)["fallen"] == {}


@pytest.mark.parametrize("name", ESCAPES)
@pytest.mark.parametrize("user", USERS)
def test_it_does_not_get_through(user: str, name: str) -> None:
    ended = report(user)["ended"][name]
    assert ended["exit"] is not None or ended["timed_out"] or ended["out_of_memory"], ended
    assert THROUGH not in ended["stdout"], ended
    assert CANARY not in ended["stdout"] + ended["stderr"], ended


@pytest.mark.parametrize("user", USERS)
def test_the_machine_and_the_worker_are_as_before(user: str) -> None:
    seen = report(user)
    assert seen["decoy"], "a process of the machine was ended"
    assert seen["left"] == [], "a script outlived its sandbox"
    assert seen["grown"] < 64 * 1024 * 1024, "the worker holds what scripts wrote"


@pytest.mark.parametrize("user", USERS)
def test_those_that_take_too_much_are_ended_and_the_others_are_not(user: str) -> None:
    ended = report(user)["ended"]
    assert [name for name, one in ended.items() if one["timed_out"]] == ["outlives its time"]
    assert {name for name, one in ended.items() if one["out_of_memory"]} == {
        "takes memory with many", "makes files without end",
    }  # fmt: skip
    assert ended["floods its output"]["cut"]
    assert len(ended["floods its output"]["stdout"]) == 64 * 1024


@pytest.mark.skipif(os.geteuid() != 0, reason="some of them need root to get through anywhere")
@pytest.mark.parametrize("name", HARMLESS)
def test_without_a_sandbox_it_gets_through(name: str, tmp_path: Path) -> None:
    escape = ESCAPES[name]
    (tmp_path / "secret").write_text(CANARY)
    (tmp_path / "script").write_text(escape.source)
    with (
        socket.create_server(("127.0.0.1", 0)) as server,
        socket.socket(socket.AF_UNIX) as file,
        socket.socket(socket.AF_UNIX) as abstract,
        subprocess.Popen(["sleep", "60"]) as decoy,
    ):
        for one, address in ((file, str(tmp_path / "socket")), (abstract, f"\0{tmp_path}")):
            one.bind(address)
            one.listen()
        arguments = [tmp_path / "secret", decoy.pid, server.getsockname()[1], tmp_path / "socket", tmp_path]
        done = subprocess.run(
            [escape.interpreter, tmp_path / "script", *map(str, arguments)],
            env=os.environ | {"CANARY": CANARY}, capture_output=True, text=True, timeout=30, check=False,
        )  # fmt: skip
        decoy.kill()
    assert THROUGH in done.stdout, done.stdout + done.stderr
