"""What travels between the queue and its users: claims, and what becomes of them."""

from collections.abc import Iterable, Sequence
from operator import attrgetter
from typing import Any, Final, NamedTuple, TypeVar
from uuid import UUID

import msgspec

from tocsin.db.rows import arrays
from tocsin.domain.errors import Unreadable
from tocsin.domain.ids import ExecutionKey
from tocsin.domain.instant import Instant
from tocsin.queue.lanes import Lane
from tocsin.queue.work import Work, work_of

ClaimIdentity = tuple[int, Instant, int]
"""Job, fire time and token."""


class Claim(msgspec.Struct, gc=False):
    """A worker's right to one execution, and all it needs to run it. `target` and `policies` are JSON text,
    None when the job was deleted meanwhile. The first fields are the columns of `claim_columns.sql`."""

    job_id: UUID
    fire_at: Instant
    tenant_id: int
    queue: str
    priority: int
    route: str
    due_at: Instant
    run_at: Instant
    start_by: Instant | None
    deadline_at: Instant
    started_at: Instant | None
    attempt: int
    earlier_attempts: int
    overlap: str | None
    limit_key: str | None
    waits_for: str | None
    origin_fire_at: Instant | None
    missed_after: Instant | None
    target: str | None
    policies: str | None
    version: int | None
    token: int
    has_turn: bool = False
    """Whether it had its job's turn when it was claimed: it is back for another attempt."""
    slot: int | None = None
    """Which of its limit key's slots it has."""
    fired_at: Instant | None = None
    """When it fired, if it had started before."""
    late_for: str | None = None
    """What held it back between its run time and its start, if that was long."""
    worker_id: int | None = None
    """The remote worker that runs it, if one does."""
    stop_asked: bool = False
    """Whether it was asked to stop before its worker knew that it had started."""
    read: Work | None = None
    """What its text says to do, once it was read."""

    @property
    def key(self) -> ExecutionKey:
        """The execution's identity."""
        return ExecutionKey(self.job_id, self.fire_at)

    @property
    def identity(self) -> ClaimIdentity:
        """Tells this claim from every other, also of the same execution. Of numbers alone: it is looked up
        several times per call, and UUIDs are slow to hash."""
        return self.job_id.int, self.fire_at, self.token

    @property
    def lane(self) -> Lane:
        """Where it waited."""
        return Lane(self.queue, self.priority, self.tenant_id, self.route)

    @property
    def work(self) -> Work:
        """What its text says to do. Raises `Unreadable`, but not for a claim that `sort_out` passed."""
        if self.read is None:
            self.read = work_of(self.target, self.policies, self.overlap)
        return self.read

    @property
    def gated(self) -> bool:
        """Whether something may hold it back although it is due."""
        return self.overlap is not None or self.limit_key is not None

    @property
    def holds_turn(self) -> bool:
        """Whether it holds the turn of a job that must not overlap."""
        return self.has_turn or (self.overlap is not None and self.started_at is not None)


class LateReasons(NamedTuple):
    """Why what is claimed late was not claimed before: a reason for all, and others for some tenants."""

    common: str | None = None
    tenants: tuple[int, ...] = ()
    reasons: tuple[str | None, ...] = ()


ON_TIME: Final = LateReasons()


class Overdue(msgspec.Struct):
    """A claim whose deadline passed. The first fields are the columns of `overdue.sql`."""

    job_id: UUID
    fire_at: Instant
    token: int
    node_id: int
    worker_id: int | None
    started_at: Instant | None
    attempt: int
    earlier_attempts: int
    deadline_at: Instant
    cancel_requested: bool
    policies: str | None
    version: int | None
    overlap: str | None
    limit_key: str | None
    tenant_id: int
    due_at: Instant
    fired_at: Instant | None = None
    """Always None: the database does not know whether the call went out. `finish_columns` reads the field."""

    @property
    def key(self) -> ExecutionKey:
        """The execution's identity."""
        return ExecutionKey(self.job_id, self.fire_at)

    @property
    def gated(self) -> bool:
        """Whether something may hold it back although it is due."""
        return self.overlap is not None or self.limit_key is not None

    @property
    def holds_turn(self) -> bool:
        """Whether it holds the turn of a job that must not overlap."""
        return self.overlap is not None and self.started_at is not None


AnyClaim = Claim | Overdue


class Finish(msgspec.Struct, frozen=True, gc=False):
    """An execution is over: what history will say."""

    claim: AnyClaim
    state: str
    finished_at: Instant
    outcome: str | None = None
    reason: str | None = None
    fingerprint: str | None = None


