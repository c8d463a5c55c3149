"""graphile-worker: jobs in PostgreSQL, workers in Node."""

from bench.peers.driven import PostgresPeer
from bench.peers.environment import node_project


class GraphileWorker(PostgresPeer):
    name = "graphile-worker"
    version = "0.18.0"
    settings = (
        "2 processes, concurrentJobs 24, localQueue.size 500, completeJobBatchDelay 0,"
        " pollInterval 100 ms (default 2 s)"
    )
    unfair = (
        "a crash loses the marks of finished jobs in a batch and runs them again; finished jobs are deleted, there is no"
        " history; recurring schedules are given at the start of the process, and its minute is told by one process"
    )
    processes = 2
    count_pending = "SELECT count(*) FROM graphile_worker._private_jobs"

    async def install(self) -> None:
        self.command, self.home = await node_project("graphile_worker")
