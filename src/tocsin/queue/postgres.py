"""The queue of ready executions, in PostgreSQL.

Every method is one set-based statement (see `sql/`) over one cell, or a transaction of a few where limits and
overlap policies take part. Ownership is a claim: a token that only its holder knows, and a deadline on the
database's clock. Whoever presents a token that is no longer on the row changes nothing, and is told so by a
returned value, not by an exception.

**Lock order.** A statement that waits for rows of `executions` takes first those that hold the turn of a job that must
not overlap, by job; then all others, by job and fire time. Batches are sorted here (`in_lock_order`), and statements take
rows in the order of the batch. Statements that skip locked rows (claim, reclaim, release of lost claims, wake-ups,
passing turns) may come in any order: they wait for no row. `docs/architecture.md` has the order of the other tables.
"""

from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from types import MappingProxyType
from typing import Any, Final

from tocsin.db.pool import Database, Record, columns
from tocsin.db.statements import statement
from tocsin.db.turns import pass_turns
from tocsin.domain.instant import LATEST, Instant
from tocsin.queue.allotment import Allotment
from tocsin.queue.claims import (
    ON_TIME,
    Again,
    Claim,
    Finish,
    Held,
    LateReasons,
    Overdue,
    Requeue,
    changes_in_lock_order,
    finish_columns,
    in_lock_order,
    keys_of,
    mark_started,
    why_late,
    without,
)
from tocsin.queue.deadlines import DeadlineFloor
from tocsin.queue.directory import Directory
from tocsin.queue.gate import Gate, solo_jobs, unless_overtaken
from tocsin.queue.lanes import Floors, Lane, LaneView
from tocsin.queue.slots import Slots

CELL: Final = 0


