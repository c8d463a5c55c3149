"""PgQueuer: see bench/peers/driven.py for the commands."""

import json
from datetime import timedelta
from typing import Any

import asyncpg
import record
import uvloop
from pgqueuer import PgQueuer
from pgqueuer.db import AsyncpgDriver, AsyncpgPoolDriver
from pgqueuer.models import Job, Schedule
from pgqueuer.queries import Queries

BATCH = 1000


async def main() -> None:
    command, options = record.arguments()
    match command:
        case "create":
            async with asyncpg.create_pool(
                options["store"], min_size=options["clients"], max_size=options["clients"]
            ) as pool:
                await create(Queries(AsyncpgPoolDriver(pool)), options)
        case "enqueue":
            await enqueue(Queries(AsyncpgDriver(await asyncpg.connect(options["store"]))), options)
        case "work" | "recur":
            await work(AsyncpgDriver(await asyncpg.connect(options["store"])), options)


async def create(queries: Queries, options: dict[str, Any]) -> None:
    await queries.install()
    began = record.now()
    await record.by_clients(options, lambda due: queries.enqueue("noop", encoded(due), 0, until(due)))
    record.report(began)


async def enqueue(queries: Queries, options: dict[str, Any]) -> None:
    await queries.install()
    began = record.now()
    for dues in record.bulks(options):
        payloads: list[bytes | None] = [encoded(due) for due in dues]
        names, priorities = ["noop"] * len(dues), [0] * len(dues)
        await queries.enqueue(names, payloads, priorities, [until(due) for due in dues])
    record.report(began)


async def work(driver: AsyncpgDriver, options: dict[str, Any]) -> None:
    queuer, note = PgQueuer(driver), record.recorder(options["starts"])

    @queuer.entrypoint("noop")
    async def noop(job: Job) -> None:
        note(job.execute_after.timestamp() * 1000)

    for number in range(options.get("count", 0)):

        @queuer.schedule(f"every_minute_{number}", "* * * * *")
        async def fire(_: Schedule) -> None:
            note(record.this_minute())

    if options.get("count"):
        await Queries(driver).install()
    record.go()
    if options.get("count"):
        record.set_up()
    await queuer.run(batch_size=BATCH)


def encoded(due: float) -> bytes:
    return json.dumps(record.payload(due)).encode()


def until(due: float) -> timedelta:
    """The server adds this to its own clock."""
    return timedelta(milliseconds=max(0.0, due - record.now()))


if __name__ == "__main__":
    uvloop.run(main())
