"""A wall that is missing is missed: the sandbox is tried with one of its walls left out at a time."""

import asyncio
import shutil
from collections.abc import Callable
from typing import Any

import pytest

from tocsin.targets.script import process, walls

pytestmark = pytest.mark.skipif(shutil.which("bwrap") is None, reason="bubblewrap is not installed")
_ARGUMENTS = process.sandbox_arguments
_COMMAND = process.limited_command


def fallen() -> dict[str, str]:
    return asyncio.run(walls.fallen_walls())


def without(*words: str) -> Callable[..., bytes]:
    """The arguments of the sandbox without some."""
    gone = b"".join(word.encode() + b"\0" for word in words)

    def made(*given: Any, **named: Any) -> bytes:
        whole = _ARGUMENTS(*given, **named)
        filled = gone.replace(b"FD", str(named["seccomp"]).encode())
        assert filled in whole
        return whole.replace(filled, b"")

    return made


@pytest.mark.parametrize(
    ("words", "wall"),
    [
        (("--unshare-net",), "network"),
        (("--seccomp", "FD"), "system calls"),
        (("--remount-ro", "/"), "read-only"),
    ],
)
def test_a_wall_that_is_left_out_is_named(
    monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...], wall: str
) -> None:
    assert fallen() == {}
    monkeypatch.setattr(process, "sandbox_arguments", without(*words))
    assert wall in fallen()


def test_a_bound_on_processes_that_is_left_out_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def unbounded(*given: Any) -> list[str]:
        return [word for word in _COMMAND(*given) if "nproc" not in word]

    monkeypatch.setattr(process, "limited_command", unbounded)
    assert list(fallen()) == ["fork"]


def test_a_machine_without_bubblewrap_or_with_one_that_fails_runs_none(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(process, "launcher", lambda *, root: ["false"])
    assert "did not start" in fallen()["sandbox"]
    monkeypatch.setattr(walls.shutil, "which", lambda _: None)
    assert "bwrap" in fallen()["programs"]
