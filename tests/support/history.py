"""What happened in a run, as the observers saw it: clients, the sink, the database, the one who broke things.

Nothing here comes from the product's own logs. `check` in `tests.support.checker` judges a `History`; this
module only says what one is made of and reads the database's share of it.

Two clocks appear. `…_at` fields and fire times are instants (microseconds since 1970, the machine's wall
clock, which is the database's too). `mono` fields are seconds on the machine's monotonic clock, for what came
before what.
"""

import json
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from tocsin.db.pool import open_connection
from tocsin.domain.ids import job_text

SECOND = 1_000_000


class Key(NamedTuple):
    """An execution: which job, which fire time."""

    job_id: str
    fire_at: int

    def __str__(self) -> str:
        return f"{self.job_id}@{self.fire_at}"


class Create(msgspec.Struct, kw_only=True):
    """A client asked for a job. `ok` was acknowledged, `refused` was not done, `unknown` may be either."""

    label: str
    """The job's name, unique to this request: how an unacknowledged job is found again."""
    answer: str
    invoked_at: int
    answered_at: int
    job_id: str | None = None
    at: int | None = None
    """A one-off's fire time."""
    every: int | None = None
    """A recurring job's interval."""
    until: int | None = None
    """A recurring job's last possible fire time."""
    max_attempts: int = 5


class Cancel(msgspec.Struct, kw_only=True):
    """A client called a one-off's execution off. `cancelled` promises that it was never called and never will
    be."""

    key: Key
    answer: str
    """`cancelled`, `asked_to_stop`, `too_late` or `unknown`."""
    mono: float
    """When the answer was in the client's hands."""
    final_state: str | None = None
    """How it had ended by then, if the answer says that it had."""


class Hit(msgspec.Struct, kw_only=True):
    """A request that reached the sink. `status` is 0 while, or because, it was never answered."""

    key: Key
    attempt: int
    mono: float
    received_at: int
    status: int = 0


def answer_to(attempt: int) -> str:
    """What the sink says in the body of its answer, so that each outcome can be traced to its attempt."""
    return f"answer to attempt {attempt}"


class AttemptRecord(msgspec.Struct):
    """An attempt that was followed by another one, as history keeps it."""

    number: int
    verdict: str


class Row(msgspec.Struct, kw_only=True):
    """An execution in the final dump. Live ones have a live state; a run of skips has a `fire_until`."""

    key: Key
    state: str
    attempt: int = 1
    attempts: list[AttemptRecord] = []
    started_at: int | None = None
    finished_at: int | None = None
    fire_until: int | None = None
    fire_count: int = 1
    error: str | None = None
    answer: str | None = None
    """The body of the answer that the recorded outcome rests on."""


class Job(msgspec.Struct):
    """A job in the final dump."""

    id: str
    label: str | None
    kind: str
    state: str


class LeaseChange(msgspec.Struct, kw_only=True):
    """A shard passed from one owner to another, as a trigger in the database noted it."""

    at: int
    shard: int
    owner: int | None
    epoch: int
    before_owner: int | None
    before_epoch: int
    before_expires_at: int | None


class Fault(msgspec.Struct, kw_only=True):
    """Something was broken on purpose. `proof` says how we know that it landed."""

    what: str
    victim: str
    began_at: int
    ended_at: int | None = None
    proof: str = ""


class History(msgspec.Struct):
    """Everything the observers saw in one run."""

    creates: list[Create] = []
    cancels: list[Cancel] = []
    hits: list[Hit] = []
    jobs: list[Job] = []
    finals: list[Row] = []
    lives: list[Row] = []
    leases: list[LeaseChange] = []
    faults: list[Fault] = []
    slept: int = 0
    """For how many microseconds the machine slept, which nodes learn from the database."""

    def save(self, file: Path) -> None:
        """Keep the run for whoever wants to look at it again."""
        file.write_bytes(msgspec.json.format(msgspec.json.encode(self)))


# A witness of our own inside the database: every change of a shard's owner, in commit order per shard.
_WATCH_LEASES = """
CREATE TABLE lease_changes (
    place bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, at timestamptz NOT NULL, shard smallint NOT NULL,
    owner bigint, epoch bigint NOT NULL, before_owner bigint, before_epoch bigint NOT NULL, before_expires_at timestamptz
);
CREATE FUNCTION note_lease_change() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO tocsin.lease_changes (at, shard, owner, epoch, before_owner, before_epoch, before_expires_at)
    VALUES (clock_timestamp(), NEW.shard, NEW.owner, NEW.epoch, OLD.owner, OLD.epoch,
            CASE WHEN isfinite(OLD.expires_at) THEN OLD.expires_at END);
    RETURN NULL;
END $$;
CREATE TRIGGER lease_changes AFTER UPDATE ON shards FOR EACH ROW
    WHEN (OLD.owner IS DISTINCT FROM NEW.owner OR OLD.epoch IS DISTINCT FROM NEW.epoch)
    EXECUTE FUNCTION note_lease_change();
"""


async def watch_leases(url: str) -> None:
    """Let the database note every lease that changes hands from now on."""
    connection = await open_connection(url, name="test observer")
    try:
        await connection.execute(_WATCH_LEASES)
    finally:
        await connection.close()


async def read_leases(url: str) -> list[LeaseChange]:
    """The lease changes since `watch_leases`, oldest first."""
    connection = await open_connection(url, name="test observer")
    try:
        rows = await connection.fetch("SELECT * FROM lease_changes ORDER BY place")
    finally:
        await connection.close()
    names = LeaseChange.__struct_fields__
    return [LeaseChange(**{name: row[name] for name in names}) for row in rows]


async def read_database(url: str) -> tuple[list[Job], list[Row], list[Row]]:
    """The final dump: jobs, finished executions, live executions."""
    connection = await open_connection(url, name="test observer")
    try:
        jobs = await connection.fetch("SELECT id, name, kind, state FROM jobs")
        finals = await connection.fetch(
            "SELECT job_id, fire_at, state, attempt, attempts, started_at, finished_at, fire_until, fire_count,"
            " coalesce(reason, outcome ->> 'error') AS error, outcome #>> '{detail,body}' AS answer FROM history ORDER BY finished_at"
        )
        lives = await connection.fetch(
            "SELECT job_id, fire_at, CASE WHEN claim_token IS NULL THEN 'queued' WHEN started_at IS NULL THEN 'claimed'"
            " ELSE 'running' END AS state, attempt, attempts, started_at, NULL::timestamptz AS finished_at,"
            " NULL::timestamptz AS fire_until, 1 AS fire_count, NULL AS error, NULL AS answer FROM executions ORDER BY fire_at"
        )
    finally:
        await connection.close()
    return (
        [Job(job_text(row["id"]), row["name"], row["kind"], row["state"]) for row in jobs],
        [_row(row) for row in finals],
        [_row(row) for row in lives],
    )


def _row(row: Any) -> Row:
    records = json.loads(row["attempts"]) if row["attempts"] else []
    return Row(
        key=Key(job_text(row["job_id"]), row["fire_at"]),
        state=row["state"],
        attempt=row["attempt"],
        attempts=[AttemptRecord(record["number"], record["verdict"]) for record in records],
        started_at=row["started_at"],
        finished_at=row["finished_at"],
        fire_until=row["fire_until"],
        fire_count=row["fire_count"],
        error=row["error"],
        answer=row["answer"],
    )
