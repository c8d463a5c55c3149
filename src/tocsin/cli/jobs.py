"""`tocsin jobs …`."""

import json
from typing import Any

import click

from tocsin.cli.client import Client
from tocsin.cli.show import api_command, fields, say, table

_TABLE = table(
    [
        ("ID", "id"),
        ("NAME", "name"),
        ("KIND", "kind"),
        ("STATE", "state"),
        ("NEXT FIRE", "next_fire_at"),
        ("QUEUE", "queue"),
    ]
)


@click.group()
def jobs() -> None:
    """Create, list and control jobs."""


@jobs.command()
@click.option("--name", help="A name; unique among recurring jobs.")
@click.option("--at", help="Once, at this instant: 2030-01-31T09:00:00Z")
@click.option("--in", "in_", metavar="DURATION", help="Once, after this long: 90s, 5m, 1h30m")
@click.option("--now", is_flag=True, help="Once, now.")
@click.option("--every", metavar="DURATION", help="Again and again: 30s, 5m, 1d")
@click.option("--cron", metavar="EXPRESSION", help='By cron: "0 9 * * MON"')
@click.option("--time-zone", help="IANA time zone of --cron.  [default: UTC]")
@click.option("--target-url", metavar="URL", help="Call this HTTP target.  (--noop for none)")
@click.option("--method", default="POST", show_default=True, help="HTTP method.")
@click.option(
    "--header", "headers", multiple=True, metavar="NAME:VALUE", help="HTTP header; may be repeated."
)
@click.option("--body", help="HTTP body: JSON if it is JSON, else text.")
@click.option("--noop", is_flag=True, help="Do nothing, successfully: for trying things out.")
@click.option("--timeout", metavar="DURATION", help="How long an attempt may take.")
@click.option("--queue", help="Queue.  [default: default]")
@click.option("--priority", type=click.IntRange(0, 9), help="0 is the most urgent.  [default: 5]")
@click.option("--tag", "tags", multiple=True, help="Tag; may be repeated.")
@click.option("--max-attempts", type=int, help="Attempts in all.  [default: 5]")
@api_command
def create(client: Client, **options: Any) -> tuple[Any, Any]:
    """Create a job."""
    return client.post("jobs", body=_body(options)), fields


@jobs.command("list")
@click.option("--state", type=click.Choice(["active", "paused", "completed", "cancelled"]))
@click.option("--kind", type=click.Choice(["once", "recurring"]))
@click.option("--queue")
@click.option("--tag")
@click.option("--name", help="Part of the name, in any case.")
@click.option("--limit", type=click.IntRange(1, 500), default=50, show_default=True)
@click.option("--cursor", help="Continue a listing.")
@api_command
def list_jobs(client: Client, **options: Any) -> tuple[Any, Any]:
    """List jobs, newest first."""
    return client.get("jobs", **options), _TABLE


@jobs.command()
@click.argument("job_id")
@api_command
def show(client: Client, job_id: str) -> tuple[Any, Any]:
    """Show a job."""
    return client.get("jobs", job_id), fields


@jobs.command()
@click.argument("job_id")
@click.option("--reason")
@api_command
def cancel(client: Client, job_id: str, reason: str | None) -> tuple[Any, Any]:
    """End a job: nothing of it starts any more."""
    words = "cancelled; {cancelled} executions called off, {asked_to_stop} running ones asked to stop"
    return client.post("jobs", job_id, "cancel", body={"reason": reason}), say(words)


@jobs.command()
@click.argument("job_id")
@click.option("--reason")
@api_command
def pause(client: Client, job_id: str, reason: str | None) -> tuple[Any, Any]:
    """Hold a job's fires."""
    return client.post("jobs", job_id, "pause", body={"reason": reason}), say(
        "paused; {held} planned executions held"
    )


@jobs.command()
@click.argument("job_id")
@api_command
def resume(client: Client, job_id: str) -> tuple[Any, Any]:
    """Let a paused job fire again."""
    return client.post("jobs", job_id, "resume"), say(
        "resumed; {fired} missed fires run now, {skipped} skipped"
    )


@jobs.command()
@click.argument("job_id")
@api_command
def run(client: Client, job_id: str) -> tuple[Any, Any]:
    """Fire a job now."""
    return client.post("jobs", job_id, "run"), fields


@jobs.command()
@click.argument("job_id")
@api_command
def delete(client: Client, job_id: str) -> tuple[Any, Any]:
    """Delete a job; its history stays."""
    return client.delete("jobs", job_id), say("deleted; {cancelled} executions called off")


def _body(options: dict[str, Any]) -> dict[str, Any]:
    """The request that the options describe. The API checks it; here only what it could not see is refused."""
    if bool(options["target_url"]) == options["noop"]:
        raise click.UsageError("give --target-url, or --noop to try things out")
    names = ("at", "every", "cron", "time_zone")
    schedule = {name: options[name] for name in names if options[name] is not None}
    schedule |= {"in": options["in_"]} if options["in_"] is not None else {}
    schedule |= {"now": True} if options["now"] else {}
    body: dict[str, Any] = {
        "schedule": schedule,
        "target": {"kind": "noop"} if options["noop"] else _http_target(options),
    }
    body |= {
        name: options[name] for name in ("name", "timeout", "queue", "priority") if options[name] is not None
    }
    body |= {"tags": list(options["tags"])} if options["tags"] else {}
    body |= (
        {"retry": {"max_attempts": options["max_attempts"]}} if options["max_attempts"] is not None else {}
    )
    return body


def _http_target(options: dict[str, Any]) -> dict[str, Any]:
    target: dict[str, Any] = {
        "kind": "http",
        "url": options["target_url"],
        "method": options["method"].upper(),
    }
    if options["headers"]:
        target["headers"] = dict(map(_header, options["headers"]))
    if options["body"] is not None:
        try:
            target["body"] = json.loads(options["body"], parse_constant=_not_json)
        except ValueError:
            target["body"] = options["body"]
    return target


def _header(text: str) -> tuple[str, str]:
    name, colon, value = text.partition(":")
    if not colon:
        raise click.UsageError(f"--header {text!r} has no colon; write NAME:VALUE")
    return name.strip(), value.strip()


def _not_json(constant: str) -> None:
    """NaN and Infinity are Python's idea of JSON, nobody else's."""
    raise ValueError(constant)
