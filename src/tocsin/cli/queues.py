"""`tocsin queues …`: how deep queues are, and holding them."""

from typing import Any

import click

from tocsin.cli.client import Client
from tocsin.cli.groups import Group
from tocsin.cli.show import api_command, line, rows, watched_command

_group = click.option("--all-tenants", is_flag=True, help="The queues of all tenants; for operators' keys.")


@click.group(cls=Group)
def queues() -> None:
    """List, pause and resume queues.

    \b
    Examples:
      tocsin queues list
      tocsin queues show reports
      tocsin queues pause reports --reason "vendor down" --until 2030-01-31T09:00:00Z
      tocsin queues resume reports --dry-run
    """


@queues.command("list")
@_group
@watched_command
def list_queues(client: Client, all_tenants: bool) -> tuple[Any, Any]:
    """List queues: due and running executions, workers, pauses."""
    return client.get("queues", group="tenant" if all_tenants else None), _listed


@queues.command()
@click.argument("queue")
@_group
@watched_command
def show(client: Client, queue: str, all_tenants: bool) -> tuple[Any, Any]:
    """Show a queue and its due executions by priority."""
    return client.get("queues", queue, group="tenant" if all_tenants else None), _shown


@queues.command()
@click.argument("queue")
@click.option("--reason", help="Why, for the record.")
@click.option("--until", metavar="INSTANT", help="Resume automatically at this instant: 2030-01-31T09:00:00Z")
@api_command
def pause(client: Client, queue: str, **body: str | None) -> tuple[Any, Any]:
    """Pause a queue: its executions wait, and none is lost."""
    return client.post("queues", queue, "pause", body=body), _paused


@queues.command()
@click.argument("queue")
@click.option("--dry-run", is_flag=True, help="Change nothing; say how many executions would start.")
@api_command
def resume(client: Client, queue: str, dry_run: bool) -> tuple[Any, Any]:
    """Resume a paused queue."""
    return client.post("queues", queue, "resume", body={"dry_run": dry_run}), _resumed


def _listed(answer: Any) -> None:
    columns = [
        ("QUEUE", "name"),
        ("DUE", "due"),
        ("OLDEST", "oldest"),
        ("RUNNING", "running"),
        ("PER MINUTE", "rate"),
    ]
    if len({item["tenant"] for item in answer["items"]}) > 1:
        columns.insert(1, ("TENANT", "tenant"))
    rows([*columns, ("WORKERS", "workers"), ("PAUSED", "paused")], [_row(item) for item in answer["items"]])


def _shown(answer: Any) -> None:
    _listed({"items": [answer]})
    if answer["paused"]:
        line(_words(answer["paused"]), "yellow")
    if answer["depth"]:
        lanes = [
            {
                "priority": lane["priority"],
                "tenant": lane["tenant"],
                "due": _number(lane["due"]),
                "oldest": _age(lane["due"]),
            }
            for lane in answer["depth"]
        ]
        rows([("PRIORITY", "priority"), ("TENANT", "tenant"), ("DUE", "due"), ("OLDEST", "oldest")], lanes)


def _paused(answer: Any) -> None:
    line(f"paused; {answer['held']:,} executions taken back from workers, and nothing is lost")


def _resumed(answer: Any) -> None:
    words = "would start" if answer["dry_run"] else "resumed; starting"
    line(
        f"{words} {_number(answer['ready'])} executions; {_number(answer['missed'])} missed fires go by their misfire policies"
    )


def _row(item: Any) -> dict[str, Any]:
    return {
        "name": item["name"],
        "tenant": item["tenant"],
        "due": _number(item["due"]),
        "oldest": _age(item["due"]),
        "running": _number(item["running"]),
        "rate": item["per_minute"][-2],  # the last whole minute
        "workers": item["workers"],
        "paused": _words(item["paused"]) if item["paused"] else None,
    }


def _words(pause: Any) -> str:
    reason = f": {pause['reason']}" if pause["reason"] else ""
    end = f", until {pause['until']}" if pause["until"] else ""
    return f"since {pause['since']} by {pause['by']}{reason}{end}"


def _number(count: Any) -> str:
    return f"{count['count']:,}{'+' if count['capped'] else ''}"


def _age(due: Any) -> str | None:
    return None if due["oldest_ms"] is None else f"{due['oldest_ms'] / 1000:.1f} s"
