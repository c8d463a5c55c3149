"""What processes cost: their processor time and memory, as the kernel counts them (Linux)."""

import os
from collections.abc import Iterable
from pathlib import Path

PARENT, USER_TICKS, SYSTEM_TICKS = 1, 11, 12  # places in /proc/<pid>/stat after the name


def cpu_seconds(pids: Iterable[int]) -> float:
    """User and system time so far."""
    ticks = sum(int(fields[USER_TICKS]) + int(fields[SYSTEM_TICKS]) for fields in map(_stat, pids) if fields)
    return ticks / os.sysconf("SC_CLK_TCK")


def resident_mb(pids: Iterable[int]) -> float:
    """Memory, with what they share counted for each of them."""
    pages = sum(int(Path(f"/proc/{pid}/statm").read_text().split()[1]) for pid in pids)
    return pages * os.sysconf("SC_PAGE_SIZE") / (1 << 20)


def children(pid: int) -> list[int]:
    """Children of a process; a database server has no grandchildren."""
    processes = [int(path.name) for path in Path("/proc").glob("[0-9]*")]
    return [one for one in processes if (fields := _stat(one)) and int(fields[PARENT]) == pid]


def _stat(pid: int) -> list[str]:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:  # it has ended
        return []
