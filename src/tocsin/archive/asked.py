"""Conditions on archived rows, `h`, joined by AND: texts are ours, and values travel beside them."""

from typing import Any


class Asked:
    """What rows are asked for."""

    def __init__(self) -> None:
        self._texts: list[str] = []
        self.values: list[Any] = []

    def add(self, text: str, *values: Any) -> None:
        """Ask for a condition unless a value is None; each ``?`` stands for a value."""
        if None not in values:
            self._texts.append(text)
            self.values += values

    def __str__(self) -> str:
        return " AND ".join(self._texts) or "true"
