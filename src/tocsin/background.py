"""The background parts of a process: what runs as a task of its own until it is told to stop.

No caller awaits such a task, so its end would go unnoticed: work would be found late, or not at all. Here an
end by an exception, or by a cancellation that the process did not ask for, is an error: it is logged and
counted, and the part begins again after a growing pause. Only a part that returns is over; a `Loop` returns
when it was stopped.
"""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, Final

import structlog

_FIRST_PAUSE: Final = 0.1
_LONGEST_PAUSE: Final = 3.0
_STEADY: Final = 30.0
"""Seconds after which a part counts as well again."""
_log = structlog.get_logger()

Run = Callable[[], Coroutine[Any, Any, object]]


class Background:
    """Keeps parts running. `restarted` hears the name of each part that had to begin again."""

    def __init__(self, restarted: Callable[[str], None] = lambda _: None) -> None:
        self._restarted = restarted
        self._keepers: dict[str, asyncio.Task[None]] = {}

    @property
    def parts(self) -> list[str]:
        """The names of all parts."""
        return list(self._keepers)

    def start(self, name: str, run: Run) -> None:
        """Run a part as a task of this name, again and again until it returns."""
        self._keepers[name] = asyncio.create_task(self._keep(name, run), name=f"keeper of {name}")

    async def end(self, patience: float) -> None:
        """Wait for parts that were told to stop; cancel those that take longer, and those that never
        return."""
        if self._keepers:
            await asyncio.wait(self._keepers.values(), timeout=patience)
        for keeper in self._keepers.values():
            keeper.cancel()
        await asyncio.gather(*self._keepers.values(), return_exceptions=True)

    async def _keep(self, name: str, run: Run) -> None:
        loop, pause = asyncio.get_running_loop(), _FIRST_PAUSE
        while True:
            began = loop.time()
            part = asyncio.create_task(run(), name=name)
            try:
                await asyncio.wait([part])
            except asyncio.CancelledError:
                part.cancel()
                raise
            if not part.cancelled() and part.exception() is None:
                return
            if loop.time() - began > _STEADY:
                pause = _FIRST_PAUSE
            self._report(name, part, pause)
            await asyncio.sleep(pause)
            pause = min(pause * 2, _LONGEST_PAUSE)

    def _report(self, name: str, part: "asyncio.Task[object]", pause: float) -> None:
        error = None if part.cancelled() else part.exception()
        _log.error(
            "part.ended",
            part=name,
            error=repr(error) if error else "cancelled",
            retry_in=pause,
            exc_info=error,
        )
        self._restarted(name)
