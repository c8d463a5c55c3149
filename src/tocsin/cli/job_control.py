"""`tocsin jobs pause` and the other commands that stop, start and fire a job."""

from collections.abc import Callable
from typing import Any

import click

from tocsin.cli.client import Client
from tocsin.cli.lookup import job_id
from tocsin.cli.show import api_command, fields, line, rows, say
from tocsin.domain.policy import MisfirePolicy

_job = click.argument("job")
_reason = click.option("--reason", help="Why, for the record.")
_dry_run = click.option(
    "--dry-run", is_flag=True, help="Change nothing; say what would be called off or held."
)


@click.command()
@_job
@_reason
@_dry_run
@api_command
def cancel(client: Client, job: str, **body: Any) -> tuple[Any, Any]:
    """End a job: none of its executions starts any more."""
    return client.post("jobs", job_id(client, job), "cancel", body=body), _ended("cancelled")


@click.command("cancel-queued")
@_job
@_reason
@_dry_run
@api_command
def cancel_queued(client: Client, job: str, **body: Any) -> tuple[Any, Any]:
    """Cancel every execution that has not started; the job continues."""
    return client.post("jobs", job_id(client, job), "cancel-queued", body=body), _queue_cleared


@click.command()
@_job
@_reason
@click.option("--until", metavar="INSTANT", help="Resume automatically at this instant: 2030-01-31T09:00:00Z")
@_dry_run
@api_command
def pause(client: Client, job: str, **body: Any) -> tuple[Any, Any]:
    """Pause a job's fires."""
    words = (
        "would hold {held} planned executions"
        if body["dry_run"]
        else "paused; {held} planned executions held"
    )
    return client.post("jobs", job_id(client, job), "pause", body=body), say(words)


@click.command()
@_job
@click.option("--dry-run", is_flag=True, help="Change nothing; say which missed fires would run.")
@click.option(
    "--misfire",
    type=click.Choice([str(one) for one in MisfirePolicy]),
    help="Apply this misfire policy, this once.  [default: the job's own policy]",
)
@api_command
def resume(client: Client, job: str, **body: Any) -> tuple[Any, Any]:
    """Resume a paused job."""
    return client.post("jobs", job_id(client, job), "resume", body=body), _resumed


@click.command()
@_job
@click.option("--override-overlap", is_flag=True, help="Run although an earlier execution still runs.")
@api_command
def run(client: Client, job: str, override_overlap: bool) -> tuple[Any, Any]:
    """Fire a job now."""
    body = {"override_overlap": override_overlap}
    return client.post("jobs", job_id(client, job), "run", body=body), fields


@click.command("skip-next")
@_job
@api_command
def skip_next(client: Client, job: str) -> tuple[Any, Any]:
    """Skip the next fire of a job."""
    return client.post("jobs", job_id(client, job), "skip-next"), say("the fire at {skipped} is left out")


@click.command()
@_job
@_dry_run
@api_command
def delete(client: Client, job: str, dry_run: bool) -> tuple[Any, Any]:
    """Delete a job; its history stays."""
    query = {"dry_run": "true"} if dry_run else {}
    return client.delete("jobs", job_id(client, job), **query), _ended("deleted")


def _ended(what: str) -> Callable[[Any], None]:
    """A view of what became of a job's executions when it ended."""
    words = what + "; {cancelled} executions called off, {asked_to_stop} running ones asked to stop"
    return lambda answer: line(_tense(answer) + words.format(**answer) + _not_retried(answer))


def _tense(answer: Any) -> str:
    return "would be " if answer["dry_run"] else ""


def _queue_cleared(answer: Any) -> None:
    words = "would be called off" if answer["dry_run"] else "called off"
    line(f"{answer['cancelled']} executions {words}{_not_retried(answer)}; the job goes on")


def _not_retried(answer: Any) -> str:
    """Executions that had been called before are worth a word, if there were any."""
    return f", {answer['not_retried']} not tried again" if answer["not_retried"] else ""


def _resumed(answer: Any) -> None:
    if answer["dry_run"]:
        line(f"would run {answer['fired']:,} missed fires now and skip {answer['skipped']:,}")
    else:
        line(f"resumed; {answer['fired']:,} missed fires run now, {answer['skipped']:,} skipped")
    if answer["fire_times"]:
        rows([("MISSED FIRES THAT RUN", "fire_at")], [{"fire_at": time} for time in answer["fire_times"]])
    if answer["fired"] > len(answer["fire_times"]):
        line(f"… and {answer['fired'] - len(answer['fire_times']):,} more")
