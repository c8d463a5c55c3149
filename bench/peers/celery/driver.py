"""Celery: see bench/peers/driven.py for the commands. The store is the path of the Redis server's Unix
socket."""

import os
from collections.abc import Callable
from datetime import UTC, datetime
from functools import cache
from typing import Any

import record
from celery import Celery
from celery.schedules import crontab

QUIET = ["--loglevel", "ERROR", "--without-gossip", "--without-mingle", "--without-heartbeat"]
SOLO = ["--pool", "solo"]
PREFORK = ["--pool", "prefork", "--concurrency", "2"]

command, options = record.arguments()
app = Celery(broker=f"redis+socket://{options['store']}")
app.conf.update(task_ignore_result=True, timezone="UTC")


@cache
def recorder(process: int) -> Callable[[float], None]:
    """Each process of a pool notes its own starts."""
    return record.recorder(f"{options['starts']}-{process}")


@app.task(name="noop")  # type: ignore[untyped-decorator]
def noop(due: float | None, text: str) -> None:  # noqa: ARG001 - the text is payload
    recorder(os.getpid())(due or record.this_minute())


def main() -> None:
    match command:
        case "create" | "enqueue":
            began = record.now()
            for due in record.some_dues(options):
                noop.apply_async(kwargs=record.payload(due), **when(due))
            record.report(began)
        case "work":
            record.go()
            app.worker_main(
                ["worker", *(PREFORK if "ahead" in options else SOLO), *QUIET, "--hostname", str(os.getpid())]
            )
        case "recur":
            app.conf.beat_schedule = {
                f"every-minute-{number}": every_minute() for number in range(options["count"])
            }
            record.go()
            record.set_up()
            app.worker_main(["worker", "--beat", "--scheduler", "celery.beat:Scheduler", *PREFORK, *QUIET])


def when(due: float) -> dict[str, Any]:
    """What is due already has no instant: Celery holds such a task back in its worker."""
    return {"eta": datetime.fromtimestamp(due / 1000, UTC)} if due > record.now() else {}


def every_minute() -> dict[str, Any]:
    return {"task": "noop", "schedule": crontab(), "kwargs": record.payload(0)}


if __name__ == "__main__":
    main()
