"""db-scheduler: jobs in PostgreSQL, workers in Java."""

from bench.peers.driven import PostgresPeer
from bench.peers.environment import java_project


class DbScheduler(PostgresPeer):
    name = "db-scheduler"
    version = "16.12.0"
    settings = "1 process, 50 threads, pollUsingLockAndFetch(1.0, 4.0), pollingInterval 100 ms (default 10 s), HikariCP"
    unfair = (
        "a library in one process here, which shares 2 cores with the server, and its code is warm only after some"
        " seconds; finished jobs are deleted, there is no history"
    )
    enqueue_rate = 2_000.0
    count_pending = "SELECT count(*) FROM scheduled_tasks"

    async def install(self) -> None:
        self.command, self.home = await java_project("db_scheduler")
