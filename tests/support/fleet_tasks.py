"""Tasks for a worker of the fleet: `tocsin worker --app tests.support.fleet_tasks:app`."""

import asyncio
import os
import time
from collections.abc import AsyncIterator

from tocsin import App, Postpone, Rejected, RetryAfter, Skip, current

app = App("fleet")


@app.lifespan
async def resources(app: App) -> AsyncIterator[str]:
    yield f"state of {app.name}"


@app.task
def plain(number: int) -> dict[str, object]:
    context = current()
    context.log.info("begins", number=number)
    context.progress(0.5, "half way")
    return {"number": number, "pid": os.getpid(), "state": context.state, "queue": context.queue}


@app.task
async def coroutine(number: int) -> int:
    await asyncio.sleep(0)
    return number + 1


@app.task(run="process")
def child(number: int) -> dict[str, int]:
    return {"number": number, "pid": os.getpid()}


@app.task
def ends(how: str) -> str:
    match how:
        case "rejected":
            raise Rejected("no such customer")
        case "skipped":
            raise Skip("empty")
        case "again" if current().attempt == 1:
            raise RetryAfter("10ms")
        case "postponed" if time.time() - current().fire_at.timestamp() < 0.3:
            raise Postpone("300ms", "not yet")
    return f"attempt {current().attempt}"


@app.task(timeout="300ms")
def hangs() -> None:
    while True:
        time.sleep(0.01)


@app.task
async def waits() -> None:
    current().log.info("waits")
    await asyncio.sleep(600)
