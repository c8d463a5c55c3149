"""What the checker says, and what its rules look at."""

from collections import defaultdict
from collections.abc import Iterator

import msgspec

from tests.simulation.records import Change, Records, Row
from tests.simulation.target import Hit
from tocsin.domain.ids import ExecutionKey
from tocsin.domain.instant import Instant
from tocsin.domain.lifecycle import State


class Violation(msgspec.Struct, frozen=True):
    """A rule that was broken, and where."""

    rule: str
    words: str
    key: ExecutionKey | None = None

    def __str__(self) -> str:
        return f"{self.rule}: {self.words}" + (
            f" [{self.key.job_id} @ {self.key.fire_at}]" if self.key else ""
        )


class Look:
    """The records with the look-ups that rules share."""

    def __init__(self, records: Records) -> None:
        self.records = records
        self.promises = {promise.job_id: promise for promise in records.promises}
        self.rows: dict[ExecutionKey, list[Row]] = defaultdict(list)
        for row in records.rows:
            self.rows[row.key].append(row)
        self.hits: dict[ExecutionKey, list[Hit]] = defaultdict(list)
        for hit in records.hits:
            self.hits[hit.key].append(hit)
        self.changes: dict[ExecutionKey, list[Change]] = defaultdict(list)
        for change in records.changes:
            self.changes[change.key].append(change)

    def run_rows(self) -> Iterator[Row]:
        """Executions that are over, without the runs of skips."""
        return (row for row in self.records.rows if row.fire_until is None)

    def starts(self, key: ExecutionKey) -> dict[tuple[int | None, int], Instant]:
        """When each (token, attempt) of an execution was started."""
        return {
            (change.token, change.attempt): change.started_at
            for change in self.changes[key]
            if change.state == State.RUNNING and change.started_at is not None
        }
