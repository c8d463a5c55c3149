"""`tocsin workers …`: remote workers, which run tasks."""

from typing import Any

import click

from tocsin.cli.client import Client
from tocsin.cli.groups import Group
from tocsin.cli.show import api_command, fields, table, watched_command

_TABLE = table(
    [
        ("ID", "id"), ("NAME", "name"), ("APP", "app"), ("REVISION", "revision"), ("STATE", "state"),
        ("RUNNING", "running"), ("CAPACITY", "capacity"), ("SEEN", "seen_at"), ("TASKS", "tasks"),
    ]
)  # fmt: skip


@click.group(cls=Group)
def workers() -> None:
    """List and drain remote workers.

    \b
    Examples:
      tocsin workers list
      tocsin workers drain WORKER_ID
    """


@workers.command("list")
@click.option("--all", "everything", is_flag=True, help="Include workers that are gone.")
@click.option("--limit", type=click.IntRange(1, 500), default=50, show_default=True)
@click.option("--cursor", help="Continue a listing.")
@watched_command
def list_workers(client: Client, everything: bool, **page: Any) -> tuple[Any, Any]:
    """List remote workers: what each serves and runs."""
    return client.get("workers", all="true" if everything else None, **page), _TABLE


@workers.command()
@click.argument("worker_id")
@watched_command
def show(client: Client, worker_id: str) -> tuple[Any, Any]:
    """Show a remote worker."""
    return client.get("workers", worker_id), fields


@workers.command()
@click.argument("worker_id")
@api_command
def drain(client: Client, worker_id: str) -> tuple[Any, Any]:
    """Ask a remote worker to finish its tasks and claim no more."""
    return client.post("workers", worker_id, "drain"), fields
