"""Moves operations forward, a batch at a time.

One batch is one transaction: it takes an operation that is due by its row's lock, sees which of the
executions it fired have ended, decides what comes next (`domain.operation`), acts, and moves the position. So
a crash at any point repeats nothing and leaves nothing out, and a node that dies holds nothing up: its lock
goes with its connection. Of several nodes that try, one gets the row and the others pass it by.

Each thing is acted on by the same code as a single request, inside a savepoint of its own. An action that
cannot be done is counted with the reason, and the rest goes on.
"""

import contextlib
from collections.abc import Sequence
from typing import Any, Final
from uuid import UUID

import msgspec

from tocsin.db.pool import Database, Record, Session, Within, columns
from tocsin.db.statements import named
from tocsin.domain.audit import SYSTEM, Origin
from tocsin.domain.cells import CELL
from tocsin.domain.errors import Conflict, Refused, Unavailable
from tocsin.domain.ids import ExecutionKey, execution_text, job_text
from tocsin.domain.instant import MILLISECOND, MINUTE, SECOND, Instant, Span
from tocsin.domain.lifecycle import LIVE, State
from tocsin.domain.operation import (
    FIRING,
    Do,
    Of,
    Standing,
    StopAt,
    braked,
    counted,
    next_take,
    remembered,
    step_failed,
    step_is_over,
)
from tocsin.failpoints import Failpoints
from tocsin.store.audit import Entry, job_object, write_audit
from tocsin.store.control.cancelling import Cancelling
from tocsin.store.control.firing import Firing
from tocsin.store.control.pausing import Pausing
from tocsin.store.dead_letters import DeadLetterStore
from tocsin.store.executions import ExecutionStore, hold_executions
from tocsin.store.gathering import STORED_BATCH
from tocsin.store.operations import forget_things, note
from tocsin.store.statements import sql

_WRITE_PROGRESS = named("tocsin.store", "write_progress")
_AT_A_LOOK: Final = 1_000
_FOR_OUTCOMES: Final[Span] = 500 * MILLISECOND
_AFTER_TROUBLE: Final[Span] = 30 * SECOND
_AFTER_OUTAGE: Final[Span] = 2 * SECOND
_UNREADABLE: Final = (ValueError, TypeError, LookupError, ArithmeticError, msgspec.MsgspecError)
_KNOWN: Final = [str(do) for do in Do]
_TAKING: Final = frozenset({Do.PAUSE, Do.CANCEL, Do.CANCEL_QUEUED, Do.DELETE})
"""Actions that take live executions away."""


class _Progress:
    """An operation on its way through one batch."""

    def __init__(self, row: Record, under_way: int) -> None:
        self.id: int = row["id"]
        self.tenant_id: int = row["tenant_id"]
        self.row = row
        self.do = Do(row["action"])
        self.of = Of(row["things"])
        self.steps: Sequence[int] = row["steps"]
        self.stop_at = None if row["stop_of"] is None else StopAt(row["stop_share"], row["stop_of"])
        self.standing = Standing(
            row["matched"], row["position"], under_way, row["step"], row["step_failed"], row["recent"]
        )
        self.done: int = row["done"]
        self.succeeded: int = row["succeeded"]
        self.failed: int = row["failed"]
        self.errors = msgspec.json.decode(row["errors"], type=dict[str, tuple[int, str]])
        self.state = "running"
        self.state_reason: str | None = None

    @property
    def firing(self) -> bool:
        """Whether the outcome of an action is how an execution ends."""
        return self.do in FIRING

    @property
    def reason(self) -> str:
        """Why it is done, as each thing that it changes shows it."""
        return self.row["reason"] or f"operation {self.id}"

    def heard(self, outcomes: Sequence[bool], errors: Sequence[tuple[str, str]]) -> None:
        """Outcomes came, each a failure or not."""
        at = self.standing
        self.standing = msgspec.structs.replace(
            at,
            step_failed=at.step_failed + sum(outcomes),
            recent=remembered(at.recent, outcomes, self.stop_at),
        )
        self.errors = counted(self.errors, errors)

    def hold(self, why: str) -> None:
        """Stop by itself, until a person has looked."""
        self.state, self.state_reason = "paused", why


