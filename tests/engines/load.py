"""Messages that go on while a broker loses its leaders: each is sent until it is taken."""

import asyncio
import time
from collections.abc import Callable
from typing import Any

from tests.engines.attempts import Attempts

_AT_ONCE = 25


class Load:
    """Messages under way, and how long each of them waited to be taken."""

    def __init__(self, attempts: Attempts, target_of: Callable[[int], Any]) -> None:
        self._attempts = attempts
        self._target_of = target_of
        self._calls: list[asyncio.Task[None]] = []
        self._waits: list[float] = []

    @property
    def sent(self) -> int:
        return len(self._calls)

    @property
    def longest_wait(self) -> float:
        return max(self._waits)

    async def send(self, rounds: int) -> None:
        """So many times a few messages."""
        for _ in range(rounds):
            first = len(self._calls) + 1
            self._calls += [asyncio.create_task(self._send(n)) for n in range(first, first + _AT_ONCE)]
            await asyncio.sleep(0.01)

    async def go_on_until_taken(self) -> None:
        """A few more at a time until all that were sent before are taken, then wait for the rest."""
        before = asyncio.gather(*self._calls)
        while not before.done():
            await self.send(1)
            await asyncio.wait([before], timeout=0.1)
        await asyncio.gather(*self._calls)

    async def _send(self, number: int) -> None:
        began = time.monotonic()
        await self._attempts.until_taken(self._target_of(number), number)
        self._waits.append(time.monotonic() - began)
