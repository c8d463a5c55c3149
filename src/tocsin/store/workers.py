"""Remote workers: who they are, what they serve, and when they were heard of.

A worker is live while it was heard of within three of its leases. Nothing hangs on that: what it holds has
deadlines of its own. It tells users which workers are there, and `explain` whether one serves a task.
"""

import secrets
from collections.abc import Sequence
from datetime import timedelta
from typing import Final

import msgspec

from tocsin.db.pool import Database, Record
from tocsin.db.statements import named
from tocsin.domain.errors import NotFound
from tocsin.domain.ids import worker_text
from tocsin.domain.instant import Instant, Span
from tocsin.domain.protocol import NewWorker

LEASES_UNTIL_GONE: Final = 3
_REGISTER = named("tocsin.store", "register_worker")
_COLUMNS: Final = (
    "id, tenant_id, name, app, revision, sdk, queues, tasks, capacity, running, started_at, seen_at,"
    " (extract(epoch FROM lease) * 1000000)::bigint AS lease,"
    " CASE WHEN seen_at < tocsin_now() - 3 * lease THEN 'gone' ELSE state END AS state"
)


class Seen(msgspec.Struct, frozen=True):
    """When a worker was last heard of, and how much it runs."""

    worker_id: int
    at: Instant
    running: int


class WorkerStore:
    """Remote workers of all tenants; whatever is asked names the tenant."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def register(self, tenant_id: int, key_id: str, new: NewWorker, lease: Span) -> int:
        """Write down a worker. Returns its number, which cannot be guessed."""
        worker_id = secrets.randbits(63)
        await self._database.execute(
            *_REGISTER.given(
                id=worker_id,
                tenant_id=tenant_id,
                key_id=key_id,
                name=new.name,
                app=new.app,
                revision=new.revision,
                sdk=new.sdk,
                queues=list(dict.fromkeys(new.queues)),
                tasks=list(dict.fromkeys(task.name for task in new.tasks)),
                capacity=new.capacity,
                lease=timedelta(microseconds=lease),
            )
        )
        return worker_id

    async def find(self, tenant_id: int, worker_id: int) -> Record:
        """One worker of a tenant."""
        row = await self._database.fetchrow(
            f"SELECT {_COLUMNS} FROM workers WHERE id = $1 AND tenant_id = $2",  # noqa: S608
            worker_id,
            tenant_id,
        )
        if row is None:
            raise NotFound(f"no worker {worker_text(worker_id)}")
        return row

    async def list(self, tenant_id: int, after: int, limit: int, *, live: bool) -> list[Record]:
        """A tenant's workers, by number."""
        return await self._database.fetch(
            f"SELECT * FROM (SELECT {_COLUMNS} FROM workers WHERE tenant_id = $1 AND id > $2) AS w"  # noqa: S608
            " WHERE NOT $4 OR state <> 'gone' ORDER BY id LIMIT $3",
            tenant_id,
            after,
            limit,
            live,
        )

    async def drain(self, tenant_id: int, worker_id: int) -> Record:
        """Ask a worker to end what it has and to take no more."""
        await self._database.execute(
            "UPDATE workers SET state = 'draining' WHERE id = $1 AND tenant_id = $2 AND state = 'active'",
            worker_id,
            tenant_id,
        )
        await self._database.execute("SELECT pg_notify('tocsin', 'workers')")
        return await self.find(tenant_id, worker_id)

    async def leave(self, tenant_id: int, worker_id: int) -> None:
        """A worker says that it is gone."""
        await self._database.execute(
            "UPDATE workers SET state = 'gone', running = 0 WHERE id = $1 AND tenant_id = $2",
            worker_id,
            tenant_id,
        )

    async def note_seen(self, seen: Sequence[Seen]) -> None:
        """Workers were heard of. In the order of their numbers, for others may write the same ones."""
        ordered = sorted(seen, key=lambda one: one.worker_id)
        await self._database.execute(
            "UPDATE workers w SET seen_at = greatest(w.seen_at, s.at), running = s.running"
            " FROM unnest($1::bigint[], $2::timestamptz[], $3::integer[]) AS s (id, at, running) WHERE w.id = s.id",
            [one.worker_id for one in ordered],
            [one.at for one in ordered],
            [one.running for one in ordered],
        )

    async def tell_settled(self) -> None:
        """What another gateway handed out under a limit is over: it has a slot to give on."""
        await self._database.execute("SELECT pg_notify('tocsin', 'settled')")

    async def states(self, worker_ids: Sequence[int]) -> dict[int, str]:
        """How some workers stand, as they were told or told themselves."""
        rows = await self._database.fetch(
            "SELECT id, state FROM workers WHERE id = ANY ($1::bigint[])", list(worker_ids)
        )
        return {row["id"]: row["state"] for row in rows}
