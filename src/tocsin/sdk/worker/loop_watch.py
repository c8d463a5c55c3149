"""Notices when an event loop is blocked, from another thread, and says by what.

A blocked loop loses no claims: heartbeats have a thread of their own. But every other coroutine of the worker
waits, so the author of the blocking line wants to know it.
"""

import asyncio
import logging
import sys
import traceback
from time import monotonic
from typing import Final

from tocsin.sdk.outcomes import is_ours

BLOCKED_AFTER: Final = 1.0
"""Seconds without a turn after which a loop counts as blocked."""
_log = logging.getLogger("tocsin.worker")


class LoopWatch:
    """Asks a loop for a sign of life, and warns once for each time that it is blocked."""

    def __init__(self, loop: asyncio.AbstractEventLoop, thread_id: int) -> None:
        self._loop = loop
        self._thread_id = thread_id
        self._asked_at: float | None = None
        self._warned = False
        self.times_blocked = 0

    def look(self) -> None:
        """Called again and again by a thread that is not the loop's."""
        now = monotonic()
        if self._asked_at is None:
            self._asked_at = now
            self._loop.call_soon_threadsafe(self._answer)
        elif now - self._asked_at >= BLOCKED_AFTER and not self._warned:
            self._warned = True
            self.times_blocked += 1
            _log.warning(
                "the event loop is blocked for %.1f s; what blocks it belongs into a plain function:\n%s",
                now - self._asked_at,
                stack_of(self._thread_id),
            )

    def _answer(self) -> None:
        asked_at, self._asked_at = self._asked_at, None
        if self._warned and asked_at is not None:
            self._warned = False
            _log.warning("the event loop goes on after %.1f s", monotonic() - asked_at)


def stack_of(thread_id: int | None) -> str:
    """Where a thread is, as a traceback's text: from where it left our code, if it is in a task."""
    frame = None if thread_id is None else sys._current_frames().get(thread_id)  # noqa: SLF001 - the one way to see it
    frames = [] if frame is None else traceback.extract_stack(frame)
    ours = [place for place, one in enumerate(frames) if is_ours(one.filename)]
    return "".join(traceback.format_list((ours and frames[ours[-1] + 1 :]) or frames))