class Acting:
    """Operations of all tenants."""

    def __init__(self, database: Database, horizon: float, failpoints: Failpoints) -> None:
        self._database = database
        self._horizon = horizon
        self._failpoints = failpoints

    async def advance(self, now: Instant) -> tuple[int, Instant | None]:
        """One batch of the operation that has waited longest. Returns on how many it acted, and when the next
        is due."""
        tried: list[int] = []
        try:
            async with self._database.transaction() as session:
                row = await session.fetchrow(
                    "SELECT * FROM operations WHERE state = 'running' AND resume_at <= $1 AND action = ANY ($2::text[])"
                    " ORDER BY resume_at LIMIT 1 FOR UPDATE SKIP LOCKED",
                    now,
                    _KNOWN,
                )
                if row is None:
                    return 0, await self._next_due(session, now)
                tried.append(row["id"])
                acted = await self._batch(session, row, now)
                await self._failpoints.reach("operations.acted")
        except Unavailable:
            # The database may be away, or this batch takes longer than a statement may: others come first.
            with contextlib.suppress(Unavailable):
                await self._put_off(tried, now + _AFTER_OUTAGE)
            raise
        except Exception:
            await self._put_off(tried, now + _AFTER_TROUBLE)
            raise
        await self._failpoints.reach("operations.committed")
        return acted, now

    async def _next_due(self, session: Session, now: Instant) -> Instant | None:
        row: Any = await session.fetchrow(
            "SELECT min(resume_at) AS due FROM operations WHERE state = 'running'"
        )
        return None if row["due"] is None else max(row["due"], now + SECOND)  # another node may be at it

    async def _put_off(self, tried: Sequence[int], until: Instant) -> None:
        """An operation that fails does not stand in the way of the others."""
        if tried:
            await self._database.execute(
                "UPDATE operations SET resume_at = greatest(resume_at, $2) WHERE id = ANY ($1::bigint[])",
                list(tried),
                until,
            )

    async def _batch(self, session: Session, row: Record, now: Instant) -> int:
        progress = _Progress(row, 0)
        if progress.firing:
            await self._hear(session, progress)
        acted = 0
        if not self._held(progress):
            acted = await self._act(session, progress, now)
            self._held(progress)
        await self._write(session, progress, acted, now)
        return acted

    async def _hear(self, session: Session, progress: _Progress) -> None:
        """Which of the executions that it fired are over."""
        ended = await session.fetch(
            sql("settle_runs"), CELL, progress.id, progress.row["created_at"] - MINUTE, _AT_A_LOOK
        )
        failures = [end["state"] != State.SUCCEEDED for end in ended]
        errors = [
            (
                end["reason"] or f"ended as {end['state'] or 'forgotten'}",
                execution_text(ExecutionKey(*end[:2])),
            )
            for end, failed in zip(ended, failures, strict=True)
            if failed
        ]
        progress.failed += sum(failures)
        progress.succeeded += len(failures) - sum(failures)
        progress.heard(failures, errors)
        left: Any = await session.fetchrow(
            "SELECT count(*)::integer AS number FROM operation_runs WHERE operation_id = $1", progress.id
        )
        progress.standing = msgspec.structs.replace(progress.standing, under_way=left["number"])

    def _held(self, progress: _Progress) -> bool:
        """Whether the brake or a step that failed holds it. A step that went well leads to the next."""
        at, stop_at = progress.standing, progress.stop_at
        if braked(at.recent, stop_at) and stop_at is not None:
            failed, watched = at.recent.count("x"), len(at.recent)
            progress.hold(f"stopped by its brake: {failed} of the last {watched} failed")
        elif step_is_over(progress.steps, at):
            if step_failed(progress.steps, at, stop_at):
                progress.hold(f"stopped after step {at.step + 1}: {at.step_failed} failed")
            else:
                progress.standing = msgspec.structs.replace(at, step=at.step + 1, step_failed=0)
        return progress.state != "running"

    async def _act(self, session: Session, progress: _Progress, now: Instant) -> int:
        """Act on what comes next. Returns on how many."""
        at, pace = progress.standing, progress.row["pace"]
        take = next_take(at, progress.steps, pace, progress.stop_at, firing=progress.firing)
        things = await _things(session, progress.id, at.position, take)
        if things and progress.do in _TAKING:
            await _hold(session, progress, things)
        stores = _Stores(Within(session), self._horizon)
        done: list[ExecutionKey] = await stores.act_at_once(progress, things)
        fired: list[ExecutionKey] = []
        errors: list[tuple[str, str]] = []
        for place, key in enumerate(sorted(set(things) - set(done))):
            try:
                fired += await stores.act(progress, key, now + place)
                done.append(key)
            except Refused as error:
                errors.append((error.detail, _text(progress.of, key)))
            except _UNREADABLE as error:
                errors.append(
                    (f"this version cannot read it: {type(error).__name__}", _text(progress.of, key))
                )
        await _follow(session, progress, fired)
        await _note_each(session, progress, done)
        progress.done += len(done)
        progress.errors = counted(progress.errors, errors)
        progress.standing = msgspec.structs.replace(
            at, position=at.position + len(things), under_way=at.under_way + len(fired)
        )
        if not progress.firing:
            progress.heard([False] * len(done) + [True] * len(errors), [])
        return len(things)

    async def _write(self, session: Session, progress: _Progress, acted: int, now: Instant) -> None:
        at, pace = progress.standing, progress.row["pace"]
        over = at.position == at.matched and not at.under_way
        if over:
            progress.state, progress.state_reason = "completed", None
        await session.execute(
            *_WRITE_PROGRESS.given(
                id=progress.id,
                state=progress.state,
                state_reason=progress.state_reason,
                position=at.position,
                done=progress.done,
                succeeded=progress.succeeded,
                failed=progress.failed,
                step=at.step,
                step_failed=at.step_failed,
                recent=at.recent,
                errors=msgspec.json.encode(progress.errors).decode(),
                resume_at=now + (acted * pace if acted else _FOR_OUTCOMES),
            )
        )
        if over:
            await forget_things(session, progress.id)
        if progress.state != "running":
            told = {"done": progress.done, "matched": at.matched, "reason": progress.state_reason}
            action = "operation.complete" if over else "operation.hold"
            await note(session, progress.tenant_id, SYSTEM, action, progress.id, told)


