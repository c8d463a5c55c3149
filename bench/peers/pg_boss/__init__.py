"""pg-boss: jobs in PostgreSQL, workers in Node."""

from bench.peers.driven import PostgresPeer
from bench.peers.environment import node_project


class PgBoss(PostgresPeer):
    name = "pg-boss"
    version = "12.35.0"
    settings = (
        "1 process, localConcurrency 2, batchSize 1000, burstWhenBatchFull, pollingIntervalSeconds 0.5 (its least),"
        " cronMonitorIntervalSeconds and cronWorkerIntervalSeconds 1 (their least)"
    )
    unfair = (
        "a batch is one call of the handler and one unit of failure; of cron schedules it forwards 50 per second at most,"
        " and a fire that is late counts from the minute it started in"
    )
    count_pending = "SELECT count(*) FROM pgboss.job WHERE name = 'noop' AND state <> 'completed'"

    async def install(self) -> None:
        self.command, self.home = await node_project("pg_boss")
