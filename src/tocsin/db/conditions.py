"""WHERE clauses of listings: only the conditions asked for, so that the planner sees what it can use an index
for. Texts are ours; values always travel as parameters."""

from typing import Any


class Conditions:
    """Conditions joined by AND, and the values of their placeholders."""

    def __init__(self, *, after: "Conditions | None" = None) -> None:
        """`after` is another clause of the same statement whose placeholders come first."""
        self.before: int = 0 if after is None else after.before + len(after.values)
        """How many placeholders come before its own."""
        self._texts: list[str] = []
        self.values: list[Any] = []

    def add(self, text: str, value: Any) -> None:
        """Ask for a condition unless its value is None; ``{}`` stands for the placeholder."""
        if value is not None:
            self.values.append(value)
            self._texts.append(text.format(f"${self.before + len(self.values)}"))

    def continue_with(self, text: str, value: Any) -> None:
        """Go on with the condition added last: the next part of a row comparison."""
        self.values.append(value)
        self._texts[-1] += " " + text.format(f"${self.before + len(self.values)}")

    def copy(self) -> "Conditions":
        """The same ones, to which others can be added."""
        copied = Conditions()
        copied.before, copied._texts, copied.values = self.before, [*self._texts], [*self.values]
        return copied

    def say(self, text: str) -> None:
        """Ask for a condition without a value, in words that an index has too."""
        self._texts.append(text)

    def __str__(self) -> str:
        return " AND ".join(self._texts) or "true"


def containing(text: str | None) -> str | None:
    """A LIKE pattern for a user's text, in lower case, meaning just itself."""
    if text is None:
        return None
    escaped = text.lower().replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")
    return f"%{escaped}%"