class PostgresQueue:
    """Claims over one cell. `node_id` is who holds them.

    `starting` are connections for starts alone: a start must not wait for others, or for a connection to be made.
    """

    def __init__(
        self,
        database: Database,
        node_id: int,
        claim_ttl: float,
        cell: int = CELL,
        starting: Database | None = None,
        queues: Sequence[str] = (),
    ) -> None:
        self._database = database
        self._starting = starting or database
        self._node_id = node_id
        self._ttl = timedelta(seconds=claim_ttl)
        self._cell = cell
        self.slots = Slots(database, node_id, cell)
        self._gate = Gate(database, node_id, cell, self.slots)
        self.directory = Directory(queues)
        self.floors = Floors()
        self._deadlines = DeadlineFloor()

    async def peek(self, now: Instant, crowd: int = 0, far: Instant = 0) -> list[LaneView]:
        """Lanes that have something queued, and when it is due, as far as this worker serves them and nothing holds them
        back. A lane is crowded if as many as `crowd` are due until `far`."""
        self.directory.read_all(now)
        answer = await self._look(now, crowd, far)
        if self.directory.learn(answer):
            self.floors.keep(self.directory.lanes)
            answer = await self._look(now, crowd, far)
        next_runs, views = self.directory.views(answer)
        self.floors.looked(now, next_runs)
        return views

    @property
    def weights(self) -> Mapping[int, int]:
        """What tenants weigh, as far as it is not 1."""
        return self.directory.weights

    @property
    def lanes_known(self) -> int:
        """How many lanes a look probes."""
        return len(self.directory.lanes)

    async def _look(self, now: Instant, crowd: int, far: Instant) -> dict[str, Any]:
        marks = self.floors.enter(now, self.directory.lanes)
        directory = self.directory
        return dict(
            await self._database.one(
                _sql("peek"), self._cell, *directory.columns, marks, far, crowd, directory.new_from
            )
        )

    async def look_below(self, now: Instant) -> int:
        """Look for what was left below the floors. Returns in how many lanes there is something; the next `peek` shows it."""
        stretches = self.floors.below(now)
        if not stretches:
            return 0
        lanes = columns([(*lane, *stretch) for lane, stretch in stretches.items()], 5)
        rows = await self._database.fetch(_sql("below"), self._cell, *lanes)
        found = {Lane(queue, priority, tenant_id): run_at for queue, priority, tenant_id, run_at in rows}
        self.floors.looked_below(stretches, found)
        return len(found)

    async def claim(
        self,
        allotments: Sequence[Allotment],
        until: Instant,
        token: int,
        now: Instant,
        farther: Mapping[Lane, Instant] = MappingProxyType({}),
        late_for: LateReasons = ON_TIME,
    ) -> list[Claim]:
        """Take what is due until `until`, in some lanes `farther`; what is due already comes back started. What is late
        keeps the reason."""
        lanes = [
            (*lane, take, self.floors.of(lane, now), farther.get(lane, until)) for lane, take in allotments
        ]
        offer = self.slots.offer()
        try:
            arguments = (self._cell, *columns(lanes, 6), token, self._node_id, self._ttl, *offer, *late_for)
            rows = await unless_overtaken(lambda: self._database.fetch(_sql("claim"), *arguments))
        except BaseException:
            self.slots.doubt(token)
            raise
        claims = [Claim(*row) for row in rows]
        self.slots.accept(claims)
        self._raise_floors(allotments, claims)
        return claims

    async def recall(self, tokens: Sequence[int]) -> tuple[list[Claim], list[Claim]]:
        """What claims without an answer took, and is still ours. Returns it, and apart from it what was asked to stop.

        A claim is one transaction: if anything of it is found, all of it is, and so is which of the offered slots it uses.
        """
        rows = await self._database.fetch(_sql("recall"), self._cell, tokens)
        claims = [Claim(*row) for row in rows]
        if not claims:
            return [], []
        lost, stopped = await self.extend(claims)
        kept = without(claims, lost)
        self.slots.recall({claim.token for claim in claims}, kept)
        return without(kept, stopped), stopped

    async def start(self, claims: Sequence[Claim]) -> list[Claim]:
        """Start claims that are to run at their instant. Those that are not returned must not run."""
        claims = in_lock_order(claims)
        rows = await self._starting.fetch(
            _sql("start"), self._cell, *keys_of(claims), self._node_id, None, why_late(claims)
        )
        return mark_started(claims, rows)

    async def start_gated(self, claims: Sequence[Claim], now: Instant) -> list[Claim]:
        """Start claims that a limit or an overlap policy may hold back; those that are returned have passed. Asking again
        without an answer to the first time is harmless."""
        return await self._gate.start(claims, now)

    async def finish(self, finishes: Sequence[Finish]) -> list[Held]:
        """Move executions to history. Returns the claims that were lost before."""
        if not finishes:
            return []
        finishes = changes_in_lock_order(finishes)
        claims = [finish.claim for finish in finishes]
        row = await self._end("finish", claims, *finish_columns(finishes))
        return [] if row["moved"] == len(claims) else await self._not_in_history(claims)

    async def succeed(self, claims: Sequence[Claim], finished_at: Instant) -> list[Held]:
        """`finish` for claims that succeeded and have nothing more to tell. Returns those that were lost before."""
        claims = in_lock_order(claims)
        row = await self._end("succeed", claims, *_success(claims, finished_at))
        return [] if row["moved"] == len(claims) else await self._not_in_history(claims)

    async def _end(self, name: str, claims: Sequence[Held], *columns: Any) -> Record:
        """End executions, and pass on the turns that they held: both or neither. Then their slots are idle."""
        if any(claim.overlap is not None for claim in claims):
            async with self._database.transaction() as session:
                row: Record = await session.fetchrow(_sql(name), self._cell, *columns)
                await pass_turns(session, self._cell, row["awaited"] or ())
        else:
            row = await self._database.one(_sql(name), self._cell, *columns)
        await self._leave_slots(claims)
        return row

    async def retry(self, agains: Sequence[Again]) -> list[Again]:
        """Put executions back for another attempt. Returns those that are not: lost before, or asked to stop."""
        agains = changes_in_lock_order(agains)
        claims = [again.claim for again in agains]
        times, records = [again.run_at for again in agains], [again.record for again in agains]
        rows = await self._database.fetch(_sql("retry"), self._cell, *keys_of(claims), times, records)
        kept = {row["place"] for row in rows}
        # A slot is for running; an execution that waits for its next attempt does not hold one.
        await self._leave_slots([claims[place] for place in kept])
        return [again for place, again in enumerate(agains) if place not in kept]

    async def _leave_slots(self, claims: Sequence[Held]) -> None:
        if limited := [claim for claim in claims if claim.limit_key is not None]:
            self.slots.leave(claim for claim in limited if isinstance(claim, Claim))
            await self.slots.give_back_wanted()

    async def postpone(self, agains: Sequence[Again]) -> list[Again]:
        """Put executions back whose call never went out. Returns those that are not: lost before, or asked to stop."""
        agains = changes_in_lock_order(agains)
        claims, times = [again.claim for again in agains], [again.run_at for again in agains]
        reasons = [again.waits_for for again in agains]
        rows = await self._database.fetch(_sql("postpone"), self._cell, *keys_of(claims), times, reasons)
        kept = {row["place"] for row in rows}
        await self._leave_slots([claims[place] for place in kept])
        return [again for place, again in enumerate(agains) if place not in kept]

    async def put_back(self, claims: Sequence[Claim], run_at: Instant) -> None:
        """Give claims back that have not started, until `run_at`. Those that are not ours any more are left alone."""
        times, reasons = [run_at] * len(claims), [None] * len(claims)
        claims = in_lock_order(claims)
        await self._database.fetch(_sql("postpone"), self._cell, *keys_of(claims), times, reasons)

    async def extend(self, claims: Sequence[Claim]) -> tuple[list[Claim], list[Claim]]:
        """Heartbeat. Returns the claims that were lost and those whose cancellation was asked for."""
        claims = in_lock_order(claims)
        rows = await self._database.fetch(_sql("extend"), self._cell, *keys_of(claims), self._ttl)
        kept, cancelled = set(), []
        for place, cancel_requested, deadline_at in rows:
            kept.add(place)
            claims[place].deadline_at = deadline_at
            if cancel_requested:
                cancelled.append(claims[place])
        return [claim for place, claim in enumerate(claims) if place not in kept], cancelled

    async def release(self, claims: Sequence[Claim]) -> int:
        """Give back claims that were not started. Returns how many were still ours."""
        claims = in_lock_order(claims)
        return len(await self._database.fetch(_sql("release"), self._cell, *keys_of(claims)))

    async def release_lost(self, limit: int) -> int:
        """Give back claims that were not started and whose node is no longer in the fleet. Returns how many."""
        row = await self._database.one(_sql("release_lost"), self._cell, limit)
        return int(row["released"])

    async def soonest_deadline(self, now: Instant, until: Instant) -> Instant | None:
        """When the first claim will be overdue, if nobody extends it, and if that is not later than `until`."""
        row = await self._database.one(
            _sql("soonest_deadline"), self._cell, self._deadlines.enter(now), until
        )
        soonest: Instant | None = row["soonest"]
        self._deadlines.found(soonest, now, row["under_way_since"])
        return soonest

    async def reclaim(self, limit: int, judge: Callable[[Overdue], Requeue | Finish]) -> tuple[int, int]:
        """Take back claims past their deadline, as `judge` decides. Returns how many were requeued and ended.

        One transaction: the rows stay locked from the look at their deadline to the write, so a worker that
        settles or extends at the last moment is either before all of it or after.
        """
        async with self._database.transaction() as session:
            rows = await session.fetch(_sql("overdue"), self._cell, limit, self._deadlines.known)
            overdue = [Overdue(*row) for row in rows]
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
                await session.fetchrow(_sql("finish"), self._cell, *finish_columns(finishes))
                await pass_turns(session, self._cell, solo_jobs(finish.claim for finish in finishes))
        await self._leave_slots(overdue)
        return len(requeues), len(finishes)

    async def heal(self) -> int:
        """Give back the slots of workers that are gone. Returns how many."""
        return await self.slots.heal()

    async def _not_in_history(self, claims: Sequence[Held]) -> list[Held]:
        rows = await self._database.fetch(_sql("settled"), self._cell, *keys_of(claims))
        kept = {row["place"] for row in rows}
        return [claim for place, claim in enumerate(claims) if place not in kept]

    def _raise_floors(self, allotments: Sequence[Allotment], claims: Sequence[Claim]) -> None:
        """Rows of a lane come in no particular order; the least run time of a batch is its new floor."""
        if len(allotments) == 1 and claims:
            self.floors.raise_to(allotments[0].lane, min([claim.run_at for claim in claims]))
            return
        least: dict[tuple[str, int, int], Instant] = {}
        for claim in claims:
            lane, run_at = (claim.queue, claim.priority, claim.tenant_id), claim.run_at
            if run_at < least.get(lane, LATEST):
                least[lane] = run_at
        for lane, run_at in least.items():
            self.floors.raise_to(Lane(*lane), run_at)


def _success(claims: Sequence[Claim], finished_at: Instant) -> tuple[Any, ...]:
    """The columns of `succeed.sql`."""
    fired = [claim.fired_at for claim in claims] if any(claim.fired_at for claim in claims) else []
    return (*keys_of(claims), finished_at, [claim.version for claim in claims], fired)


def _sql(name: str) -> str:
    return statement("tocsin.queue", name)
