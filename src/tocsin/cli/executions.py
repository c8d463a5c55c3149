"""`tocsin executions …` and `tocsin dead-letters`."""

from typing import Any

import click

from tocsin.cli.client import Client
from tocsin.cli.show import api_command, fields, table
from tocsin.domain.lifecycle import State

_TABLE = table(
    [
        ("ID", "id"), ("STATE", "state"), ("FIRE TIME", "fire_at"), ("LAG MS", "lag_ms"), ("ATTEMPT", "attempt"),
        ("REASON", "reason"),
    ]
)  # fmt: skip
_limit = click.option("--limit", type=click.IntRange(1, 500), default=50, show_default=True)
_cursor = click.option("--cursor", help="Continue a listing.")


@click.group()
def executions() -> None:
    """Look at firings of jobs, cancel or retry them."""


@executions.command("list")
@click.option("--job", "job_id", help="Only executions of this job.")
@click.option("--state", type=click.Choice([str(state) for state in State]))
@click.option("--queue")
@_limit
@_cursor
@api_command
def list_executions(client: Client, job_id: str | None, **options: Any) -> tuple[Any, Any]:
    """List executions: live ones, then finished ones."""
    if job_id is None:
        return client.get("executions", **options), _TABLE
    if options["state"] or options["queue"]:
        raise click.UsageError("--job cannot be combined with --state or --queue")
    return client.get("jobs", job_id, "executions", limit=options["limit"], cursor=options["cursor"]), _TABLE


@executions.command()
@click.argument("execution_id")
@api_command
def show(client: Client, execution_id: str) -> tuple[Any, Any]:
    """Show an execution with its attempts."""
    return client.get("executions", execution_id), fields


@executions.command()
@click.argument("execution_id")
@click.option("--reason")
@api_command
def cancel(client: Client, execution_id: str, reason: str | None) -> tuple[Any, Any]:
    """Cancel an execution; a running one is asked to stop."""
    return client.post("executions", execution_id, "cancel", body={"reason": reason}), fields


@executions.command()
@click.argument("execution_id")
@api_command
def retry(client: Client, execution_id: str) -> tuple[Any, Any]:
    """Retry a dead, expired or cancelled execution."""
    return client.post("executions", execution_id, "retry"), fields


@click.command("dead-letters")
@click.option("--queue")
@_limit
@_cursor
@api_command
def dead_letters(client: Client, **options: Any) -> tuple[Any, Any]:
    """List executions that failed for good."""
    return client.get("dead-letters", **options), _TABLE
