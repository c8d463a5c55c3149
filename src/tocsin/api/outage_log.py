"""One line in the log for an outage, not one per request: callers are told without the reasons, operators
once a minute with them."""

from typing import Final

import structlog

from tocsin.clock import Clock
from tocsin.domain.errors import Unavailable

_EVERY: Final = 60.0
_log = structlog.get_logger()


class Outage:
    """Remembers when it last spoke."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._silent_until = 0.0
        self._unsaid = 0

    def note(self, error: Unavailable) -> None:
        """A request could not be served."""
        now = self._clock.monotonic()
        if now < self._silent_until:
            self._unsaid += 1
            return
        _log.warning("api.unavailable", error=str(error), requests_before=self._unsaid)
        self._silent_until, self._unsaid = now + _EVERY, 0
