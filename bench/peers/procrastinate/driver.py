"""Procrastinate: see bench/peers/driven.py for the commands."""

import asyncio
from datetime import UTC, datetime
from typing import Any

import record
from procrastinate import App, PsycopgConnector

CONCURRENCY = 20
POLL = 0.1


async def main() -> None:
    command, options = record.arguments()
    app = App(
        connector=PsycopgConnector(conninfo=options["store"], max_size=options.get("clients", CONCURRENCY))
    )
    async with app.open_async():
        match command:
            case "create":
                await create(app, options)
            case "enqueue":
                await enqueue(app, options)
            case "work" | "recur":
                await work(app, options)


async def create(app: App, options: dict[str, Any]) -> None:
    await app.schema_manager.apply_schema_async()
    began = record.now()
    await record.by_clients(options, lambda due: deferrer(app, due).defer_async(**record.payload(due)))
    record.report(began)


async def enqueue(app: App, options: dict[str, Any]) -> None:
    """A batch is due at one instant."""
    await app.schema_manager.apply_schema_async()
    began = record.now()
    for dues in record.bulks(options):
        if options["spread"]:
            for due in dues:
                await deferrer(app, due).defer_async(**record.payload(due))
        else:
            await deferrer(app, dues[0]).batch_defer_async(*(record.payload(due) for due in dues))
    record.report(began)


async def work(app: App, options: dict[str, Any]) -> None:
    note = record.recorder(options["starts"])

    @app.task(name="noop")
    async def noop(due: float, text: str) -> None:  # noqa: ARG001 - the text is payload
        note(due)

    @app.task(name="fire")
    async def fire(timestamp: int) -> None:
        note(timestamp * 1000.0)

    if count := options.get("count", 0):
        await app.schema_manager.apply_schema_async()
        for number in range(count):
            app.periodic(cron="* * * * *", periodic_id=f"every-minute-{number}")(fire)
    record.go()
    if count:
        record.set_up()
    await app.run_worker_async(concurrency=CONCURRENCY, fetch_job_polling_interval=POLL)


def deferrer(app: App, due: float) -> Any:
    return app.configure_task("noop", schedule_at=datetime.fromtimestamp(due / 1000, UTC))


if __name__ == "__main__":
    asyncio.run(main())
