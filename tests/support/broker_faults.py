"""What a fault of a broker cost, counted: a row of the table at the end of a run."""

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

PROPERTY: Final = "fault of a broker"
"""The name under which a test's report carries its rows."""
Note = Callable[[str, object], None]
"""pytest's `record_property`."""


class Tally(NamedTuple):
    """One fault, as often as it was made."""

    broker: str
    fault: str
    times: int
    messages: int
    lost: int
    duplicates: int
    longest_wait: float | None = None
    """Seconds that a message waited for its acknowledgement at most, if that was measured."""


def counted(
    note: Note,
    broker: str,
    fault: str,
    times: int,
    sent: int,
    received: Sequence[Any],
    longest_wait: float | None = None,
) -> Tally:
    """Count messages as a consumer got them by their executions' identity, and put it down for the table."""
    found = Counter(message.fields["idempotency-key"] for message in received)
    tally = Tally(broker, fault, times, sent, sent - len(found), len(received) - len(found), longest_wait)
    note(PROPERTY, list(tally))
    return tally


def table(rows: Sequence[Sequence[object]]) -> str:
    """Rows as text."""
    head = ("broker", "fault", "times", "messages", "lost", "duplicates", "longest wait")
    lines = [head, *(tuple(_shown(cell) for cell in row) for row in sorted(rows, key=str))]
    widths = [max(len(line[place]) for line in lines) for place in range(len(head))]
    return "\n".join(
        "  ".join(
            cell.ljust(width) if place < 2 else cell.rjust(width)
            for place, (cell, width) in enumerate(zip(line, widths, strict=True))
        ).rstrip()
        for line in lines
    )


def _shown(cell: object) -> str:
    if cell is None:
        return "–"
    return f"{cell:.1f} s" if isinstance(cell, float) else str(cell)
