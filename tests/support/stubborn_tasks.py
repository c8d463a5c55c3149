"""Tasks that do not end when they are asked to, and one that blocks its event loop."""

import asyncio
import os
import time
from pathlib import Path

from tocsin import App, Retry

app = App("stubborn")
ONCE = Retry(max_attempts=1)


@app.task(timeout="300ms", retry=ONCE)
def sleeps() -> None:
    """A thread in a call into C cannot be stopped."""
    time.sleep(600)


@app.task(timeout="300ms", retry=ONCE)
async def swallows() -> None:
    """A coroutine that swallows its cancellation cannot be stopped either."""
    while True:
        try:
            await asyncio.sleep(600)
        except asyncio.CancelledError:
            continue


@app.task(run="process", timeout="300ms", retry=ONCE)
def writes_on(page: str) -> None:
    """A child that swallows whatever is raised in it, and says when it ran."""
    while True:
        try:
            with Path(page).open("a") as file:
                file.write(f"{os.getpid()} {time.monotonic()}\n")
            time.sleep(0.01)
        except BaseException:  # noqa: BLE001 - it is this stubborn
            continue


@app.task(timeout="2m")
async def blocks(until: str) -> int:
    """Blocks the event loop until a file is there."""
    while not Path(until).exists():
        time.sleep(0.01)
    return os.getpid()
