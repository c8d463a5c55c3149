"""A worker that is out of file descriptors: its own trouble, for which no job, host or name pays.

A call that finds none left is put off without an attempt. The log says so, once in a while and not once per
call.
"""

import errno
import random
from typing import Final

import structlog

from tocsin.domain.instant import SECOND, Instant, Span
from tocsin.domain.outcome import Postponed
from tocsin.domain.waits import Reason

_NONE_LEFT: Final = frozenset({errno.EMFILE, errno.ENFILE})
_WAIT: Final[Span] = SECOND
_TOLD_EVERY: Final[Span] = 10 * SECOND
_log = structlog.get_logger()


def none_left(error: BaseException) -> bool:
    """Whether something failed because this process, or its machine, has no file descriptor left."""
    return isinstance(error, OSError) and error.errno in _NONE_LEFT


class DescriptorShortage:
    """Puts off calls while there are no descriptors."""

    def __init__(self) -> None:
        self._told_at: Instant | None = None

    def put_off(self, now: Instant) -> Postponed:
        """What becomes of a call that found none. Spread, so that the calls do not come back all at once."""
        if self._told_at is None or not 0 <= now - self._told_at < _TOLD_EVERY:
            self._told_at = now
            _log.error(
                "worker.out_of_descriptors", hint="raise the limit of open files, or lower TOCSIN_CONCURRENCY"
            )
        return Postponed(_WAIT + round(_WAIT * random.random()), Reason.DESCRIPTORS)
