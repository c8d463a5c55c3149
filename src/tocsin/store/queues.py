"""Queues: how deep they are, who serves them, and pausing them.

A queue is a name that executions carry; it needs no making. A pause takes back what workers have claimed
ahead, and workers claim nothing of it while it lasts. Waiting executions stay queued. A recurring fire that
has not started within its grace is missed, and its misfire policy decides once the queue goes on; what it
will surely drop goes within hours, so that a queue may stay paused for ever.

Looks are bounded by lanes and by rows per lane, never by the backlog.
"""

from collections.abc import Sequence
from typing import Any, Final

import msgspec

from tocsin.db.pool import Database, Record, Session
from tocsin.domain.audit import SYSTEM, Origin
from tocsin.domain.cells import CELL
from tocsin.domain.errors import Conflict, NotFound
from tocsin.domain.instant import SECOND, Instant, format_instant
from tocsin.domain.job import DEFAULT_QUEUE
from tocsin.domain.waits import Held
from tocsin.store.audit import Entry, write_audit
from tocsin.store.statements import sql

MOST_COUNTED: Final = 10_000
MINUTES: Final = 10
MOST_RUNNING: Final = 20_000
_MOST_LANES: Final = 2_000
_MOST_DUE: Final = 200_000
_MOST_ENDED: Final = 20_000
_MOST_JOBS: Final = 10_000
_MOST_PAUSES: Final = 100
_STALE_LOOK: Final = 5 * SECOND
"""A worker claims by what it saw less than this ago, or not at all."""


class Queues(msgspec.Struct, frozen=True):
    """What was found about queues. Rows name their tenant and queue."""

    depths: list[Record]
    running: list[Record]
    ended: list[Record]
    kept: list[Record]
    """Those that are paused, or were once."""
    served: list[list[str]]
    """The queues that each live worker serves; none named means all."""


