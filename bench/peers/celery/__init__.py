"""Celery: jobs in Redis, workers in Python."""

from bench.peers.environment import python_project
from bench.peers.redis import REDIS, RedisPeer


class Celery(RedisPeer):
    name = "Celery"
    version = "5.7.0"
    settings = (
        "drain: 2 processes with the solo pool; jobs known ahead and recurring ones: 1 process with a prefork pool of 2;"
        f" no result backend, no events; {REDIS}"
    )
    unfair = (
        "a task is acknowledged before it runs, so a crash loses it; a worker takes all tasks with an instant into its"
        " memory ahead of time; a second of work may be lost when the machine dies; schedules are given at the start of"
        " the process; it has no creation in bulk"
    )
    measures = frozenset({"single", "drain", "herd", "spread", "recurring"})
    processes = 2
    processes_ahead = 1
    clients = 1
    enqueue_rate = 600.0
    pending_commands = (("LLEN", "celery"), ("HLEN", "unacked"))

    async def install(self) -> None:
        await super().install()
        self.command, self.home = await python_project("celery")
