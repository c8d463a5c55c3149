"""Answers of the last second, shared by everybody who asks the same: ten open dashboards cost what one does.

What took long is shared for longer, so that looking costs a busy database a fiftieth of a core at most.
"""

from collections import OrderedDict
from collections.abc import Awaitable, Callable
from typing import Any, Final, TypeVar

from tocsin.clock import Clock

_FRESH: Final = 1.0  # seconds
_MOST_REMEMBERED: Final = 1000
_RESTS: Final = 50  # times as long as an answer took, that it is shared
T = TypeVar("T")


class Fresh:
    """Answers of the last second, by what was asked."""

    def __init__(self) -> None:
        self._kept: OrderedDict[Any, tuple[float, Any]] = OrderedDict()

    def find(self, key: Any, now: float) -> Any:
        """The answer, if it is fresh."""
        deadline, answer = self._kept.get(key, (0.0, None))
        return answer if deadline > now else None

    async def shared(self, key: Any, clock: Clock, make: Callable[[], Awaitable[T]]) -> T:
        """The answer that is fresh, or a new one."""
        began = clock.monotonic()
        found: T | None = self.find(key, began)
        if found is None:
            found = await make()
            now = clock.monotonic()
            self.keep(key, now, found, seconds=max(_FRESH, _RESTS * (now - began)))
        return found

    def keep(self, key: Any, now: float, answer: Any, seconds: float = _FRESH) -> None:
        """Remember an answer for a second, or as long as it counts as fresh."""
        self._kept[key] = (now + seconds, answer)
        if len(self._kept) > _MOST_REMEMBERED:
            self._kept.popitem(last=False)