class QueueStore:
    """Queues of one tenant; of all tenants where the connection sees them and no tenant is named."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def look(self, tenant_id: int | None, queue: str | None, now: Instant) -> Queues:
        """How queues stand."""
        fetch = self._database.fetch
        depths = await self.depths(tenant_id, queue, now)
        kept = await fetch(
            "SELECT * FROM queues WHERE ($1::integer IS NULL OR tenant_id = $1) AND ($2::text IS NULL OR name = $2)"
            " ORDER BY name LIMIT $3",
            tenant_id,
            queue,
            _MOST_LANES,
        )
        running = await fetch(sql("queue_running"), CELL, tenant_id, MOST_RUNNING)
        tenants = {tenant_id} if tenant_id is not None else {row["tenant_id"] for row in (*depths, *kept)}
        ended = await fetch(sql("queue_ended"), sorted(tenants), now, MINUTES, _MOST_ENDED)
        nodes = await fetch(
            "SELECT queues FROM nodes WHERE 'worker' = ANY (roles) AND expires_at > tocsin_now()"
        )
        return Queues(depths, running, ended, kept, [row["queues"] for row in nodes])

    async def depths(self, tenant_id: int | None, queue: str | None, now: Instant) -> list[Record]:
        """What is due and waits, by tenant, queue and priority."""
        lanes = await self._database.one(
            "SELECT count(*) AS number FROM lanes WHERE cell = $1 AND ($2::integer IS NULL OR tenant_id = $2)"
            " AND ($3::text IS NULL OR queue = $3)",
            CELL,
            tenant_id,
            queue,
        )
        most = max(100, min(MOST_COUNTED, _MOST_DUE // max(1, lanes["number"])))
        return await self._database.fetch(sql("queue_depths"), CELL, tenant_id, queue, now, most, _MOST_LANES)

    async def is_used(self, tenant_id: int, queue: str) -> bool:
        """Whether one of the tenant's latest jobs uses a queue that has been idle for long."""
        if queue == DEFAULT_QUEUE:
            return True
        row = await self._database.one(
            "SELECT EXISTS (SELECT FROM (SELECT queue FROM jobs WHERE tenant_id = $1 ORDER BY id DESC LIMIT $3) AS j"
            " WHERE j.queue = $2) OR EXISTS (SELECT FROM queues WHERE tenant_id = $1 AND name = $2) AS used",
            tenant_id,
            queue,
            _MOST_JOBS,
        )
        return bool(row["used"])

    async def pause(
        self, tenant_id: int, queue: str, reason: str | None, until: Instant | None, origin: Origin
    ) -> int:
        """Hold a queue's executions. Returns how many were taken back from workers that had claimed them
        ahead. With `until`, a pause that is in force gets another end."""
        async with self._database.transaction() as session:
            row = await session.fetchrow(sql("pause_queue"), tenant_id, queue, reason, until, origin.actor)
            if row is None and until is not None:
                row = await session.fetchrow(sql("prolong_queue_pause"), tenant_id, queue, until, reason)
            if row is None:
                raise Conflict(f"cannot pause: the queue {queue} is paused")
            taken = await session.fetch(sql("unclaim_queues"), CELL, tenant_id, queue, row["paused_at"])
            await _note(session, tenant_id, origin, "queue.pause", queue, after=_shown(row))
            return len(taken)

    async def resume(
        self, tenant_id: int, queue: str, origin: Origin, *, ended_by: Instant | None = None
    ) -> None:
        """Let a queue go on; with `ended_by`, only if its pause had an end that has passed by then."""
        async with self._database.transaction() as session:
            row = await session.fetchrow(sql("resume_queue"), tenant_id, queue, origin.actor, ended_by)
            if row is None and ended_by is None and not await self.is_used(tenant_id, queue):
                raise NotFound("no such queue is known, or paused")
            if row is None:
                raise Conflict("cannot resume: the queue is not paused")
            await _note(session, tenant_id, origin, "queue.resume", queue, before=_shown(row))

    async def pauses(self, tenant_id: int, queue: str, since: Instant, until: Instant) -> list[Held]:
        """What parts of a span the queue was paused for, in order; the last has no end if it lasts."""
        rows = await self._database.fetch(
            "SELECT paused_at, resumed_at, paused_by, reason FROM queue_pauses WHERE tenant_id = $1 AND queue = $2"
            " AND resumed_at > $3 AND paused_at < $4 UNION ALL SELECT paused_at, NULL, paused_by, reason FROM queues"
            " WHERE tenant_id = $1 AND name = $2 AND paused_at < $4 ORDER BY paused_at LIMIT $5",
            tenant_id,
            queue,
            since,
            until,
            _MOST_PAUSES,
        )
        return [Held(row["paused_at"], row["resumed_at"], row["paused_by"], row["reason"]) for row in rows]

    async def resume_ended(self, now: Instant) -> tuple[int, Instant | None]:
        """Resume queues of all tenants whose pause had an end. Returns how many, and when the next pause
        ends."""
        rows = await self._database.fetch(
            "SELECT tenant_id, name, paused_until FROM queues WHERE paused_until IS NOT NULL ORDER BY paused_until LIMIT 100"
        )
        over = [row for row in rows if row["paused_until"] <= now]
        for row in over:
            try:
                await self.resume(row["tenant_id"], row["name"], SYSTEM, ended_by=now)
            except Conflict:
                continue  # another node, or a user, was quicker
        return len(over), rows[len(over)]["paused_until"] if len(over) < len(rows) else None

    async def take_back_stragglers(self, now: Instant) -> tuple[int, bool]:
        """Take back what workers claimed of queues that were paused a moment ago, by a look from before the
        pause. Returns how many, and whether a further look is worth while."""
        row = await self._database.one(
            "SELECT EXISTS (SELECT FROM queues WHERE paused_at >= $1) AS lately", now - _STALE_LOOK
        )
        if not row["lately"]:
            return 0, False
        taken = await self._database.fetch(sql("unclaim_queues"), CELL, None, None, now - _STALE_LOOK)
        return len(taken), True


async def _note(
    session: Session,
    tenant_id: int,
    origin: Origin,
    action: str,
    queue: str,
    *,
    before: Any = None,
    after: Any = None,
) -> None:
    await write_audit(session, [Entry(tenant_id, origin, action, f"queue:{queue}", before, after)])


def _shown(row: Record) -> dict[str, Any]:
    until = row["paused_until"]
    shown = {
        "paused_at": format_instant(row["paused_at"]),
        "paused_by": row["paused_by"],
        "reason": row["reason"],
        "until": None if until is None else format_instant(until),
    }
    return {name: value for name, value in shown.items() if value is not None}


def serving(served: Sequence[Sequence[str]], queue: str) -> int:
    """How many of these workers serve a queue."""
    return sum(not queues or queue in queues for queues in served)
