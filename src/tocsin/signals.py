"""Named signals between the parts of a process.

A part sends a signal when something has happened that other parts may wait for; it does not know which. Where
the parts are put together (`worker/worker.py`) signals are connected to what they set off. A test waits for a
signal instead of sleeping: ``await worker.settler.settled.sent()``.
"""

import asyncio
from collections.abc import Callable


class Signal:
    """Something that happens again and again. Sending it is cheap, and nothing is kept for parts that connect
    later."""

    __slots__ = ("_listeners", "_waiting", "name")

    def __init__(self, name: str) -> None:
        self.name = name
        self._listeners: list[Callable[[], None]] = []
        self._waiting: list[asyncio.Future[None]] = []

    def connect(self, *listeners: Callable[[], None]) -> None:
        """Call these, in order, each time the signal is sent."""
        self._listeners.extend(listeners)

    def send(self) -> None:
        """It has happened."""
        for listener in self._listeners:
            listener()
        if self._waiting:
            waiting, self._waiting = self._waiting, []
            for future in waiting:
                if not future.done():
                    future.set_result(None)

    async def sent(self) -> None:
        """Wait until the signal is sent the next time."""
        future = asyncio.get_running_loop().create_future()
        self._waiting.append(future)
        await future
