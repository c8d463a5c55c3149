"""Reaching the primary: hosts are tried a moment apart, and the first that answers and can be written to is
taken.

A server that is frozen, or cut off without a reset, answers nothing and refuses nothing. It costs `APART`
before the next host is tried, and no caller waits for it longer than `EACH`. Errors that tell an operator
what to do come before those that only say that a server is away.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Final, Protocol, TypeVar

import structlog

from tocsin.domain.errors import Refused, Unavailable

APART: Final = 0.25
"""Seconds after which the next host is tried beside the one before."""
EACH: Final = 2.0
"""Seconds that one try may take."""
_PAUSE: Final = 0.25
_AFTER_DEFECT: Final = 2.0
_log = structlog.get_logger()


class Closable(Protocol):
    """A connection, as far as a race between several is concerned."""

    def terminate(self) -> None:
        """Close it without a word."""


C = TypeVar("C", bound=Closable)
Try = Callable[[int], Awaitable[C]]
"""Opens a connection to the host of that number, or raises."""


async def reach(order: Sequence[int], attempt: Try[C]) -> C:
    """The first connection that a host grants; each is tried once."""
    waiting = list(order)
    under_way: dict[asyncio.Task[C], int] = {}
    failures: list[BaseException] = []
    try:
        while waiting or under_way:
            if waiting:
                number = waiting.pop(0)
                under_way[asyncio.create_task(_try(attempt, number))] = order.index(number)
            done, _ = await asyncio.wait(
                under_way, timeout=APART if waiting else None, return_when=asyncio.FIRST_COMPLETED
            )
            for task in sorted(done, key=under_way.__getitem__):
                del under_way[task]
                if (error := task.exception()) is None:
                    return task.result()
                failures.append(error)
        raise most_telling(failures)
    finally:
        await _let_go(under_way)


async def reach_at_last(count: int, attempt: Try[C]) -> C:
    """The first connection that any host grants, however long it takes: each is tried again and again on its
    own, so that a silent one does not keep us from the others."""
    tasks = {asyncio.create_task(_try_until_granted(attempt, number)): number for number in range(count)}
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        first = min(done, key=tasks.__getitem__)
        del tasks[first]
        return first.result()
    finally:
        await _let_go(tasks)


def most_telling(failures: Sequence[BaseException]) -> BaseException:
    """Of several reasons the one that tells an operator the most."""

    def rank(error: BaseException) -> int:
        if isinstance(error, Refused):
            return 0
        # An answer says more than silence.
        return 1 if not isinstance(error, OSError | TimeoutError) else 2

    return min(failures, key=rank)


async def _try(attempt: Try[C], number: int) -> C:
    async with asyncio.timeout(EACH):
        return await attempt(number)


async def _try_until_granted(attempt: Try[C], number: int) -> C:
    while True:
        try:
            return await _try(attempt, number)
        except (Unavailable, OSError, Refused):
            await asyncio.sleep(_PAUSE)
        except Exception as error:  # noqa: BLE001 - no other part looks; it may be over next time
            _log.warning("database.look_failed", error=repr(error))
            await asyncio.sleep(_AFTER_DEFECT)


async def _let_go(tasks: dict[asyncio.Task[C], int]) -> None:
    """End tries that are not waited for any more. One that was granted at the same moment is closed."""
    for task in tasks:
        task.cancel()
    for outcome in await asyncio.gather(*tasks, return_exceptions=True):
        if not isinstance(outcome, BaseException):
            outcome.terminate()
