"""Cancels calls that take longer than they may. One timer serves all of them: `asyncio.timeout` for each
would be a tenth of what a webhook costs.

Calls that may take equally long reach their deadlines in the order in which they began. So they are kept by
how long they may take, and only the first of each kind is looked at. The timer is set for the earliest
deadline; if that call is over by then, the timer is set for the next one.

A timer that rings late belongs to a process that stood still. Answers that came meanwhile lie unread in its
sockets, so they are read before a call counts as unanswered.
"""

import asyncio
from itertools import takewhile
from typing import Any, Final

_STOOD_STILL_SECONDS: Final = 0.1
_READING_SECONDS: Final = 0.01
CallTask = asyncio.Task[Any]


class Timeouts:
    """The deadlines of the calls under way on one worker."""

    def __init__(self) -> None:
        self._deadlines: dict[float, dict[CallTask, float]] = {}
        """By the seconds that calls may take; each kind in the order of its deadlines."""
        self._kinds: dict[CallTask, float] = {}
        self._cancelled: set[CallTask] = set()
        self._timer: asyncio.TimerHandle | None = None

    def watch(self, call: CallTask, seconds: float) -> None:
        """Cancel this call after `seconds`, unless it is over by then. Must be told when it is `over`."""
        deadline = asyncio.get_running_loop().time() + seconds
        self._kinds[call] = seconds
        self._deadlines.setdefault(seconds, {})[call] = deadline
        if self._timer is None or deadline < self._timer.when():
            self._set_timer(deadline)

    def answered(self, call: CallTask) -> None:
        """A call has its answer, which counts however long it takes to pass it on."""
        self._forget(call)

    def over(self, call: CallTask) -> bool:
        """A call is over. Whether it was cancelled here."""
        self._forget(call)
        if call not in self._cancelled:
            return False
        self._cancelled.remove(call)
        return True

    def _forget(self, call: CallTask) -> None:
        seconds = self._kinds.pop(call, None)
        if seconds is not None:
            kind = self._deadlines[seconds]
            del kind[call]
            if not kind:
                del self._deadlines[seconds]

    def _set_timer(self, deadline: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = asyncio.get_running_loop().call_at(deadline, self._ring)

    def _ring(self) -> None:
        timer, self._timer = self._timer, None
        loop = asyncio.get_running_loop()
        if timer is not None and loop.time() - timer.when() > _STOOD_STILL_SECONDS:
            self._timer = loop.call_later(_READING_SECONDS, self._expire)
        else:
            self._expire()

    def _expire(self) -> None:
        self._timer = None
        now = asyncio.get_running_loop().time()
        for kind in list(self._deadlines.values()):
            for call, _ in list(takewhile(lambda entry: entry[1] <= now, kind.items())):
                self._forget(call)
                if (
                    not call.cancelling() and call.cancel()
                ):  # one that is being cancelled ends for that reason
                    self._cancelled.add(call)
        if self._deadlines:
            self._set_timer(min(next(iter(kind.values())) for kind in self._deadlines.values()))
