"""Named points where a test can make a node fail.

Production code says ``await failpoints.reach("planner.before_commit")``; with nothing armed that is one
dictionary look-up. A test arms a point with an action; ``TOCSIN_FAILPOINTS`` does the same for whole
processes, for example ``runner.sent=crash:0.01;settler.before=pause:2``.
"""

import asyncio
import os
import random
import signal
from collections.abc import Awaitable, Callable

from tocsin.domain.errors import Refused

Action = Callable[[], Awaitable[None]]


class Failpoints:
    """The armed points of one node."""

    def __init__(self) -> None:
        self._armed: dict[str, Action] = {}

    def arm(self, point: str, action: Action) -> None:
        """Run `action` whenever `point` is reached."""
        self._armed[point] = action

    async def reach(self, point: str) -> None:
        """Called by production code; does nothing unless the point is armed."""
        action = self._armed.get(point)
        if action is not None:
            await action()

    @classmethod
    def from_text(cls, text: str) -> "Failpoints":
        """Parse ``point=action[:argument];…`` with the actions crash, pause and error."""
        points = cls()
        for part in filter(None, (item.strip() for item in text.split(";"))):
            point, _, written = part.partition("=")
            name, _, argument = written.partition(":")
            points.arm(point, _action(name, float(argument or 1)))
        return points


def _action(name: str, argument: float) -> Action:
    match name:
        case "crash":  # argument: how likely
            return lambda: _crash(argument)
        case "pause":  # argument: seconds
            return lambda: asyncio.sleep(argument)
        case "error":  # argument: how likely
            return lambda: _error(argument)
        case _:
            raise Refused(
                f"unknown failpoint action {name!r}; use crash, pause or error", field="TOCSIN_FAILPOINTS"
            )


async def _crash(likelihood: float) -> None:
    if random.random() < likelihood:
        os.kill(os.getpid(), signal.SIGKILL)


async def _error(likelihood: float) -> None:
    if random.random() < likelihood:
        raise OSError("failpoint")
