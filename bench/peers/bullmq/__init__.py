"""BullMQ: jobs in Redis, workers in Node."""

from bench.peers.environment import node_project
from bench.peers.redis import REDIS, RedisPeer


class BullMQ(RedisPeer):
    name = "BullMQ"
    version = "6.7.0"
    settings = f"1 process, concurrency 200, removeOnComplete; {REDIS}"
    unfair = (
        "a second of work may be lost when the machine dies, where PostgreSQL loses none; finished jobs are removed;"
        " a recurring fire counts from the minute it started in"
    )
    clients = 16
    enqueue_rate = 6_000.0
    pending_commands = (
        ("LLEN", "bull:noop:wait"),
        ("LLEN", "bull:noop:active"),
        ("ZCARD", "bull:noop:delayed"),
        ("ZCARD", "bull:noop:failed"),
    )

    async def install(self) -> None:
        await super().install()
        self.command, self.home = await node_project("bullmq")
