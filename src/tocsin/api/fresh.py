"""Answers of the last second, shared by everybody who asks the same: ten open dashboards cost what one does."""

from collections import OrderedDict
from typing import Any, Final

_FRESH: Final = 1.0  # seconds
_MOST_REMEMBERED: Final = 1000


class Fresh:
    """Answers of the last second, by what was asked."""

    def __init__(self) -> None:
        self._kept: OrderedDict[Any, tuple[float, Any]] = OrderedDict()

    def find(self, key: Any, now: float) -> Any:
        """The answer, if it is fresh."""
        deadline, answer = self._kept.get(key, (0.0, None))
        return answer if deadline > now else None

    def keep(self, key: Any, now: float, answer: Any) -> None:
        """Remember an answer for a second."""
        self._kept[key] = (now + _FRESH, answer)
        if len(self._kept) > _MOST_REMEMBERED:
            self._kept.popitem(last=False)
