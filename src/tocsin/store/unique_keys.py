"""Jobs under a unique key: one of them is live at a time.

The key stands on the execution, and a unique index lets one execution of a route have it. So of many who
enqueue at once one creates a job, and the key is free when that one ends, however it ends. With `debounce`, a
job that has not started is pushed back instead and does what was asked for last; one that runs by then gives
its key to a new one. A job that is paused or changed by hand gives its key up.

An application may take a key in a transaction of its own, and leave that open. A caller that wants the key
then waits `PATIENCE` and no longer: its connection is missing to all other calls.
"""

from collections.abc import Callable
from functools import partial
from typing import Any, Final, Literal
from uuid import UUID

import msgspec

from tocsin.db.pool import Database, LockTaken, Record, Session, UniqueViolation
from tocsin.db.statements import named
from tocsin.domain.cells import CELL
from tocsin.domain.errors import Conflict, Unavailable
from tocsin.domain.ids import ExecutionKey
from tocsin.domain.instant import MILLISECOND, Instant, Span, format_instant
from tocsin.domain.schedule import Schedule
from tocsin.domain.target import route_of
from tocsin.store.control.locked_job import find_and_lock
from tocsin.store.jobs import NewJob, define_in
from tocsin.store.repeats import Once, take_text
from tocsin.store.statements import sql

_PUSH_BACK = named("tocsin.store", "push_back")
PATIENCE: Final = "2s"
"""How long a lock is waited for."""
_TAKEN: Final = "a transaction that is not over yet has this key"
_TRIES: Final = 5
_NEAR: Final = 2_500 * MILLISECOND


class UniqueKey(msgspec.Struct, frozen=True):
    """A key, and whether a job that is live under it is pushed back: by how much in all; None, without
    end."""

    text: str
    debounce: bool = False
    max_wait: Span | None = None


class Entered(msgspec.Struct, frozen=True):
    """What came of an enqueue under a key. `row` is the job as it stands, unless it was created just now."""

    outcome: Literal["created", "existed", "moved"]
    execution: ExecutionKey
    due_at: Instant
    row: Record | None = None


class UniqueKeys:
    """Enqueues under keys, for all tenants."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def enter(
        self, job: NewJob, key: UniqueKey, now: Instant, once: Once | None, answer: Callable[[Entered], str]
    ) -> Entered:
        """Create a job, or find or push back the one that is live under its key. `Repeated` if the request's
        idempotency key was taken; then nothing was done."""
        for _ in range(_TRIES):
            try:
                async with self._database.transaction() as session:
                    entered = await _enter(session, job, key, now)
                    await take_text(session, once, entered.execution.job_id, partial(answer, entered))
                    return entered
            except (UniqueViolation, _Gone):
                continue  # another one was first, or it ended at this moment: look again
            except Unavailable as error:
                if isinstance(error.__cause__, LockTaken):
                    raise Unavailable(_TAKEN) from error
                raise
        raise Conflict("others keep enqueueing under this key; try again", field="unique")


class _Gone(Exception):
    """The execution that was found a moment ago has ended."""


async def _enter(session: Session, job: NewJob, key: UniqueKey, now: Instant) -> Entered:
    route = route_of(job.definition.target)
    holder = await session.fetchrow(
        "SELECT e.job_id, e.fire_at, e.due_at FROM (SELECT set_config('lock_timeout', $5, true)) AS patience"
        " LEFT JOIN executions e ON e.cell = $1 AND e.tenant_id = $2 AND e.route = $3 AND e.unique_key = $4",
        CELL,
        job.tenant_id,
        route,
        key.text,
        PATIENCE,
    )
    if holder is None or holder["job_id"] is None:
        return await _create(session, job, key, now)
    if not key.debounce:
        execution = ExecutionKey(holder["job_id"], holder["fire_at"])
        row = await _shown(session, job.tenant_id, execution.job_id)
        return Entered("existed", execution, holder["due_at"], row)
    return await _push_back(session, job, key, now, holder["job_id"])


async def _create(session: Session, job: NewJob, key: UniqueKey, now: Instant) -> Entered:
    await define_in(session, [job], now, one_request=False)
    await session.execute(
        "UPDATE executions SET unique_key = $3 WHERE cell = $1 AND job_id = $2", CELL, job.id, key.text
    )
    return Entered("created", ExecutionKey(job.id, job.fire_at), job.due_at)


async def _push_back(session: Session, job: NewJob, key: UniqueKey, now: Instant, holder_id: UUID) -> Entered:
    """Push the holder of the key back; if it has started, it gives its key to a new job."""
    holder = await find_and_lock(session, job.tenant_id, holder_id)
    if holder is None:
        raise _Gone
    row = await _shown(session, job.tenant_id, holder_id)
    due_at = job.due_at
    if key.max_wait is not None:
        due_at = max(now, min(due_at, row["created_at"] + key.max_wait))
    definition = job.definition
    policies = definition.policies
    moved = await session.fetchrow(
        *_PUSH_BACK.given(
            cell=CELL,
            job_id=holder_id,
            key=key.text,
            due_at=due_at,
            start_by=policies.start_by(due_at),
            limit_key=None if policies.limit is None else policies.limit.key,
            schedule=_json(Schedule(at=format_instant(due_at))),
            target=_json(definition.target),
            policies=_json(policies),
        )
    )
    if moved is not None:
        if due_at <= now + _NEAR:
            await session.execute("SELECT pg_notify('tocsin', 'ready')")
        row = await _shown(session, job.tenant_id, holder_id)
        return Entered("moved", ExecutionKey(holder_id, moved["fire_at"]), moved["due_at"], row)
    await session.execute(
        "UPDATE executions SET unique_key = NULL WHERE cell = $1 AND job_id = $2", CELL, holder_id
    )
    return await _create(session, job, key, now)


async def _shown(session: Session, tenant_id: int, job_id: UUID) -> Any:
    row = await session.fetchrow(
        f"{sql('job_columns')} WHERE j.cell = $1 AND j.id = $2 AND j.tenant_id = $3", CELL, job_id, tenant_id
    )
    if row is None:
        raise _Gone
    return row


def _json(value: object) -> str:
    return msgspec.json.encode(value).decode()
