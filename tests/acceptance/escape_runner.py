"""Runs the escapes as the user that it is started as, and prints what became of each and of the machine.

`python -m tests.acceptance.escape_runner` is the worker here: it runs them in their sandboxes.
"""

import asyncio
import ctypes
import json
import os
import resource
import socket
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from tests.acceptance.escapes import CANARY, ESCAPES, Escape
from tocsin.targets.script.process import Script, run_script
from tocsin.targets.script.sandbox import Limits
from tocsin.targets.script.walls import fallen_walls

_MEMORY = 256 * 1024 * 1024
_OUTPUT = 64 * 1024
_SECONDS = {"outlives its time": 1.0}
_AMBIENT_CLEAR = 47, 4
_AT_ONCE = 4


def main() -> None:
    """Run them all."""
    ctypes.CDLL(None).prctl(*_AMBIENT_CLEAR, 0, 0, 0)  # what let this program be read is nobody else's
    os.environ["CANARY"] = CANARY
    with tempfile.TemporaryDirectory() as directory:
        Path(directory).chmod(0o755)
        secret = Path(directory) / "secret"
        secret.write_text(CANARY)
        secret.chmod(0o644)
        os.set_inheritable(os.open(secret, os.O_RDONLY), True)  # as a library might leave one
        decoy = subprocess.Popen(["sleep", "600"])
        servers = [_listening(("127.0.0.1", 0)), _listening(f"{directory}/socket"), _listening(f"\0{CANARY}")]
        arguments = [
            str(secret),
            str(decoy.pid),
            str(servers[0].getsockname()[1]),
            f"{directory}/socket",
            CANARY,
        ]
        try:
            report = asyncio.run(_report(arguments))
            report["decoy"] = decoy.poll() is None
        finally:
            decoy.kill()
            decoy.wait()
    json.dump(report, sys.stdout)


async def _report(arguments: list[str]) -> dict[str, Any]:
    fallen = await fallen_walls()
    before = _resident()
    of_others = set(_left())  # of a worker that another test killed
    room = asyncio.Semaphore(_AT_ONCE)

    async def run(name: str, escape: Escape) -> tuple[str, Any]:
        async with room:
            return name, await _run(name, escape, arguments)

    ended = dict(await asyncio.gather(*(run(name, escape) for name, escape in ESCAPES.items())))
    return {
        "fallen": fallen,
        "ended": ended,
        "grown": _resident() - before,
        "left": sorted(set(_left()) - of_others),
    }


async def _run(name: str, escape: Escape, arguments: list[str]) -> dict[str, Any]:
    limits = Limits(_SECONDS.get(name, 30.0), _MEMORY, 32, 64 * 1024 * 1024)
    script = Script(escape.interpreter, escape.source.encode(), arguments)
    ended = await run_script(script, limits, _OUTPUT)
    return {
        "exit": ended.exit,
        "timed_out": ended.timed_out,
        "out_of_memory": ended.out_of_memory,
        "stdout": ended.stdout.data.decode("utf-8", "replace"),
        "stderr": ended.stderr.data.decode("utf-8", "replace")[:2000],
        "cut": ended.stdout.cut,
    }


def _listening(address: Any) -> socket.socket:
    server = socket.socket(socket.AF_INET if isinstance(address, tuple) else socket.AF_UNIX)
    server.bind(address)
    server.listen(16)
    return server


def _resident() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def _left() -> list[str]:
    """Processes of the scripts that are still there. Those below another process than this one belong to a
    worker of another test."""
    found = []
    for entry in Path("/proc").iterdir():
        try:
            words = _words(entry)
            inside = words[:2] in ([CANARY.encode(), b"600"], [b"sleep", b"611"]) or b"/run/script" in words
            if inside and _keeper(entry) in (1, os.getpid()):
                found.append(f"{entry.name}: {b' '.join(words).decode()}")
        except (OSError, StopIteration):
            continue
    return found


def _words(process: Path) -> list[bytes]:
    return (process / "cmdline").read_bytes().split(b"\0")


def _keeper(process: Path) -> int:
    """The first process above one of a script that is not part of its sandbox."""
    status = (process / "status").read_text().splitlines()
    parent = int(next(line for line in status if line.startswith("PPid:")).split()[1])
    above = process.parent / str(parent)
    return _keeper(above) if parent > 1 and b"/run/script" in _words(above) else parent


if __name__ == "__main__":
    main()
