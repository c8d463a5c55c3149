"""Workers that take turns of jobs at the same time.

A statement that starts executions may take turns of their jobs. If two workers take one turn at once, the
unique index rejects the second statement as a whole. It is repeated, and then sees what the other worker did.
"""

import contextlib
from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

from tocsin.db.pool import UniqueViolation
from tocsin.domain.errors import Unavailable

_TRIES: Final = 5
T = TypeVar("T")


async def unless_overtaken(work: Callable[[], Awaitable[list[T]]]) -> list[T]:
    """Do it, again if another worker took a turn that was free when we looked: the next look sees that."""
    for _ in range(_TRIES):
        with contextlib.suppress(UniqueViolation):
            return await work()
    raise Unavailable("other workers took the turns of jobs again and again")
