"""How a process of the archive keeps out of others' way, and how it ends."""

import contextlib
import ctypes
import os
import signal
import sys
from typing import Final

_NICE: Final = 15
_PR_SET_PDEATHSIG: Final = 1


def give_way(seconds: float, *, nice: int = _NICE) -> None:
    """Run when no other process wants to; end with the process that started this one, and at the latest after
    `seconds`."""
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.setitimer(signal.ITIMER_REAL, max(0.1, seconds))
    with contextlib.suppress(OSError):
        os.nice(nice)
    if sys.platform == "linux":
        parent = os.getppid()
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:  # it died before it could be told
            os.kill(os.getpid(), signal.SIGKILL)
