"""Answers of the last second, shared by all who ask the same: ten open dashboards cost what one does.

An answer that keeps taking long is shared for longer, so that looking costs a busy database a fiftieth of a
core at most. Once is chance: the first look over a cold connection would otherwise be shown for many seconds.
"""

from collections import OrderedDict
from collections.abc import Awaitable, Callable
from typing import Any, Final, NamedTuple, TypeVar

from tocsin.clock import Clock

_FRESH: Final = 1.0  # seconds
_MOST_REMEMBERED: Final = 1000
_RESTS: Final = 50  # times as long as the last two answers took at least, that it is shared
T = TypeVar("T")


class _Kept(NamedTuple):
    deadline: float
    answer: Any
    took: float


_NOTHING: Final = _Kept(0.0, None, 0.0)


class Fresh:
    """Answers of the last second, by what was asked."""

    def __init__(self) -> None:
        self._kept: OrderedDict[Any, _Kept] = OrderedDict()

    def find(self, key: Any, now: float) -> Any:
        """The answer, if it is fresh."""
        kept = self._kept.get(key, _NOTHING)
        return kept.answer if kept.deadline > now else None

    async def shared(self, key: Any, clock: Clock, make: Callable[[], Awaitable[T]]) -> T:
        """The answer that is fresh, or a new one."""
        began = clock.monotonic()
        found: T | None = self.find(key, began)
        if found is None:
            found = await make()
            now = clock.monotonic()
            took, before = now - began, self._kept.get(key, _NOTHING).took
            self.keep(key, now, found, seconds=max(_FRESH, _RESTS * min(took, before)), took=took)
        return found

    def keep(self, key: Any, now: float, answer: Any, seconds: float = _FRESH, took: float = 0.0) -> None:
        """Remember an answer for a second, or as long as it counts as fresh."""
        self._kept[key] = _Kept(now + seconds, answer, took)
        self._kept.move_to_end(key)
        if len(self._kept) > _MOST_REMEMBERED:
            self._kept.popitem(last=False)
