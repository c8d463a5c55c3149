"""A wall that is missing is missed: the sandbox is tried with one of its walls left out at a time."""

import asyncio
import shutil
import struct
from collections.abc import Callable
from typing import Any

import pytest

from tocsin.targets.script import process, walls

pytestmark = pytest.mark.skipif(shutil.which("bwrap") is None, reason="bubblewrap is not installed")
_ARGUMENTS = process.sandbox_arguments
_COMMAND = process.limited_command


def fallen() -> dict[str, str]:
    return asyncio.run(walls.fallen_walls())


def instead(written: tuple[str, ...], other: tuple[str, ...] = ()) -> Callable[..., bytes]:
    """The arguments of the sandbox with some replaced, or left out."""

    def made(*given: Any, **named: Any) -> bytes:
        gone, come = (
            b"".join(word.replace("FD", str(named["seccomp"])).encode() + b"\0" for word in words)
            for words in (written, other)
        )
        whole = _ARGUMENTS(*given, **named)
        assert gone in whole
        return whole.replace(gone, come)

    return made


SIZE = str(walls._LIMITS.disk)
ALLOWS_ALL = struct.pack("HBBI", 0x06, 0, 0, 0x7FFF0000)
"""A filter of system calls that lets all of them through."""
LEFT_OUT = {
    "network": (("--unshare-net",), ()),
    "files": (("--proc", "/proc"), ("--ro-bind", "/etc", "/etc", "--proc", "/proc")),
    "read-only": (("--remount-ro", "/"), ()),
    "disk": (("--size", SIZE, "--tmpfs", "/tmp"), ("--tmpfs", "/tmp")),
    "processes": (("--proc", "/proc"), ("--ro-bind", "/proc", "/proc")),
    "privileges": (("--cap-drop", "ALL"), ("--cap-add", "ALL")),
    "system calls": (("--seccomp", "FD"), ()),
}


def test_the_sandbox_stands_as_it_is() -> None:
    assert fallen() == {}


@pytest.mark.parametrize("wall", LEFT_OUT)
def test_a_wall_that_is_left_out_is_named(monkeypatch: pytest.MonkeyPatch, wall: str) -> None:
    monkeypatch.setattr(process, "sandbox_arguments", instead(*LEFT_OUT[wall]))
    assert wall in fallen()


def test_further_namespaces_are_named_where_nothing_forbids_them(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two things do: bubblewrap, and the filter of system calls."""
    monkeypatch.setattr(process, "sandbox_arguments", instead(("--disable-userns",)))
    monkeypatch.setattr(process, "seccomp_filter", lambda: ALLOWS_ALL)
    assert "namespaces" in fallen()


def test_every_wall_is_left_out_once() -> None:
    assert {*LEFT_OUT, "namespaces", "fork"} == set(walls.WALLS)


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
