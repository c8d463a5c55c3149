"""What a fault of a broker cost, counted: a row of the table at the end of a run."""

from collections import Counter
from collections.abc import Sequence
from typing import Any, NamedTuple

from tests.support.figures import Note, put_down


class Tally(NamedTuple):
    """One fault, as often as it was made."""

    broker: str
    fault: str
    times: int
    messages: int
    lost: int
    duplicates: int
    longest_wait_s: float | None = None
    """For which a message waited for its acknowledgement at most, if that was measured."""


def counted(
    note: Note,
    broker: str,
    fault: str,
    times: int,
    sent: int,
    received: Sequence[Any],
    longest_wait_s: float | None = None,
) -> Tally:
    """Count messages as a consumer got them by their executions' identity, and put it down for the table."""
    found = Counter(message.fields["idempotency-key"] for message in received)
    lost, duplicates = sent - len(found), len(received) - len(found)
    tally = Tally(broker, fault, times, sent, lost, duplicates, longest_wait_s)
    put_down(note, "faults of brokers", tally._asdict())
    return tally