class _Stores:
    """What acts on single things, all inside one transaction."""

    def __init__(self, database: Database, horizon: float) -> None:
        self._pausing = Pausing(database, horizon)
        self._cancelling = Cancelling(database)
        self._firing = Firing(database)
        self._executions = ExecutionStore(database)
        self._dead_letters = DeadLetterStore(database)

    async def act(self, progress: _Progress, key: ExecutionKey, now: Instant) -> list[ExecutionKey]:
        """Do it to one thing. Returns the execution that this fires, if it does."""
        do, tenant_id, reason = progress.do, progress.tenant_id, progress.reason
        if progress.of is Of.JOBS:
            return await self._on_job(do, tenant_id, key.job_id, reason, now)
        return await self._on_execution(do, tenant_id, key, reason, now)

    async def act_at_once(self, progress: _Progress, things: Sequence[ExecutionKey]) -> list[ExecutionKey]:
        """Do it to those for which a single statement is enough. Returns them."""
        if not things or progress.do is not Do.PAUSE:
            return []
        idle = await self._pausing.pause_idle(
            progress.tenant_id, [key.job_id for key in things], progress.reason
        )
        return [key for key in things if key.job_id in idle]

    async def _on_job(
        self, do: Do, tenant_id: int, job_id: UUID, reason: str, now: Instant
    ) -> list[ExecutionKey]:
        match do:
            case Do.PAUSE:
                await self._pausing.pause(tenant_id, job_id, reason)
            case Do.RESUME:
                await self._pausing.resume(tenant_id, job_id, now)
            case Do.CANCEL:
                await self._cancelling.cancel(tenant_id, job_id, reason)
            case Do.CANCEL_QUEUED:
                await self._cancelling.cancel_queued(tenant_id, job_id, reason)
            case Do.DELETE:
                await self._cancelling.delete(tenant_id, job_id)
            case Do.RUN:
                return [await self._firing.run(tenant_id, job_id, now)]
            case _:
                raise Conflict(f"{do} is not possible for jobs")
        return []

    async def _on_execution(
        self, do: Do, tenant_id: int, key: ExecutionKey, reason: str, now: Instant
    ) -> list[ExecutionKey]:
        match do:
            case Do.CANCEL:
                await self._executions.cancel(tenant_id, key, reason)
            case Do.RETRY:
                await self._executions.retry(tenant_id, key)
                return [key]
            case Do.RERUN:
                return [await self._rerun(tenant_id, key, now)]
            case Do.DISCARD:
                await self._dead_letters.discard(tenant_id, key)
            case _:
                raise Conflict(f"{do} is not possible for executions")
        return []

    async def _rerun(self, tenant_id: int, key: ExecutionKey, now: Instant) -> ExecutionKey:
        row = await self._executions.get(tenant_id, key)
        if row["state"] in LIVE:
            raise Conflict(f"cannot run an execution again that is {row['state']}")
        return await self._firing.run(tenant_id, key.job_id, now, again=key.fire_at)


