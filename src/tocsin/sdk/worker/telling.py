"""What a worker's own log says of attempts: each failure with its trace, and with `--verbose` each success.

A task that fails a thousand times a second must not fill a disk, so a limited number of traces is told in a
second; the rest is counted, and the number told a second later. All of them are kept with their executions.
"""

import logging
import threading
from collections.abc import Callable
from time import monotonic
from typing import Final

from tocsin.domain.protocol import TaskSettlement
from tocsin.sdk.worker.attempt import Attempt

TRACES_A_SECOND: Final = 10
_WORDS: Final = {
    "rejected": "will not succeed, and is not tried again",
    "timed_out": "was not over in time",
    "cancelled": "was cancelled",
}
_log = logging.getLogger("tocsin.worker")


class Telling:
    """Tells how attempts ended; called from whichever thread they ran on."""

    def __init__(self, clock: Callable[[], float] = monotonic) -> None:
        self._clock = clock
        self._second = 0.0
        self._told = 0
        self._untold = 0
        self._lock = threading.Lock()

    def ended(self, attempt: Attempt, settlement: TaskSettlement) -> None:
        """An attempt is over."""
        if settlement.verdict in ("succeeded", "skipped", "postponed"):
            if _log.isEnabledFor(logging.DEBUG):
                took = 0.0 if attempt.began is None else monotonic() - attempt.began
                _log.debug("%s %s after %.3f s", _name(attempt), settlement.verdict, took)
        elif self._may_tell():
            error = settlement.error
            words = _WORDS.get(settlement.verdict, "failed")
            trace = "" if error is None else error.trace or f"{error.kind}: {error.message}"
            _log.warning("%s %s\n%s", _name(attempt), words, trace.rstrip())

    def _may_tell(self) -> bool:
        with self._lock:
            now = self._clock()
            if now - self._second >= 1.0:
                self._second, untold, self._told, self._untold = now, self._untold, 0, 0
                if untold:
                    _log.warning("%d more attempts failed; their traces are kept with them", untold)
            self._told += 1
            if self._told > TRACES_A_SECOND:
                self._untold += 1
                return False
            return True


def _name(attempt: Attempt) -> str:
    return f"{attempt.claim.task} ({attempt.claim.id}, attempt {attempt.claim.attempt})"
