"""The queue of ready executions, in PostgreSQL.

Every method is one set-based statement (see `sql/`) over one cell. Ownership is a claim: a token that only
its holder knows, and a deadline on the database's clock. Whoever presents a token that is no longer on the row
changes nothing, and is told so by a returned value, not by an exception.
"""

from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any, Final
from uuid import UUID

import msgspec

from tocsin.db.pool import Database, Session, columns
from tocsin.db.statements import statement
from tocsin.domain.ids import ExecutionKey
from tocsin.domain.instant import Instant
from tocsin.queue.lanes import Allotment, Floors, Lane, LaneView

CELL: Final = 0


class Claim(msgspec.Struct):
    """A worker's right to one execution, and all it needs to run it. `target` and `policies` are JSON text,
    None when the job was deleted meanwhile."""

    job_id: UUID
    fire_at: Instant
    tenant_id: int
    queue: str
    priority: int
    due_at: Instant
    run_at: Instant
    start_by: Instant | None
    deadline_at: Instant
    started_at: Instant | None
    attempt: int
    earlier_attempts: int
    overlap: str | None
    origin_fire_at: Instant | None
    target: str | None
    policies: str | None
    version: int | None
    token: int

    @property
    def key(self) -> ExecutionKey:
        """The execution's identity."""
        return ExecutionKey(self.job_id, self.fire_at)


class Overdue(msgspec.Struct, frozen=True):
    """A claim whose deadline passed."""

    job_id: UUID
    fire_at: Instant
    token: int
    node_id: int
    started_at: Instant | None
    attempt: int
    earlier_attempts: int
    deadline_at: Instant
    cancel_requested: bool
    policies: str | None
    version: int | None
    overlap: str | None

    @property
    def key(self) -> ExecutionKey:
        """The execution's identity."""
        return ExecutionKey(self.job_id, self.fire_at)


Held = Claim | Overdue


class Finish(msgspec.Struct, frozen=True):
    """An execution is over: what history will say."""

    claim: Held
    state: str
    finished_at: Instant
    outcome: str | None = None
    reason: str | None = None
    fingerprint: str | None = None


class Again(msgspec.Struct, frozen=True):
    """An execution tries again: when, the record of the attempt that failed, and how it ends instead if it was
    asked to stop."""

    claim: Claim
    run_at: Instant
    record: str
    stopped: Finish


class Requeue(msgspec.Struct, frozen=True):
    """An overdue execution goes back: when it runs, and the record of the attempt that was lost, if one was."""

    claim: Overdue
    run_at: Instant
    record: str | None


