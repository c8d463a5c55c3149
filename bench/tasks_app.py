"""The tasks that are measured. They do nothing but note when they were due and when they began, as the jobs
of the peers do (`bench.peers.record`). Workers and their children import this module."""

import os
from collections.abc import Callable
from functools import cache

from bench.peers import record
from tocsin import App, current

app = App("bench")


@cache
def recorder(process: int) -> Callable[[float], None]:
    """Each process notes its own starts, in a file of its own."""
    return record.recorder(f"{os.environ['BENCH_STARTS']}/{process}")


def _note() -> None:
    recorder(os.getpid())(current().fire_at.timestamp() * 1000)


@app.task
def noop(due: float, text: str) -> None:  # noqa: ARG001 - both are payload
    _note()


@app.task
async def noop_async(due: float, text: str) -> None:  # noqa: ARG001
    _note()


@app.task(run="process")
def noop_process(due: float, text: str) -> None:  # noqa: ARG001
    _note()
