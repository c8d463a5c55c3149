"""Named signals between the parts of a process.

A part sends a signal when something has happened that other parts may wait for; it does not know which. Where
the parts are put together (`worker/worker.py`) signals are connected to what they set off. A test connects a
listener of its own and looks whether it was called.
"""

from collections.abc import Callable


class Signal:
    """Something that happens again and again. Sending it is cheap, and nothing is kept for parts that connect
    later."""

    __slots__ = ("_listeners", "name")

    def __init__(self, name: str) -> None:
        self.name = name
        self._listeners: list[Callable[[], None]] = []

    def connect(self, *listeners: Callable[[], None]) -> None:
        """Call these, in order, each time the signal is sent."""
        self._listeners.extend(listeners)

    def send(self) -> None:
        """It has happened."""
        for listener in self._listeners:
            listener()
