"""The processes below one process, as the machine sees them: what they hold, and how they are ended.

The kernel's own limit on memory is per process. A cgroup would bound them all, and needs a delegation that
few machines give; so a worker adds up what they hold, a few times per second, and ends a sandbox that is over
its limit. Memory that several processes share is counted for each of them; pages of files on disk are not
counted. Each file in `/tmp` counts for what the kernel needs to know of it, so that empty files are bounded,
too; their content is bounded by the size of `/tmp`.
"""

import contextlib
import os
import signal
from pathlib import Path
from typing import Final

_PROC: Final = Path("/proc")
_MOST: Final = 1024
_BYTES_PER_FILE: Final = 1024


def held_by(pid: int) -> int:
    """Bytes that a sandbox holds: its outermost process, all below, and its files. What ended meanwhile holds
    nothing."""
    total, waiting, seen = _files(pid), [pid], 0
    while waiting and seen < _MOST:
        one = waiting.pop()
        seen += 1
        total += _resident(one)
        waiting += children_of(one)
    return total


def children_of(pid: int) -> list[int]:
    """The processes that a process started, and those that it inherited."""
    try:
        text = (_PROC / str(pid) / "task" / str(pid) / "children").read_text()
    except OSError:
        return []
    return [int(word) for word in text.split()]


def kill_children(pid: int, signum: signal.Signals = signal.SIGKILL) -> int:
    """Send a signal to the children of a process. How many got it."""
    return sum(_kill(child, pid, signum) for child in children_of(pid))


def _kill(pid: int, parent: int, signum: signal.Signals) -> bool:
    """Signal a process that is a child of this parent still: its number may be another's by now."""
    with contextlib.suppress(OSError):
        handle = os.pidfd_open(pid)
        try:
            if pid in children_of(parent):
                signal.pidfd_send_signal(handle, signum)
                return True
        finally:
            os.close(handle)
    return False


def _files(pid: int) -> int:
    """What the kernel holds for the files of a sandbox. Its `/tmp` is seen through its first process, which
    has the machine's own until the sandbox is set up: so what is counted is the very directory that was
    found to be another one."""
    for first in children_of(pid):
        with contextlib.suppress(OSError):
            there = os.open(_PROC / str(first) / "root" / "tmp", os.O_PATH | os.O_DIRECTORY)
            try:
                if os.fstat(there).st_dev != Path("/tmp").stat().st_dev:  # noqa: S108 - the machine's own
                    room = os.statvfs(there)
                    return (room.f_files - room.f_ffree) * _BYTES_PER_FILE
            finally:
                os.close(there)
    return 0


def _resident(pid: int) -> int:
    """Resident memory that belongs to no file on disk."""
    try:
        lines = (_PROC / str(pid) / "status").read_text().splitlines()
    except OSError:
        return 0
    return sum(int(line.split()[1]) * 1024 for line in lines if line.startswith(("RssAnon:", "RssShmem:")))
