"""`tocsin dead-letters …`: what failed for good, one by one and by kind of error."""

from typing import Any

import click

from tocsin.cli.client import Client
from tocsin.cli.executions import FILTERS, id_of, show_executions
from tocsin.cli.groups import Group
from tocsin.cli.operations import HOW, begin
from tocsin.cli.schedule_options import with_options
from tocsin.cli.show import api_command, line, rows, watched_command

_FILTERS = ("job", "queue", "fire_from", "fire_to", "error", "fingerprint")
_matching = with_options(
    click.option("--job", help="Executions of this job, by its id or name."),
    click.option("--queue", help="Executions of this queue."),
    click.option("--fire-from", metavar="INSTANT", help="Fire times at or after this instant."),
    click.option("--fire-to", metavar="INSTANT", help="Fire times before this instant."),
    click.option("--error", metavar="TEXT", help="Whose reason or error contains this."),
    click.option("--fingerprint", help="With this kind of error: see `dead-letters groups`."),
)


@click.group("dead-letters", cls=Group)
def dead_letters() -> None:
    """Look at executions that failed for good, replay them, give them up.

    \b
    Examples:
      tocsin dead-letters groups
      tocsin dead-letters list --fingerprint 5f0c1d2e3a4b
      tocsin dead-letters replay --fingerprint 5f0c1d2e3a4b --step 1 --step 10 --dry-run
      tocsin dead-letters discard EXECUTION_ID --reason "the order was refunded"
    """


@dead_letters.command("list")
@FILTERS
@watched_command
def list_dead_letters(client: Client, job: str | None, **options: Any) -> tuple[Any, Any]:
    """List executions that failed for good, latest first."""
    return client.get("dead-letters", job=id_of(client, job), **options), show_executions


@dead_letters.command()
@click.option(
    "--from", "from_", metavar="INSTANT", help="Executions that ended since.  [default: a day before --to]"
)
@click.option("--to", metavar="INSTANT", help="Executions that ended before.  [default: now]")
@click.option("--queue", help="Executions of this queue.")
@api_command
def groups(client: Client, from_: str | None, **options: Any) -> tuple[Any, Any]:
    """Count dead letters by kind of error, the most frequent first."""
    return client.get("dead-letters", "groups", **{"from": from_}, **options), _grouped


@dead_letters.command()
@_matching
@HOW
@api_command
def replay(client: Client, **options: Any) -> Any:
    """Give all dead letters that match another round of attempts."""
    return _act(client, "retry", **options)


@dead_letters.command("discard-all")
@_matching
@HOW
@api_command
def discard_all(client: Client, **options: Any) -> Any:
    """Discard all dead letters that match."""
    return _act(client, "discard", **options)


@dead_letters.command()
@click.argument("execution_id")
@click.option("--reason", help="Why, for the record.")
@api_command
def discard(client: Client, execution_id: str, reason: str | None) -> tuple[Any, Any]:
    """Discard a dead letter: it leaves the list and stays in history."""
    return client.post("dead-letters", execution_id, "discard", body={"reason": reason}), _discarded


def _act(client: Client, do: str, **options: Any) -> Any:
    where = {name: options.pop(name) for name in _FILTERS}
    where["job"] = id_of(client, where["job"])
    given = {name: value for name, value in where.items() if value is not None}
    return begin(client, {"do": do, "of": "dead_letters", "where": given}, **options)


def _grouped(answer: Any) -> None:
    columns = [
        ("FINGERPRINT", "fingerprint"), ("COUNT", "count"), ("JOBS", "jobs"), ("LAST HOUR", "last_hour"),
        ("FIRST", "first_at"), ("LAST", "last_at"), ("REASON", "error"),
    ]  # fmt: skip
    rows(columns, answer["items"])
    if answer["capped"]:
        line("there are more: only the newest were counted", "dim")


def _discarded(_: Any) -> None:
    line("discarded; the execution stays in history")