class PostgresQueue:
    """Claims over one cell. `node_id` is who holds them."""

    def __init__(self, database: Database, node_id: int, claim_ttl: float, cell: int = CELL) -> None:
        self._database = database
        self._node_id = node_id
        self._ttl = timedelta(seconds=claim_ttl)
        self._cell = cell
        self.floors = Floors()

    async def peek(self, now: Instant) -> list[LaneView]:
        """Lanes that have something queued, and when it is due."""
        known = self.floors.known(now)
        lanes = columns([(*lane, floor) for lane, floor in known], 4)
        rows = await self._database.fetch(_sql("peek"), self._cell, *lanes)
        self.floors.looked(now)
        views = []
        for queue, priority, tenant_id, weight, run_at in rows:
            lane = Lane(queue, priority, tenant_id)
            self.floors.raise_to(lane, run_at)
            views.append(LaneView(lane, weight, run_at))
        return views

    async def claim(
        self, allotments: Sequence[Allotment], until: Instant, token: int, now: Instant
    ) -> list[Claim]:
        """Take what is due until `until`; what is due already comes back started."""
        lanes = columns([(*lane, take, self.floors.of(lane, now)) for lane, take in allotments], 5)
        rows = await self._database.fetch(
            _sql("claim"), self._cell, *lanes, until, token, self._node_id, self._ttl
        )
        claims = [Claim(*row, token) for row in rows]  # type: ignore[call-arg]
        self._raise_floors(claims)
        return claims

    async def start(self, claims: Sequence[Claim]) -> list[Claim]:
        """Start claims at their instant. Those that are not returned must not run."""
        rows = await self._database.fetch(_sql("start"), self._cell, *_keys(claims))
        started = []
        for place, started_at in rows:
            claim = claims[place]
            claim.started_at = started_at
            started.append(claim)
        return started

    async def start_solo(self, claims: Sequence[Claim], now: Instant) -> list[Claim]:
        """Start claims of jobs that must not overlap, those that may; decide about the others by their policy."""
        async with self._database.transaction() as session:
            rows = await session.fetch(_sql("grant_solos"), self._cell, *_keys(claims))
            started: list[Claim] = []
            refused: list[Claim] = []
            for place, started_at in rows:
                claim = claims[place]
                claim.started_at = started_at
                (refused if started_at is None else started).append(claim)
            await self._refuse(session, refused, now)
        return started

    async def _refuse(self, session: Session, refused: Sequence[Claim], now: Instant) -> None:
        """Another execution of the job has the floor: skip, wait, wait alone, or make it stop and wait."""
        skipped = [claim for claim in refused if claim.overlap == "skip"]
        waiting = [claim for claim in refused if claim.overlap != "skip"]
        if skipped:
            finishes = [Finish(claim, "skipped", now, reason="overlap") for claim in skipped]
            await session.fetchrow(_sql("finish"), self._cell, *_finish_columns(finishes))
        if collapsing := [claim for claim in waiting if claim.overlap == "collapse"]:
            ids, fire_ats, _ = _keys(collapsing)
            await session.execute(_sql("collapse_solos"), self._cell, ids, fire_ats)
        if replacing := [claim for claim in waiting if claim.overlap == "replace"]:
            await session.execute(_sql("replace_solos"), self._cell, [claim.job_id for claim in replacing])
        if waiting:
            await session.execute(_sql("wait_solos"), self._cell, *_keys(waiting))

    async def finish_solo(self, finishes: Sequence[Finish]) -> list[Held]:
        """Like `finish`, for jobs that must not overlap: the floor passes on in the same transaction."""
        claims = [finish.claim for finish in finishes]
        ids, fire_ats, _ = _keys(claims)
        async with self._database.transaction() as session:
            await session.fetch(_sql("lock_solos"), self._cell, ids)
            row = await session.fetchrow(_sql("finish"), self._cell, *_finish_columns(finishes))
            await session.fetchrow(_sql("free_solos"), self._cell, ids, fire_ats)
        return [] if row["moved"] == len(claims) else await self._not_in_history(claims)

    async def finish(self, finishes: Sequence[Finish]) -> list[Held]:
        """Move executions to history. Returns the claims that were lost before."""
        claims = [finish.claim for finish in finishes]
        row = await self._database.fetchrow(_sql("finish"), self._cell, *_finish_columns(finishes))
        if row is not None and row["moved"] == len(claims):
            return []
        return await self._not_in_history(claims)

    async def retry(self, agains: Sequence[Again]) -> list[Again]:
        """Put executions back for another attempt. Returns those that are not: lost before, or asked to stop."""
        claims = [again.claim for again in agains]
        rows = await self._database.fetch(
            _sql("retry"), self._cell, *_keys(claims), [a.run_at for a in agains], [a.record for a in agains]
        )
        kept = {row["place"] for row in rows}
        return [again for place, again in enumerate(agains) if place not in kept]

    async def extend(self, claims: Sequence[Claim]) -> tuple[list[Claim], list[Claim]]:
        """Heartbeat. Returns the claims that were lost and those whose cancellation was asked for."""
        rows = await self._database.fetch(_sql("extend"), self._cell, *_keys(claims), self._ttl)
        kept, cancelled = set(), []
        for place, cancel_requested, deadline_at in rows:
            kept.add(place)
            claims[place].deadline_at = deadline_at
            if cancel_requested:
                cancelled.append(claims[place])
        return [claim for place, claim in enumerate(claims) if place not in kept], cancelled

    async def release(self, claims: Sequence[Claim]) -> int:
        """Give back claims that were not started. Returns how many were still ours."""
        return len(await self._database.fetch(_sql("release"), self._cell, *_keys(claims)))

    async def reclaim(self, limit: int, judge: Callable[[Overdue], Requeue | Finish]) -> tuple[int, int]:
        """Take back claims past their deadline, as `judge` decides. Returns how many were requeued and ended.

        One transaction: the rows stay locked from the look at their deadline to the write, so a worker that
        settles or extends at the last moment is either before all of it or after.
        """
        async with self._database.transaction() as session:
            overdue = [Overdue(*row) for row in await session.fetch(_sql("overdue"), self._cell, limit)]
            requeues, finishes = [], []
            for verdict in map(judge, overdue):
                if isinstance(verdict, Requeue):
                    requeues.append(
                        (
                            verdict.claim.job_id,
                            verdict.claim.fire_at,
                            verdict.claim.token,
                            verdict.run_at,
                            verdict.record,
                        )
                    )
                else:
                    finishes.append(verdict)
            if requeues:
                await session.fetch(_sql("requeue"), self._cell, *columns(requeues, 5))
            if finishes:
                ids, fire_ats, _ = _keys([finish.claim for finish in finishes])
                await session.fetch(_sql("lock_solos"), self._cell, ids)
                await session.fetchrow(_sql("finish"), self._cell, *_finish_columns(finishes))
                await session.fetchrow(_sql("free_solos"), self._cell, ids, fire_ats)
        return len(requeues), len(finishes)

    async def _not_in_history(self, claims: Sequence[Held]) -> list[Held]:
        rows = await self._database.fetch(_sql("settled"), self._cell, *_keys(claims))
        kept = {row["place"] for row in rows}
        return [claim for place, claim in enumerate(claims) if place not in kept]

    def _raise_floors(self, claims: Sequence[Claim]) -> None:
        """Rows of a lane come in no particular order; the least run time of a batch is its new floor."""
        least: dict[Lane, Instant] = {}
        for claim in claims:
            lane = Lane(claim.queue, claim.priority, claim.tenant_id)
            least[lane] = min(claim.run_at, least.get(lane, claim.run_at))
        for lane, run_at in least.items():
            self.floors.raise_to(lane, run_at)


def _sql(name: str) -> str:
    return statement("tocsin.queue", name)


def _keys(claims: Sequence[Held]) -> tuple[list[UUID], list[Instant], list[int]]:
    return [c.job_id for c in claims], [c.fire_at for c in claims], [c.token for c in claims]


def _finish_columns(finishes: Sequence[Finish]) -> list[list[Any]]:
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
        )
        for finish in finishes
    ]
    return columns(rows, 9)
