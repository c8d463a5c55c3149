"""`tocsin import …`: jobs of other schedulers, taken over by name.

A dry run needs no server: it shows what each job would be, in words and with its next fires, and what cannot
be taken over. Importing is idempotent by name. A job that came from somewhere else keeps its name: it is not
overwritten unless the user says so.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Final, TextIO

import click

from tocsin.cli.client import ApiError, Client
from tocsin.cli.groups import Group
from tocsin.cli.importing.commands import Commands
from tocsin.cli.importing.reading import Found, Left, Reading, Unfit, left_of
from tocsin.cli.local_preview import preview_of
from tocsin.cli.schedule_options import Decorator, with_options
from tocsin.cli.show import Connect, line, local_command, rows
from tocsin.domain.errors import Refused

_SHOWN_FIRES: Final = 2
_FILE: Final = click.argument("file", type=click.File("r", encoding="utf-8"))
_ZONE: Final = click.option(
    "--time-zone", metavar="ZONE", help="IANA time zone of entries that name none.  [default: UTC]"
)
_OPTIONS: Final[tuple[Decorator, ...]] = (
    click.option("--prefix", default="", metavar="TEXT", help="Prefix every name with this."),
    click.option("--queue", help="The queue of all imported jobs.  [default: default]"),
    click.option("--overwrite", is_flag=True, help="Replace jobs of the same name that came from elsewhere."),
    click.option(
        "--dry-run", is_flag=True, help="Create nothing, call no server; show what would be imported."
    ),
)


@click.group("import", cls=Group)
def import_() -> None:
    """Import jobs from other schedulers.

    What cannot be taken over is listed with the reason. Importing a file again changes what changed in it.
    Ends with exit code 1 if something was not taken over.

    \b
    Examples:
      crontab -l | tocsin import crontab --dry-run --time-zone Europe/Berlin -
      tocsin import crontab --system /etc/crontab
      kubectl get cronjobs -A -o yaml | tocsin import kubernetes --commands task -
      tocsin import celery-beat shop/celery.py
    """


@import_.command()
@_FILE
@click.option("--system", is_flag=True, help="Read a user name before each command, as in /etc/crontab.")
@_ZONE
@click.option(
    "--commands",
    type=click.Choice([str(one) for one in Commands]),
    default=str(Commands.SCRIPT),
    show_default=True,
    help="What becomes of commands other than curl and wget. Scripts only where the installation runs them.",
)
@with_options(*_OPTIONS)
@local_command
def crontab(
    connect: Connect, file: TextIO, system: bool, time_zone: str | None, commands: str, **rest: Any
) -> Any:
    """Import a crontab; curl and wget lines become HTTP targets.

    A comment "# name: report" names the entry below it. FILE may be "-" for standard input.
    """
    from tocsin.cli.importing.crontab import read_crontab  # noqa: PLC0415 - each form loads its own reader

    def read(text: str) -> Reading:
        return read_crontab(text, system=system, time_zone=time_zone, commands=Commands(commands))

    return _run(connect, "crontab", file, read, **rest)


@import_.command()
@_FILE
@_ZONE
@click.option(
    "--commands",
    type=click.Choice([str(Commands.TASK), str(Commands.SKIP)]),
    default=str(Commands.SKIP),
    show_default=True,
    help="What becomes of containers that do not call curl or wget.",
)
@with_options(*_OPTIONS)
@local_command
def kubernetes(connect: Connect, file: TextIO, time_zone: str | None, commands: str, **rest: Any) -> Any:
    """Import CronJobs, as YAML or JSON."""
    from tocsin.cli.importing.kubernetes import read_cron_jobs  # noqa: PLC0415 - only this form needs YAML

    def read(text: str) -> Reading:
        return read_cron_jobs(text, time_zone=time_zone, commands=Commands(commands))

    return _run(connect, "kubernetes", file, read, **rest)


@import_.command("celery-beat")
@_FILE
@_ZONE
@with_options(*_OPTIONS)
@local_command
def celery_beat(connect: Connect, file: TextIO, time_zone: str | None, **rest: Any) -> Any:
    """Import the beat schedule of a module, which is not run, or a dump of django-celery-beat."""
    from tocsin.cli.importing.celery_beat import read_beat  # noqa: PLC0415 - each form loads its own reader

    return _run(connect, "celery-beat", file, lambda text: read_beat(text, time_zone=time_zone), **rest)


@import_.command()
@_FILE
@with_options(*_OPTIONS)
@local_command
def eventbridge(connect: Connect, file: TextIO, **rest: Any) -> Any:
    """Import schedules of EventBridge Scheduler: JSON of get-schedule, one or a list."""
    from tocsin.cli.importing.eventbridge import read_schedules  # noqa: PLC0415 - each form loads its own reader

    return _run(connect, "eventbridge", file, read_schedules, **rest)


@import_.command()
@_FILE
@_ZONE
@with_options(*_OPTIONS)
@local_command
def apscheduler(connect: Connect, file: TextIO, time_zone: str | None, **rest: Any) -> Any:
    """Import the add_job and scheduled_job calls of a module; the module is not run."""
    from tocsin.cli.importing.apscheduler import read_module  # noqa: PLC0415 - each form loads its own reader

    return _run(connect, "apscheduler", file, lambda text: read_module(text, time_zone=time_zone), **rest)


@import_.command()
@_FILE
@_ZONE
@with_options(*_OPTIONS)
@local_command
def quartz(connect: Connect, file: TextIO, time_zone: str | None, **rest: Any) -> Any:
    """Import the triggers of a job-scheduling-data file (XML)."""
    from tocsin.cli.importing.quartz import read_quartz  # noqa: PLC0415 - only this form needs XML

    return _run(connect, "quartz", file, lambda text: read_quartz(text, time_zone=time_zone), **rest)


@dataclass
class _Report:
    """What becomes of what was read."""

    source: str
    jobs: list[dict[str, Any]]
    left: list[Left]
    notes: tuple[str, ...]
    dry_run: bool

    def answer(self) -> dict[str, Any]:
        left = [
            {"where": one.where, "what": one.what, "why": one.why, "hint": one.hint or None}
            for one in self.left
        ]
        return {"dry_run": self.dry_run, "jobs": self.jobs, "not_taken_over": left, "notes": list(self.notes)}


def _run(
    connect: Connect,
    source: str,
    file: TextIO,
    read: Callable[[str], Reading],
    *,
    prefix: str,
    queue: str | None,
    overwrite: bool,
    dry_run: bool,
) -> tuple[Any, Any, int]:
    try:
        reading = read(file.read())
    except Unfit as unfit:
        raise click.ClickException(f"{file.name}: {unfit.why}") from None
    except UnicodeDecodeError:
        raise click.ClickException(f"{file.name}: not UTF-8") from None
    report = _Report(source, [], list(reading.left), reading.notes, dry_run)
    take = None if dry_run else _Taker(connect(), overwrite).take
    for found in reading.found:
        job = {"name": prefix + found.name, "tags": [f"imported:{source}"]} | found.job
        _take(replace(found, job=job | ({"queue": queue} if queue else {})), take, report)
    return report.answer(), _show, 1 if report.left else 0


def _take(found: Found, take: Callable[[Found], str] | None, report: _Report) -> None:
    try:
        when = preview_of(found.job["schedule"], _SHOWN_FIRES)
        outcome = "would be taken over" if take is None else take(found)
    except (Refused, Unfit) as error:
        report.left.append(left_of(found.where, found.job["name"], error))
        return
    report.jobs.append(
        {
            "name": found.job["name"],
            "where": found.where,
            "outcome": outcome,
            "words": when["explanation"],
            "fires": [fire["at"] for fire in when["fires"]],
            "notes": [
                *found.notes,
                *when["warnings"],
                *(["suspended: it will be paused"] if found.suspended else []),
            ],
            "job": found.job,
        }
    )


class _Taker:
    """Writes jobs to the API."""

    def __init__(self, client: Client, overwrite: bool) -> None:
        self._client = client
        self._overwrite = overwrite

    def take(self, found: Found) -> str:
        """Create a job or make it what was found. What the API refuses is `Unfit`; without an answer, the
        import ends."""
        try:
            for name, value in found.secrets.items():
                self._client.put("secrets", name, body={"value": value})
            return self._recurring(found) if found.recurring else self._once(found)
        except ApiError as error:
            if error.undecided or error.status in (401, 403, 429):
                raise
            why, _, hint = error.message.partition("\nHint: ")
            raise Unfit(why, hint) from None

    def _recurring(self, found: Found) -> str:
        name = found.job["name"]
        before = self._by_name(name)
        if before is not None and not self._overwrite and not set(found.job["tags"]) <= set(before["tags"]):
            raise Unfit(
                "another job has this name, and it was not imported",
                "--prefix makes names differ; --overwrite replaces it",
            )
        after = self._client.put("jobs", "by-name", name, body=found.job)
        if before is None:
            self._hold(found, after)
            return "created"
        return "unchanged" if before["version"] == after["version"] else "changed"

    def _once(self, found: Found) -> str:
        name = found.job["name"]
        there = self._client.get("jobs", name=name, kind="once", tag=found.job["tags"][0])["items"]
        if any(one["name"] == name for one in there):
            return "unchanged"
        self._hold(found, self._client.post("jobs", body=found.job))
        return "created"

    def _by_name(self, name: str) -> Any:
        try:
            return self._client.get("jobs", "by-name", name)
        except ApiError as error:
            if error.status != 404:
                raise
        return None

    def _hold(self, found: Found, job: Any) -> None:
        if found.suspended:
            self._client.post(
                "jobs", job["id"], "pause", body={"reason": "it was suspended where it came from"}
            )


def _show(answer: Any) -> None:
    jobs = [
        one
        | {
            "target": _target_words(one["job"]["target"]),
            "next_at": one["fires"][0] if one["fires"] else None,
            "then_at": one["fires"][1] if len(one["fires"]) > 1 else None,
        }
        for one in answer["jobs"]
    ]
    if jobs:
        columns = [
            ("NAME", "name"),
            ("WHEN", "words"),
            ("NEXT FIRE", "next_at"),
            ("THEN", "then_at"),
            ("TARGET", "target"),
        ]
        rows([*columns, *([] if answer["dry_run"] else [("OUTCOME", "outcome")])], jobs)
    for one in jobs:
        for note in one["notes"]:
            line(f"{one['name']}: {note}", "yellow")
    if answer["not_taken_over"]:
        line("not taken over:", "bold")
        rows(
            [("WHERE", "where"), ("WHAT", "what"), ("WHY", "why"), ("HINT", "hint")], answer["not_taken_over"]
        )
    for note in answer["notes"]:
        line(f"note: {note}", "yellow")
    line(
        f"{len(jobs)} {'can be taken over' if answer['dry_run'] else 'taken over'}, {len(answer['not_taken_over'])} not"
    )


def _target_words(target: Any) -> str:
    match target["kind"]:
        case "http":
            return f"{target['method']} {target['url']}"
        case "task":
            return f"task {target['task']}"
    return str(target["kind"])
