"""A throw-away installation to measure: its own PostgreSQL, engine processes as users run them."""

import asyncio
import logging
import os
import shutil
import signal
import sys
import tempfile
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from uuid import UUID

import structlog

from bench.processes import children
from tocsin.clock import system_now
from tocsin.db.embedded import EmbeddedServer
from tocsin.db.migrations import migrate
from tocsin.db.pool import Database, open_database
from tocsin.domain.ids import new_job_id, shard_of
from tocsin.domain.instant import Instant, format_instant
from tocsin.domain.job import Definition
from tocsin.domain.policy import Policies
from tocsin.domain.schedule import Schedule
from tocsin.domain.shard import DEFAULT_SHARDS
from tocsin.domain.target import NoopTarget, Target
from tocsin.store.history import HistoryStore
from tocsin.store.jobs import JobStore, NewJob

BATCH = 1000


class Installation:
    """A database and whatever processes a benchmark starts over it.

    `backlog_until` is the id up to which jobs are a backlog: they stay when the rest is forgotten, and no
    drain waits for them.
    """

    def __init__(self, url: str, database: Database, server: int) -> None:
        self.url = url
        self.database = database
        self.processes: list[asyncio.subprocess.Process] = []
        self.backlog_until: UUID | None = None
        self.program: tuple[str, ...] = ("-m", "tocsin")
        """What Python is told to run, before the role."""
        self._server = server

    @property
    def pids(self) -> list[int]:
        """Our processes."""
        return [process.pid for process in self.processes]

    @property
    def server_pids(self) -> list[int]:
        """The processes of the database server."""
        return [self._server, *children(self._server)]

    async def empty(self) -> None:
        """Forget all work but the backlog; statistics fresh."""
        if self.backlog_until is None:
            await self.database.execute("TRUNCATE jobs, executions, history, lanes")
        else:
            await self.database.execute("TRUNCATE history")
            for table, key in (("jobs", "id"), ("executions", "job_id")):
                await self.database.execute(
                    f"DELETE FROM {table} WHERE cell = 0 AND {key} > $1", self.backlog_until
                )
        await self.settle_down()

    async def settle_down(self) -> None:
        """Let maintenance that belongs to the set-up not run into the measurement.

        Indexes are always cleaned: where little of a big table is dead, VACUUM would leave that for the next
        time, and ANALYZE would count it, so that autovacuum would come for it as soon as the measured work
        makes more.
        """
        for table in ("jobs", "executions"):
            await self.database.execute(f"VACUUM (ANALYZE, INDEX_CLEANUP ON) {table}")
        await self.database.execute("CHECKPOINT")

    async def add_one_offs(
        self,
        count: int,
        due_at: Instant,
        target: Target | Callable[[int], Target] | None = None,
        policies: Policies | Callable[[int], Policies] | None = None,
        tenant: int = 1,
    ) -> None:
        """One-off jobs due at one instant, as the API would write them."""
        store = JobStore(self.database)
        schedule = Schedule(at=format_instant(due_at))
        for start in range(0, count, BATCH):
            now = system_now()
            jobs = []
            for number in range(start, min(start + BATCH, count)):
                of = policies(number) if callable(policies) else policies or Policies()
                job_id = new_job_id(now)
                to = target(number) if callable(target) else target or NoopTarget()
                definition = Definition(schedule, to, policies=of)
                jobs.append(
                    NewJob(job_id, tenant, shard_of(job_id, DEFAULT_SHARDS), definition, due_at, due_at)
                )
            await store.define(jobs, now)

    async def add_recurring(
        self, count: int, schedule: Schedule, first: Instant, queue: str = "default"
    ) -> None:
        """Recurring jobs that are planned from one fire time on, as the API would write them."""
        store = JobStore(self.database)
        definition = Definition(schedule, NoopTarget(), queue=queue)
        for start in range(0, count, BATCH):
            now = system_now()
            ids = [new_job_id(now) for _ in range(min(BATCH, count - start))]
            new = [
                NewJob(job_id, 1, shard_of(job_id, DEFAULT_SHARDS), definition, first, first)
                for job_id in ids
            ]
            await store.define(new, now)

    async def honour_overlap(self) -> None:
        """Executions of one-offs have no overlap policy, for there is nothing to overlap with. Give them
        their job's, as the planner does for recurring ones."""
        await self.database.execute(
            """UPDATE executions e SET overlap = j.policies ->> 'overlap' FROM jobs j
               WHERE j.cell = e.cell AND j.id = e.job_id AND j.policies ? 'overlap'"""
        )

    async def tenants(self, count: int) -> list[int]:
        """Ids of `count` tenants, the first of which is there from the start."""
        await self.database.execute(
            "INSERT INTO tenants (name) SELECT 'tenant-' || n FROM generate_series(2, $1::integer) AS n"
            " ON CONFLICT DO NOTHING",
            count,
        )
        rows = await self.database.fetch("SELECT id FROM tenants ORDER BY id LIMIT $1", count)
        return [row["id"] for row in rows]

    async def pause_queue(self, tenant: int = 1) -> None:
        """Hold everything in a tenant's default queue back."""
        await self.database.execute(
            """INSERT INTO queues (tenant_id, name, paused_at) VALUES ($1, 'default', tocsin_now())
               ON CONFLICT (tenant_id, name) DO UPDATE SET paused_at = excluded.paused_at""",
            tenant,
        )

    async def resume_queue(self) -> None:
        """Let it go, as the API would."""
        await self.database.execute("UPDATE queues SET paused_at = NULL")
        await self.database.execute("SELECT pg_notify('tocsin', 'ready')")

    async def start(self, role: str, count: int = 1, **settings: object) -> None:
        """Start processes of a role and wait until they have joined the fleet."""
        environment = os.environ | {"TOCSIN_DATABASE_URL": self.url, "TOCSIN_LOG_LEVEL": "error"}
        environment |= {f"TOCSIN_{name.upper()}": str(value) for name, value in settings.items()}
        log = None if environment["TOCSIN_LOG_LEVEL"] == "error" else asyncio.subprocess.DEVNULL
        before = (await self.database.one("SELECT coalesce(max(id), 0) AS id FROM nodes"))["id"]
        for _ in range(count):
            self.processes.append(
                await asyncio.create_subprocess_exec(
                    sys.executable, *self.program, role, env=environment, stderr=log
                )
            )
        joined = "SELECT count(*) AS n FROM nodes WHERE id > $1"
        while (await self.database.one(joined, before))["n"] < count:
            await asyncio.sleep(0.02)

    async def kill(self, place: int) -> None:
        """kill -9 of one process."""
        process = self.processes.pop(place)
        process.kill()
        await process.wait()

    async def stop(self) -> None:
        """Stop all processes in order."""
        for process in self.processes:
            process.send_signal(signal.SIGTERM)
        for process in self.processes:
            await process.wait()
        self.processes.clear()

    async def count(self, table: str) -> int:
        """Rows of a small table."""
        return int((await self.database.one(f"SELECT count(*) AS n FROM {table}"))["n"])

    async def finished(self) -> int:
        """Rows that ever came into history, as the server counts them for itself: some may be missing for a
        second."""
        row = await self.database.one(
            "SELECT coalesce(sum(n_tup_ins), 0)::bigint AS n FROM pg_stat_user_tables WHERE relname LIKE 'history%'"
        )
        return int(row["n"])

    async def wait_until_done(self) -> None:
        """Wait until nothing is live, apart from the backlog.

        Looks on from the first one that was live at the last look: from the start, every look would walk over
        all that is done by then, and take from the drain what it measures. Only a look from the start finds
        that nothing is left, for an old job may have a new execution.
        """
        first = "SELECT job_id FROM executions WHERE cell = 0 AND job_id >= $1 ORDER BY job_id LIMIT 1"
        start = place = self.backlog_until or UUID(int=0)
        while (row := await self.database.fetchrow(first, place)) or place != start:
            place = row["job_id"] if row else start
            await asyncio.sleep(0.02)

    async def stop_firing(self, end: Instant) -> None:
        """End all jobs; what was due before `end` still runs."""
        await self.database.execute(
            "UPDATE jobs SET state = 'completed', next_fire_at = NULL WHERE state = 'active'"
        )
        await self.database.execute("DELETE FROM executions WHERE fire_at >= $1 AND claim_token IS NULL", end)
        await self.wait_until_done()

    async def expect_all_succeeded(self, count: int) -> None:
        """A measurement whose executions did not all run is none."""
        row = await self.database.one("SELECT count(*) AS n FROM history WHERE state = 'succeeded'")
        assert row["n"] == count, f"{row['n']:,} of {count:,} executions succeeded"


@asynccontextmanager
async def installation(kept: Path | None = None, shards: int = DEFAULT_SHARDS) -> AsyncIterator[Installation]:
    """A fresh installation in a temporary directory; or the one in a directory that is kept, made if there is
    none."""
    directory = kept or Path(tempfile.mkdtemp(prefix="tocsin-bench-"))
    directory.mkdir(exist_ok=True)
    directory.chmod(0o755)
    quiet = structlog.make_filtering_bound_logger(logging.WARNING)
    structlog.configure(wrapper_class=quiet)  # a new database has much to say about itself
    server = EmbeddedServer(directory)
    try:
        url = await server.start()
        await migrate(url, shards)
        database = await open_database(url, name="bench", timeout=1200)
        await HistoryStore(database).make_partitions(system_now())
        pid = int((directory / "postgres" / "postmaster.pid").read_text().splitlines()[0])
        made = Installation(url, database, pid)
        try:
            yield made
        finally:
            await made.stop()
            await database.close()
    finally:
        await server.stop()
        if kept is None:
            shutil.rmtree(directory, ignore_errors=True)
