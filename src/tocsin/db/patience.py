"""How long a caller waits for the database, whatever it asks: a deadline over several statements.

A pool gives each statement a time of its own. A user who waits for the answer to a request does not care how
many there are. So the API says once how patient it is, and whatever is asked inside ends by then.
"""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from time import monotonic
from typing import Final

_SHORTEST: Final = 0.05
_SLACK: Final = 0.2
"""Statements have their own limit; what surrounds them ends a little later, so that the more telling error is
raised."""
_until: ContextVar[float | None] = ContextVar("patience", default=None)


@contextmanager
def patient_for(seconds: float | None) -> Iterator[None]:
    """Every statement inside is answered or given up within this many seconds, counted once for all; None: as
    pools say."""
    token = _until.set(None if seconds is None else monotonic() + seconds)
    try:
        yield
    finally:
        _until.reset(token)


def left(limit: float | None = None) -> float | None:
    """Seconds that are left, at most `limit`; never quite nothing, so that what is there already can be
    had."""
    until = _until.get()
    if until is None:
        return limit
    rest = max(_SHORTEST, until - monotonic())
    return rest if limit is None else min(rest, limit)


def is_over() -> bool:
    """Whether there was a deadline, and it has passed."""
    until = _until.get()
    return until is not None and monotonic() >= until


def surrounding() -> asyncio.Timeout:
    """Ends whatever is done inside, a moment after the deadline."""
    rest = left()
    return asyncio.timeout(None if rest is None else rest + _SLACK)
