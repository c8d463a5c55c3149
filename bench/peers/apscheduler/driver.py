"""APScheduler 3: see bench/peers/driven.py for the commands."""

import threading
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import record
from apscheduler.executors.pool import ThreadPoolExecutor
from apscheduler.jobstores.sqlalchemy import SQLAlchemyJobStore
from apscheduler.schedulers.background import BackgroundScheduler

note: Callable[[float], None]  # jobs are stored by the name of their function, so they find it in the module


def main() -> None:
    global note  # noqa: PLW0603 - see above
    command, options = record.arguments()
    scheduler = BackgroundScheduler(
        jobstores={
            "default": SQLAlchemyJobStore(options["store"].replace("postgresql:", "postgresql+psycopg:"))
        },
        executors={"default": ThreadPoolExecutor(10)},
        job_defaults={"misfire_grace_time": None},
        timezone=UTC,
    )
    match command:
        case "create" | "enqueue":
            scheduler.start(paused=True)
            began = record.now()
            for due in record.some_dues(options):
                scheduler.add_job(noop, "date", run_date=instant(due), kwargs=record.payload(due))
            record.report(began)
        case "work":
            note = record.recorder(options["starts"])
            record.go()
            scheduler.start()
            threading.Event().wait()
        case "recur":
            note = record.recorder(options["starts"])
            record.go()
            recur(scheduler, options)
            threading.Event().wait()


def recur(scheduler: BackgroundScheduler, options: dict[str, Any]) -> None:
    scheduler.start(paused=True)
    text = record.payload(0)["text"]
    for _ in range(options["count"]):
        scheduler.add_job(fire, "cron", minute="*", kwargs={"text": text})
    scheduler.resume()
    record.set_up()


def noop(due: float, text: str) -> None:  # noqa: ARG001 - the text is payload
    note(due)


def fire(text: str) -> None:  # noqa: ARG001 - the text is payload
    note(record.this_minute())


def instant(due: float) -> datetime:
    return datetime.fromtimestamp(due / 1000, UTC)


if __name__ == "__main__":
    main()