async def _things(session: Session, operation_id: int, position: int, take: int) -> list[ExecutionKey]:
    """Up to `take` things from `position` on, within one stored batch."""
    number, offset = divmod(position, STORED_BATCH)
    if not take:
        return []
    row = await session.fetchrow(
        "SELECT job_ids[$3:$4] AS job_ids, fire_ats[$3:$4] AS fire_ats FROM operation_batches"
        " WHERE operation_id = $1 AND number = $2",
        operation_id,
        number,
        offset + 1,
        offset + take,
    )
    if row is None:
        raise LookupError(f"operation {operation_id} has lost batch {number}")
    return [ExecutionKey(*key) for key in zip(row["job_ids"], row["fire_ats"], strict=True)]


async def _hold(session: Session, progress: _Progress, things: Sequence[ExecutionKey]) -> None:
    """Lock all that a batch takes away before anything is done to it. One thing after the other would lock an
    execution that holds a turn after executions of earlier jobs, against the order that all keep."""
    job_ids = sorted({key.job_id for key in things})
    if progress.of is not Of.JOBS:
        await hold_executions(session, job_ids, [key.fire_at for key in things])
        return
    await session.execute(
        "SELECT FROM backfills WHERE tenant_id = $1 AND job_id = ANY ($2::uuid[]) AND state = 'running'"
        " ORDER BY id FOR UPDATE",
        progress.tenant_id,
        job_ids,
    )
    await session.fetch(sql("lock_jobs"), CELL, progress.tenant_id, job_ids)
    await hold_executions(session, job_ids)


async def _follow(session: Session, progress: _Progress, fired: Sequence[ExecutionKey]) -> None:
    if fired:
        await session.execute(
            "INSERT INTO operation_runs (operation_id, tenant_id, job_id, fire_at)"
            " SELECT $1, $2, g.job_id, g.fire_at FROM unnest($3::uuid[], $4::timestamptz[]) AS g (job_id, fire_at)",
            progress.id,
            progress.tenant_id,
            *columns(fired, 2),
        )


async def _note_each(session: Session, progress: _Progress, done: Sequence[ExecutionKey]) -> None:
    """Each thing that was changed shows who did it: the key that asked for the operation."""
    origin = Origin(progress.row["created_by"])
    jobs = progress.of is Of.JOBS
    action = f"{'job' if jobs else 'execution'}.{progress.do}"
    if done:
        await write_audit(
            session,
            [
                Entry(
                    progress.tenant_id,
                    origin,
                    action,
                    job_object(key.job_id) if jobs else execution_text(key),
                    None,
                    {"operation": progress.id},
                )
                for key in done
            ],
        )


def _text(of: Of, key: ExecutionKey) -> str:
    return job_text(key.job_id) if of is Of.JOBS else execution_text(key)
