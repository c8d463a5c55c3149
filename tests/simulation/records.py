"""What a run left behind, as values: what was expected, what the database noted, what the target saw."""

from typing import Any
from uuid import UUID

import msgspec

from tests.simulation.target import Hit
from tocsin.db.pool import Database
from tocsin.domain.ids import ExecutionKey
from tocsin.domain.instant import Instant, Span


class Promise(msgspec.Struct, kw_only=True):
    """What a client was told about a job, and what must therefore be found of it."""

    job_id: UUID
    name: str
    fire_times: list[Instant]
    """Every instant at which it fires, by arithmetic of the simulation's own."""
    most_fires: int | None = None
    max_attempts: int = 5
    least_backoff: Span = 0
    called: bool = True
    """Whether its calls can be seen by the target."""
    start_within: Span | None = None
    overlap: str = "allow"
    limit_key: str | None = None
    max_parallel: int = 0
    manual: list[Instant] = []
    """Fires that somebody asked for."""
    ended_before: Instant | None = None
    """The cursor at the moment it was cancelled: nothing from there on fires."""


class Cancellation(msgspec.Struct, frozen=True):
    """A client was told that an execution is called off, or was asked to stop."""

    key: ExecutionKey
    at: Instant
    answer: str


class Row(msgspec.Struct, kw_only=True):
    """A row of history, or one that is still live."""

    job_id: UUID
    fire_at: Instant
    state: str
    attempt: int
    attempts: list[dict[str, Any]] = []
    started_at: Instant | None = None
    finished_at: Instant | None = None
    token: int | None = None
    fire_until: Instant | None = None
    fire_count: int = 1
    reason: str | None = None

    @property
    def key(self) -> ExecutionKey:
        return ExecutionKey(self.job_id, self.fire_at)


class Change(msgspec.Struct, kw_only=True):
    """One change of an execution: born, changed, gone (from live), ended (into history), revived (out of
    it)."""

    at: Instant
    job_id: UUID
    fire_at: Instant
    what: str
    state: str
    token: int | None = None
    attempt: int = 1
    run_at: Instant = 0
    started_at: Instant | None = None
    deadline_at: Instant | None = None
    stop_asked: bool = False

    @property
    def key(self) -> ExecutionKey:
        return ExecutionKey(self.job_id, self.fire_at)


class CursorMove(msgspec.Struct, kw_only=True):
    """A job's cursor moved: who wrote it, and whose lease it was at that moment."""

    at: Instant
    job_id: UUID
    shard: int
    before: Instant | None
    after: Instant | None
    writer: str | None
    owner: int | None
    epoch: int
    expires_at: Instant


class LeaseChange(msgspec.Struct, kw_only=True):
    """A shard changed hands."""

    at: Instant
    shard: int
    owner_before: int | None
    epoch_before: int
    expired_before: Instant
    owner: int | None
    epoch: int


class Records(msgspec.Struct, kw_only=True):
    """Everything that the checker looks at."""

    promises: list[Promise]
    cancellations: list[Cancellation] = []
    rows: list[Row] = []
    live: list[Row] = []
    unfinished: list[str] = []
    """Recurring jobs that should have completed and did not."""
    changes: list[Change] = []
    moves: list[CursorMove] = []
    leases: list[LeaseChange] = []
    hits: list[Hit] = []
    errors: list[str] = []
    """What services raised although nothing was broken."""


async def read_records(database: Database, **seen: Any) -> Records:
    """Gather what the database kept; `seen` is what only the simulation knows."""
    rows = await database.fetch(
        "SELECT job_id, fire_at, state, attempt, attempts, started_at, finished_at, claim_token AS token, fire_until,"
        " fire_count, reason FROM history ORDER BY job_id, fire_at, finished_at"
    )
    live = await database.fetch(
        "SELECT job_id, fire_at, 'live' AS state, attempt, attempts, started_at, claim_token AS token"
        " FROM executions ORDER BY job_id, fire_at"
    )
    unfinished = await database.fetch(
        "SELECT id FROM jobs WHERE kind = 'recurring' AND state NOT IN ('completed', 'cancelled') ORDER BY id"
    )
    changes = await database.fetch("SELECT * FROM watched_executions ORDER BY place")
    moves = await database.fetch("SELECT * FROM watched_cursors ORDER BY place")
    leases = await database.fetch("SELECT * FROM watched_leases ORDER BY place")
    return Records(
        rows=[_row(row) for row in rows],
        live=[_row(row) for row in live],
        unfinished=[str(row["id"]) for row in unfinished],
        changes=[Change(**_fields(row)) for row in changes],
        moves=[CursorMove(**_fields(row)) for row in moves],
        leases=[LeaseChange(**_fields(row)) for row in leases],
        **seen,
    )


def _row(row: Any) -> Row:
    values = dict(row)
    return Row(**values | {"attempts": msgspec.json.decode(values["attempts"] or "[]")})


def _fields(row: Any) -> dict[str, Any]:
    return {name: value for name, value in row.items() if name != "place"}
