"""One script from its start to its end, as a process of this machine.

The worker holds the outermost process of the sandbox. To end a script it kills the sandbox's first process,
and the kernel ends with it every process inside, whatever session or group that has made itself. When the
worker is killed, the same happens by itself. So nothing has to be found and cleaned up.

Of the output the beginning is kept. The rest is read slowly and dropped: a script that floods its output
waits, and the worker's memory and processor do not care.
"""

import asyncio
import contextlib
import fcntl
import json
import os
import signal
import subprocess
from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Final, Self

import msgspec

from tocsin.targets.script.processes import children_of, held_by, kill_children
from tocsin.targets.script.sandbox import (
    TOP_LEVEL,
    Limits,
    launcher,
    limited_command,
    sandbox_arguments,
)
from tocsin.targets.script.seccomp import seccomp_filter

GRACE: Final = 5.0
"""Seconds between asking a script to end and ending it."""
_CHUNK: Final = 64 * 1024
_FLOOD_PAUSE: Final = 0.02
_WATCHED_EVERY: Final = 0.1
_LAST_WORDS: Final = 5.0
_SEALS: Final = 0x1 | 0x2 | 0x4 | 0x8  # no more seals, no shrinking, growing or writing
_ADD_SEALS: Final = 1033


class Script(msgspec.Struct, frozen=True):
    """What to run."""

    interpreter: str
    source: bytes
    arguments: Sequence[str] = ()
    environment: Mapping[str, str] = {}
    stdin: bytes = b""


class Kept(msgspec.Struct):
    """The beginning of an output."""

    data: bytes = b""
    cut: bool = False


class Ended(msgspec.Struct, frozen=True):
    """How a script ended."""

    exit: int | None
    """Its exit code, or 128 and the number of a signal. None: the sandbox did not come up, or was killed."""
    stdout: Kept
    stderr: Kept
    timed_out: bool = False
    out_of_memory: bool = False


async def run_script(script: Script, limits: Limits, output: int) -> Ended:
    """Run a script to its end, which comes after `limits.seconds` at the latest. Cancelled: the script is
    asked to end, and ended."""
    stdout, stderr, report = Kept(), Kept(), Kept()
    kept = ((stdout, output), (stderr, output), (report, _CHUNK))
    with _Files() as files:
        pipes = [files.pipe() for _ in kept]
        readers = [await _reader(files.keep(out)) for out, _ in pipes]
        # From here on nothing is waited for until whatever happens ends the process.
        process = _start(script, limits, files, *(into for _, into in pipes))
    reading = [asyncio.create_task(_keep(reader, *one)) for reader, one in zip(readers, kept, strict=True)]
    watching = asyncio.create_task(_watch(process, limits.memory))
    timed_out = False
    try:
        async with asyncio.timeout(limits.seconds):
            await process.over.wait()
    except TimeoutError:
        timed_out = True
    except asyncio.CancelledError:
        await _ask_to_end(process)
        raise
    finally:
        watching.cancel()
        await process.end()
        await _rest(reading)
    killed = timed_out or process.out_of_memory
    exit_code = None if killed else _exit_code(report.data)
    return Ended(exit_code, stdout, stderr, timed_out, process.out_of_memory)


class _Process:
    """The outermost process of a sandbox: a child of this one, and reaped here."""

    def __init__(self, child: "subprocess.Popen[bytes]") -> None:
        self._child = child
        self.pid = child.pid
        self.over = asyncio.Event()
        self.out_of_memory = False
        self._handle = os.pidfd_open(child.pid)
        asyncio.get_running_loop().add_reader(self._handle, self._reap)

    async def end(self) -> None:
        """End everything inside, and it. Its first process goes first, so that it is reaped by its parent and
        not left to the machine."""
        if self.over.is_set():
            return
        if not kill_children(self.pid):
            self._child.kill()
        try:
            async with asyncio.timeout(_LAST_WORDS):
                await self.over.wait()
        except TimeoutError:
            self._child.kill()
            await self.over.wait()

    def _reap(self) -> None:
        asyncio.get_running_loop().remove_reader(self._handle)
        os.close(self._handle)
        self._child.wait()
        self.over.set()


