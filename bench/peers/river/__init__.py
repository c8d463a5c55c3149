"""River: jobs in PostgreSQL, workers in Go."""

from bench.peers.driven import PostgresPeer
from bench.peers.environment import go_project


class River(PostgresPeer):
    name = "River"
    version = "0.50.0"
    settings = "1 process, MaxWorkers 1000, FetchCooldown 1 ms, FetchPollInterval 100 ms (default 1 s)"
    unfair = (
        "jobs known ahead are made available by a step every 5 s, which cannot be set; finished jobs are marked in batches"
        " every 50 ms, so a crash runs those of a batch again; recurring jobs are given at the start of the process"
    )
    count_pending = "SELECT count(*) FROM river_job WHERE state <> 'completed'"

    async def install(self) -> None:
        self.command, self.home = await go_project("river")
