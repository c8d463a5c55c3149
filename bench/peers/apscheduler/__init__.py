"""APScheduler 3: jobs in PostgreSQL, one process of Python that schedules and runs them."""

from bench.peers.driven import PostgresPeer
from bench.peers.environment import python_project


class APScheduler(PostgresPeer):
    name = "APScheduler"
    version = "3.11.3"
    settings = "1 process, SQLAlchemy job store, 10 threads, misfire_grace_time None (the default of 1 s drops late jobs)"
    unfair = (
        "a library in one process: it sees nothing that another process adds, keeps no record of a run, does not retry,"
        " and removes a job before it runs; it has no creation in bulk"
    )
    measures = frozenset({"single", "drain", "herd", "spread", "recurring"})
    clients = 1
    enqueue_rate = 350.0
    from_go = True
    count_pending = "SELECT count(*) FROM apscheduler_jobs"

    async def install(self) -> None:
        self.command, self.home = await python_project("apscheduler")
