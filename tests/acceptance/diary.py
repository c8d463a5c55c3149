"""The app of the tests with real workers: its tasks write down that they ran, each line in one write."""

import asyncio
import os
import time

from tocsin import App, Retry, current

app = App("diary")


def _note(number: int) -> None:
    context = current()
    line = f"{number} {context.execution_id} {context.attempt} {os.getpid()}\n"
    with open(os.environ["TOCSIN_DIARY"], "ab", buffering=0) as diary:  # noqa: PTH123
        diary.write(line.encode())


@app.task(timeout="20s")
def write(number: int) -> int:
    """A thread's entry."""
    _note(number)
    time.sleep(0.02)
    return number


@app.task(timeout="20s")
async def write_async(number: int) -> int:
    """A coroutine's entry."""
    _note(number)
    await asyncio.sleep(0.02)
    return number


@app.task(run="process", timeout="1s", retry=Retry(max_attempts=1))
def hang(seconds: float) -> None:
    """Keeps the interpreter busy in one call into C, as no thread could be stopped in."""
    current().log.info("hanging")
    sum(range(int(seconds * 100_000_000)))


@app.task(timeout="1m")
def wait_for_stop() -> None:
    """Works until it is asked to stop."""
    context = current()
    context.progress(0.5, "waiting")
    while True:
        context.check()
        time.sleep(0.01)
