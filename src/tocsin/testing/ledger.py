"""What happened while time passed: one entry for each execution that is over, in the order of their ends."""

from collections.abc import Iterable, Iterator
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final

import msgspec

from tocsin.domain.cells import CELL
from tocsin.domain.ids import ExecutionKey, execution_text, job_text
from tocsin.domain.instant import to_datetime

if TYPE_CHECKING:
    from tocsin.sdk.handle import Handle
    from tocsin.sdk.task import NamedTask, Task

OVER: Final = (
    "SELECT h.job_id, h.fire_at, h.state, h.attempt, h.reason, h.started_at, h.finished_at, h.fire_count, h.cause,"  # noqa: S608
    " h.outcome::text AS outcome, h.attempts::text AS attempts, j.name, j.target::text AS target"
    " FROM history h JOIN jobs j ON j.cell = h.cell AND j.id = h.job_id"
    f" WHERE h.cell = {CELL} AND h.finished_at >= $1 ORDER BY h.finished_at, h.started_at, h.job_id, h.fire_at"
)
"""The rows that entries are made of, from an instant on."""


class Entry(msgspec.Struct, frozen=True):
    """One execution that is over."""

    id: str
    job_id: str
    name: str | None
    """Of its job, if that has one."""
    task: str | None
    payload: Any
    state: str
    attempts: int
    """How many were made: 0 if it never ran."""
    fire_at: datetime
    started_at: datetime | None
    """When its last attempt began."""
    finished_at: datetime
    reason: str | None
    result: Any
    errors: tuple[str, ...]
    """What went wrong, attempt by attempt."""
    fires: int
    """How many fire times it stands for: skipped ones in a row are one entry."""
    cause: str


class Ledger:
    """Entries in the order of their ends."""

    def __init__(self, entries: Iterable[Entry]) -> None:
        self.entries = tuple(entries)

    def __iter__(self) -> Iterator[Entry]:
        return iter(self.entries)

    def __len__(self) -> int:
        return len(self.entries)

    def __repr__(self) -> str:
        return f"<Ledger of {len(self)}>\n{self.table()}"

    def of(self, what: "Task[..., Any] | NamedTask | Handle[Any] | str") -> list[Entry]:
        """The entries of a task, of one enqueued call, or of a job by its name or id."""
        name = what if isinstance(what, str) else getattr(what, "job_id", None) or getattr(what, "name", None)
        return [entry for entry in self if name in (entry.task, entry.job_id, entry.name)]

    def table(self) -> str:
        """All of it as text, for the message of a test that fails."""
        heading = ("FINISHED", "STATE", "ATTEMPTS", "TASK", "PAYLOAD", "REASON")
        rows = [heading, *(_row(entry) for entry in self)]
        widths = [max(len(row[column]) for row in rows) for column in range(len(heading))]
        return "\n".join(
            "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
            for row in rows
        )


def entry_of(row: Any) -> Entry:
    """An entry from a row of history."""
    target = msgspec.json.decode(row["target"])
    outcome = msgspec.json.decode(row["outcome"]) if row["outcome"] else {}
    earlier = msgspec.json.decode(row["attempts"]) if row["attempts"] else []
    errors = [one["error"] for one in (*earlier, outcome) if one.get("error")]
    started = row["started_at"]
    return Entry(
        execution_text(ExecutionKey(row["job_id"], row["fire_at"])),
        job_text(row["job_id"]),
        row["name"],
        target.get("task"),
        target.get("payload"),
        row["state"],
        0 if started is None else row["attempt"],
        to_datetime(row["fire_at"]),
        None if started is None else to_datetime(started),
        to_datetime(row["finished_at"]),
        row["reason"],
        outcome.get("result"),
        tuple(errors),
        row["fire_count"],
        row["cause"],
    )


def _row(entry: Entry) -> tuple[str, ...]:
    return (
        f"{entry.finished_at:%Y-%m-%d %H:%M:%S}",
        entry.state,
        str(entry.attempts),
        entry.task or entry.name or entry.job_id,
        msgspec.json.encode(entry.payload).decode(),
        entry.reason or "",
    )