class _Files:
    """Files in memory that the sandbox is given; closed here once it has them."""

    def __init__(self) -> None:
        self._open: list[int] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        for file in self._open:
            os.close(file)

    def holding(self, data: bytes) -> int:
        """A file with this content, which no process can change."""
        file = os.memfd_create("script", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
        self._open.append(file)
        view = memoryview(data)
        while view:
            view = view[os.write(file, view) :]
        os.lseek(file, 0, os.SEEK_SET)
        fcntl.fcntl(file, _ADD_SEALS, _SEALS)
        return file

    def pipe(self) -> tuple[int, int]:
        """Two ends of a pipe: out, in."""
        ends = os.pipe()
        self._open += ends
        return ends

    def keep(self, file: int) -> int:
        """Leave this one open: its new owner closes it."""
        self._open.remove(file)
        return file


def _start(script: Script, limits: Limits, files: _Files, stdout: int, stderr: int, status: int) -> _Process:
    """Start it. The child gets the files that it is given and no other: those that this process inherited are
    closed, too."""
    source, seccomp = files.holding(script.source), files.holding(seccomp_filter())
    given = sandbox_arguments(
        limits, script.environment, _links(), source=source, seccomp=seccomp, status=status
    )
    arguments = files.holding(given)
    command = limited_command(limits, script.interpreter, script.arguments)
    child = subprocess.Popen(
        [*launcher(root=os.geteuid() == 0), "bwrap", "--args", str(arguments), "--", *command],
        stdin=files.holding(script.stdin), stdout=stdout, stderr=stderr,
        pass_fds=(source, seccomp, status, arguments), env={"PATH": "/usr/local/bin:/usr/bin:/bin"}, cwd="/",
    )  # fmt: skip
    return _Process(child)


async def _reader(file: int) -> asyncio.StreamReader:
    reader = asyncio.StreamReader()
    loop = asyncio.get_running_loop()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), os.fdopen(file, "rb", 0))
    return reader


async def _keep(reader: asyncio.StreamReader, kept: Kept, most: int) -> None:
    while chunk := await reader.read(_CHUNK):
        room = most - len(kept.data)
        kept.data += chunk[:room]
        if len(chunk) > room:
            kept.cut = True
            await asyncio.sleep(_FLOOD_PAUSE)


async def _watch(process: _Process, memory: int) -> None:
    """End a sandbox that holds more than it may."""
    while held_by(process.pid) <= memory:  # noqa: ASYNC110 - the machine sends no notice
        await asyncio.sleep(_WATCHED_EVERY)
    process.out_of_memory = not process.over.is_set()
    await process.end()


async def _ask_to_end(process: _Process) -> None:
    """SIGTERM to the script, and a while to tidy up. The first process inside is the sandbox's own."""
    for first in children_of(process.pid):
        kill_children(first, signal.SIGTERM)
    with contextlib.suppress(TimeoutError, asyncio.CancelledError):
        async with asyncio.timeout(GRACE):
            await process.over.wait()


async def _rest(reading: "Sequence[asyncio.Task[None]]") -> None:
    """What is still in the pipes. They end with the last process inside."""
    _, open_still = await asyncio.wait(reading, timeout=_LAST_WORDS)
    for task in open_still:
        task.cancel()


def _exit_code(report: bytes) -> int | None:
    for line in report.splitlines():
        with contextlib.suppress(ValueError):
            if (code := json.loads(line).get("exit-code")) is not None:
                return int(code)
    return None


@lru_cache(maxsize=1)
def _links() -> dict[str, str | None]:
    """The machine's top-level directories, and where those lead that are links into `/usr`."""
    found: dict[str, str | None] = {}
    for name in TOP_LEVEL:
        path = Path("/") / name
        if path.is_symlink():
            found[name] = str(path.readlink())
        elif path.is_dir():
            found[name] = None
    return found
