"""Rows that enter the queue below the low marks, because the transaction that wrote them was open for long.

Applications enqueue in their own transactions (`tocsin.enqueue`). When such a transaction commits, its rows
may have run times below every low mark. So its notice carries the lane and the instant at which the
transaction began: ``entered:<microseconds>:<tenant>:<priority>:<queue>:<route>``. Workers that hear it enter
the lane there at their next look. A notice is a hint: without it, the look below the marks finds the rows.
"""

from tocsin.domain.instant import Instant
from tocsin.queue.claiming.looking import Looking
from tocsin.queue.lanes import Lane

ENTERED = "entered"
"""The word of the notice."""


class LateEntries:
    """Lowers the marks of one worker."""

    def __init__(self, looking: Looking) -> None:
        self._looking = looking

    def heard(self, notice: str | None) -> None:
        """A transaction has committed. None: notices may have been lost."""
        if notice is None:
            self._looking.low_marks.doubt()
            return
        entry = read_entry(notice)
        if entry is not None:
            self._looking.low_marks.lower(*entry)


def read_entry(notice: str) -> tuple[Lane, Instant] | None:
    """Which lane, and since when. Anyone connected to the database can send a notice: what cannot be
    read says nothing."""
    words = notice.split(":", 4)
    numbers = words[:3]
    if len(words) < 5 or not all(word.isascii() and word.isdigit() and len(word) < 19 for word in numbers):
        return None
    began, tenant_id, priority = map(int, numbers)
    return Lane(words[3], priority, tenant_id, words[4]), began