class Again(msgspec.Struct, frozen=True, gc=False):
    """An execution tries again: when, the record of the attempt that failed (None if no attempt was made, and
    then what it waits for, if for anything but its time), and how it ends instead if it was asked to stop."""

    claim: Claim
    run_at: Instant
    record: str | None
    stopped: Finish
    waits_for: str | None = None


class Requeue(msgspec.Struct, frozen=True):
    """An overdue execution goes back: when it runs, and the record of the attempt that was lost, if one
    was."""

    claim: Overdue
    run_at: Instant
    record: str | None


Change = TypeVar("Change", Finish, Again)
by_job = attrgetter("job_id")
_by_fire = attrgetter("fire_at")


def in_lock_order(claims: Iterable[Claim]) -> list[Claim]:
    """Sorted as every statement takes its rows: see `docs/architecture.md`, "Lock order". Three stable sorts,
    for keys that are compared in C."""
    ordered = sorted(claims, key=_by_fire)
    ordered.sort(key=by_job)
    if any(claim.overlap is not None for claim in ordered):
        ordered.sort(key=lambda claim: not claim.holds_turn)
    return ordered


def changes_in_lock_order(changes: Iterable[Change]) -> list[Change]:
    """`in_lock_order`, for what becomes of claims."""
    return sorted(changes, key=lambda c: (not c.claim.holds_turn, c.claim.job_id, c.claim.fire_at))


def sort_out(claims: Sequence[Claim]) -> tuple[list[Claim], list[tuple[Claim, Unreadable]]]:
    """Those whose text this version can read, and those that it has to leave to others."""
    readable, unreadable = [], []
    for claim in claims:
        try:
            claim.read = _work_on_route(claim)
        except Unreadable as error:
            unreadable.append((claim, error))
        else:
            readable.append(claim)
    return readable, unreadable


def _work_on_route(claim: Claim) -> Work:
    work = work_of(claim.target, claim.policies, claim.overlap)
    if claim.target is not None and work.route != claim.route:
        raise Unreadable(f"it waited on the route {claim.route}, and its target goes by {work.route}")
    return work


def keys_of(claims: Sequence[AnyClaim]) -> dict[str, list[Any]]:
    """The parameters that name claims in a statement."""
    return {
        "job_ids": [claim.job_id for claim in claims],
        "fire_ats": [claim.fire_at for claim in claims],
        "tokens": [claim.token for claim in claims],
    }


def why_late(claims: Sequence[Claim]) -> str | None:
    """What held back claims that are started together."""
    return claims[0].late_for if claims else None


def mark_started(claims: Sequence[Claim], rows: Iterable[Any]) -> list[Claim]:
    """The claims that a start statement returned, with their start times."""
    started = []
    for row in rows:
        claim = claims[row["place"]]
        claim.started_at = row["started_at"]
        started.append(claim)
    return started


def mark_extended(claims: Sequence[Claim], rows: Iterable[Any]) -> tuple[list[Claim], list[Claim]]:
    """What a heartbeat statement returned, with the new deadlines: the claims that were lost, and those whose
    cancellation was asked for."""
    kept, cancelled = set(), []
    for row in rows:
        claim = claims[row["place"]]
        kept.add(row["place"])
        claim.deadline_at = row["deadline_at"]
        if row["cancel_requested"]:
            cancelled.append(claim)
    return [claim for place, claim in enumerate(claims) if place not in kept], cancelled


def without(claims: Sequence[Claim], some: Sequence[Claim]) -> list[Claim]:
    """Those of the claims that are not among some of them."""
    if len(some) == len(claims):
        return []
    gone = set(map(id, some))
    return [claim for claim in claims if id(claim) not in gone]


def finish_columns(finishes: Sequence[Finish]) -> dict[str, list[Any]]:
    """The parameters of `finish.sql`."""
    names = (
        "job_ids", "fire_ats", "tokens", "states", "finished_ats", "outcomes", "reasons", "fingerprints", "versions",
        "fired_ats",
    )  # fmt: skip
    rows = [
        (
            finish.claim.job_id,
            finish.claim.fire_at,
            finish.claim.token,
            finish.state,
            finish.finished_at,
            finish.outcome,
            finish.reason,
            finish.fingerprint,
            finish.claim.version,
            finish.claim.fired_at,
        )
        for finish in finishes
    ]
    return arrays(names, rows)
