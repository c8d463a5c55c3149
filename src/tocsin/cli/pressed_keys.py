"""Keys that a person presses, one at a time and without Enter."""

import os
import select
import sys
import termios
import tty
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

_NAMES: Final = {
    b"\t": "tab",
    b"\r": "enter",
    b"\n": "enter",
    b"\x1b[A": "up",
    b"\x1b[B": "down",
    b"\x1b": "q",
}
_LONGEST: Final = 8


@contextmanager
def keyboard() -> Iterator["Keyboard"]:
    """The terminal's keyboard; the terminal is as before afterwards."""
    descriptor = sys.stdin.fileno()
    before = termios.tcgetattr(descriptor)
    tty.setcbreak(descriptor)
    try:
        yield Keyboard(descriptor)
    finally:
        termios.tcsetattr(descriptor, termios.TCSADRAIN, before)


class Keyboard:
    """Reads keys from a terminal."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    def key(self, patience: float) -> str | None:
        """The next key by its letter or name; None if none is pressed for `patience` seconds. A terminal that
        is gone asks to quit."""
        ready, _, _ = select.select([self._descriptor], [], [], max(0.0, patience))
        if not ready:
            return None
        raw = os.read(self._descriptor, _LONGEST)
        return key_of(raw) if raw else "q"


def key_of(raw: bytes) -> str:
    """The name of what a terminal sends for a key."""
    return _NAMES.get(raw) or raw[:1].decode(errors="replace").lower()
