"""A throw-away installation to measure: its own PostgreSQL, engine processes as users run them."""

import asyncio
import os
import shutil
import signal
import sys
import tempfile
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

from tocsin.clock import system_now
from tocsin.db.embedded import EmbeddedServer
from tocsin.db.migrations import migrate
from tocsin.db.pool import Database, open_database
from tocsin.domain.ids import new_job_id, shard_of
from tocsin.domain.instant import Instant, format_instant
from tocsin.domain.job import Definition
from tocsin.domain.policy import Policies
from tocsin.domain.schedule import Schedule
from tocsin.domain.target import NoopTarget, Target
from tocsin.store.history import HistoryStore
from tocsin.store.jobs import JobStore, NewJob

BATCH = 1000


class Installation:
    """A database and whatever processes a benchmark starts over it."""

    def __init__(self, url: str, database: Database) -> None:
        self.url = url
        self.database = database
        self.processes: list[asyncio.subprocess.Process] = []

    async def empty(self) -> None:
        """Forget all work; statistics fresh."""
        await self.database.execute("TRUNCATE jobs, executions, history, lanes")
        await self.settle_down()

    async def settle_down(self) -> None:
        """Let maintenance that belongs to the set-up not run into the measurement."""
        for table in ("jobs", "executions"):
            await self.database.execute(f"VACUUM (ANALYZE) {table}")
        await self.database.execute("CHECKPOINT")

    async def add_one_offs(
        self,
        count: int,
        due_at: Instant,
        target: Target | None = None,
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
                definition = Definition(schedule, target or NoopTarget(), policies=of)
                jobs.append(NewJob(job_id, tenant, shard_of(job_id, 64), definition, due_at, due_at))
            await store.define(jobs, now)

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
        before = (await self.database.one("SELECT coalesce(max(id), 0) AS id FROM nodes"))["id"]
        for _ in range(count):
            self.processes.append(
                await asyncio.create_subprocess_exec(sys.executable, "-m", "tocsin", role, env=environment)
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

    async def wait_until_done(self) -> None:
        """Wait until nothing is live."""
        while (await self.database.one("SELECT EXISTS (SELECT FROM executions) AS left"))["left"]:
            await asyncio.sleep(0.02)


@asynccontextmanager
async def installation() -> AsyncIterator[Installation]:
    """A fresh installation in a temporary directory."""
    directory = Path(tempfile.mkdtemp(prefix="tocsin-bench-"))
    directory.chmod(0o755)
    server = EmbeddedServer(directory)
    try:
        url = await server.start()
        await migrate(url)
        database = await open_database(url, name="bench", timeout=120)
        await HistoryStore(database).make_partitions(system_now())
        made = Installation(url, database)
        try:
            yield made
        finally:
            await made.stop()
            await database.close()
    finally:
        await server.stop()
        shutil.rmtree(directory, ignore_errors=True)
