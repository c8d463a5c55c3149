"""One outage of the database, a few lines in the log.

While the database is away every part of a process hears of it, again and again, and so does the driver. All
of that is one event. `OutageLines` lets the first line pass, then one after a second, after two, after four,
up to one every half minute, each with the number of those in between. When the database is back it begins
anew. `DriverLines` is where the driver's own logger ends: what it prints as tracebacks becomes one of these
lines.
"""

import logging
import time
from collections.abc import Callable, MutableMapping
from typing import Any, Final

import structlog

_SAME: Final = frozenset(
    {"api.unavailable", "database.unavailable", "notices.unavailable", "pulse.missed", "service.unavailable"}
)
_OVER: Final = "database.back"
_FIRST_GAP: Final = 1.0
_LONGEST_GAP: Final = 30.0
_log = structlog.get_logger()


class OutageLines:
    """A structlog processor that remembers when it last let such a line pass."""

    def __init__(self, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._monotonic = monotonic
        self._gap = _FIRST_GAP
        self._silent_until = 0.0
        self._unsaid = 0

    def __call__(self, _: Any, __: str, line: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
        if line["event"] == _OVER:
            self._gap, self._silent_until = _FIRST_GAP, 0.0
        elif line["event"] in _SAME:
            self._pass_or_drop(line)
        return line

    def _pass_or_drop(self, line: MutableMapping[str, Any]) -> None:
        now = self._monotonic()
        if now < self._silent_until:
            self._unsaid += 1
            raise structlog.DropEvent
        if now > self._silent_until + 2 * _LONGEST_GAP:  # of an outage before this one
            self._gap = _FIRST_GAP
        if self._unsaid:
            line["unsaid"] = self._unsaid
        self._silent_until, self._gap, self._unsaid = now + self._gap, min(self._gap * 2, _LONGEST_GAP), 0


class DriverLines(logging.Handler):
    """Says what the driver says, in our words."""

    def emit(self, record: logging.LogRecord) -> None:
        error = record.exc_info[1] if record.exc_info else None
        _log.warning("database.unavailable", error=str(error or record.getMessage()), part="driver")


def take_over_driver_log() -> None:
    """Let the driver's logger end here and nowhere else."""
    driver = logging.getLogger("asyncpg")
    driver.handlers[:] = [DriverLines()]
    driver.propagate = False
