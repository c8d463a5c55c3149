"""Procrastinate: jobs in PostgreSQL, workers in Python."""

from bench.peers.driven import PostgresPeer
from bench.peers.environment import python_project


class Procrastinate(PostgresPeer):
    name = "Procrastinate"
    version = "3.10.0"
    settings = "2 processes, concurrency 20, fetch_job_polling_interval 0.1 s (default 5 s)"
    unfair = "it keeps finished jobs in its table; recurring schedules are given at the start of the process"
    processes = 2
    clients = 8
    enqueue_rate = 2_500.0
    count_pending = "SELECT count(*) FROM procrastinate_jobs WHERE status <> 'succeeded'"

    async def install(self) -> None:
        self.command, self.home = await python_project("procrastinate")
