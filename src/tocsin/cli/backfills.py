"""`tocsin backfills …`: run the fire times of a past range."""

import time
from typing import Any, Final

import click

from tocsin.cli.client import ApiError, Client
from tocsin.cli.groups import Group
from tocsin.cli.lookup import job_id
from tocsin.cli.progress import progress
from tocsin.cli.show import api_command, fields, line, rows, table, watched_command
from tocsin.domain.backfill import Mode, Order

_POLL: Final = 1.0
_PATIENCE: Final = 30  # polls without an answer: longer than a restart of the API takes
_TABLE = table(
    [
        ("ID", "id"),
        ("JOB", "job_name"),
        ("STATE", "state"),
        ("FROM", "from"),
        ("TO", "to"),
        ("MODE", "mode"),
        ("TOTAL", "total"),
        ("FINISHED", "finished"),
        ("LEFT OUT", "left_out"),
        ("LIVE", "live"),
    ]
)
_follow = click.option("--follow", is_flag=True, help="Wait until it ends, with a progress bar.")


@click.group(cls=Group)
def backfills() -> None:
    """Run the fire times of a past range.

    \b
    Examples:
      tocsin backfills create report --from 2026-01-01T00:00:00Z --to 2026-02-01T00:00:00Z --dry-run
      tocsin backfills create report --from 2026-01-01T00:00:00Z --to 2026-02-01T00:00:00Z --follow
      tocsin backfills list report
      tocsin backfills list --state running
      tocsin backfills show 7 --follow
    """


@backfills.command()
@click.argument("job")
@click.option(
    "--from", "from_", required=True, metavar="INSTANT", help="Fire times at or after this instant."
)
@click.option("--to", required=True, metavar="INSTANT", help="Fire times before this instant.")
@click.option(
    "--mode",
    type=click.Choice([str(one) for one in Mode]),
    help="All fire times, or only those that have not run.  [default: missing]",
)
@click.option(
    "--order",
    type=click.Choice([str(one) for one in Order]),
    help="Which end of the range comes first.  [default: oldest_first]",
)
@click.option("--pace", metavar="DURATION", help="The time between two starts.  [default: 0s]")
@click.option(
    "--max-parallel",
    type=click.IntRange(1, 10_000),
    metavar="N",
    help="The most executions under way at once.  [default: 10]",
)
@click.option("--dry-run", is_flag=True, help="Run nothing; list the fire times of the range.")
@_follow
@api_command
def create(
    client: Client, job: str, from_: str, follow: bool, **options: Any
) -> tuple[Any, Any] | tuple[Any, Any, int]:
    """Run a job's fire times between two instants of the past."""
    if follow and options["dry_run"]:
        raise click.UsageError("a dry run leaves nothing to --follow")
    body = {"from": from_} | {name: value for name, value in options.items() if value is not None}
    answer = client.post("jobs", job_id(client, job), "backfills", body=body)
    if not follow:
        return answer, _created
    answer["backfill"] = _followed(client, str(answer["backfill"]["id"]))
    return answer, _created, _exit_code(answer["backfill"])


@backfills.command("list")
@click.argument("job", required=False)
@click.option(
    "--state", type=click.Choice(["running", "completed", "cancelled"]), help="Backfills in this state."
)
@click.option("--limit", type=click.IntRange(1, 500), default=50, show_default=True)
@click.option("--cursor", help="Continue a listing.")
@watched_command
def list_backfills(client: Client, job: str | None, state: str | None, **page: Any) -> tuple[Any, Any]:
    """List the backfills of a job, or of all jobs, newest first."""
    if job is None:
        return client.get("backfills", state=state, **page), _TABLE
    if state is not None:
        raise click.UsageError("--state is for the backfills of all jobs")
    return client.get("jobs", job_id(client, job), "backfills", **page), _TABLE


@backfills.command()
@click.argument("backfill_id")
@_follow
@watched_command
def show(client: Client, backfill_id: str, follow: bool) -> tuple[Any, Any] | tuple[Any, Any, int]:
    """Show a backfill and its progress."""
    if not follow:
        return client.get("backfills", backfill_id), fields
    ended = _followed(client, backfill_id)
    return ended, fields, _exit_code(ended)


@backfills.command()
@click.argument("backfill_id")
@api_command
def cancel(client: Client, backfill_id: str) -> tuple[Any, Any]:
    """Stop a backfill; executions that have started continue."""
    return client.post("backfills", backfill_id, "cancel"), fields


def _followed(client: Client, backfill_id: str) -> Any:
    """The backfill once it is over."""
    try:
        with progress() as bar:
            task = bar.add_task(f"backfill {backfill_id}", total=None, words="")
            while True:
                found = _look(client, backfill_id)
                done = found["finished"] + found["left_out"]
                words = f"{done:,} of {found['total']:,}, {found['live']:,} live"
                bar.update(task, completed=done, total=found["total"], words=words)
                if found["state"] != "running":
                    return found
                time.sleep(_POLL)
    except KeyboardInterrupt:
        click.echo(f"the backfill goes on: tocsin backfills show {backfill_id} --follow", err=True)
        click.get_current_context().exit(130)


def _look(client: Client, backfill_id: str) -> Any:
    """The backfill as it stands, over a short absence of the API."""
    for left in reversed(range(_PATIENCE)):
        try:
            return client.get("backfills", backfill_id)
        except ApiError as error:
            if not (error.undecided and left):
                raise
            time.sleep(_POLL)
    raise AssertionError  # the last try returns or raises


def _exit_code(backfill: Any) -> int:
    return 0 if backfill["state"] == "completed" else 1


def _created(answer: Any) -> None:
    if answer["backfill"] is not None:
        fields(answer["backfill"])
        return
    line(f"the range has {answer['total']:,} fire times")
    if answer["fire_times"]:
        rows([("FIRE TIME", "fire_at")], [{"fire_at": time} for time in answer["fire_times"]])
    if answer["total"] > len(answer["fire_times"]):
        line(f"… and {answer['total'] - len(answer['fire_times']):,} more")
