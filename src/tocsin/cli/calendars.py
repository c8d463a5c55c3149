"""`tocsin calendars …`: ranges in which the jobs that name them do not fire."""

import json
from typing import Any, BinaryIO

import click

from tocsin.cli.client import Client
from tocsin.cli.groups import Group
from tocsin.cli.show import api_command, line, rows, say


@click.group(cls=Group)
def calendars() -> None:
    """Manage calendars: ranges in which jobs do not fire.

    \b
    Examples:
      tocsin calendars put freeze --range 2030-12-20T00:00:00Z/2031-01-07T00:00:00Z
      tocsin calendars put holidays --file holidays.json
      tocsin jobs create --cron "0 9 * * *" --exclude-calendar freeze --noop
    """


@calendars.command("list")
@api_command
def list_calendars(client: Client) -> tuple[Any, Any]:
    """List calendars by name."""
    return client.get("calendars"), _listed


@calendars.command()
@click.argument("name")
@api_command
def show(client: Client, name: str) -> tuple[Any, Any]:
    """Show a calendar's ranges."""
    return client.get("calendars", name), _shown


@calendars.command()
@click.argument("name")
@click.option(
    "--range",
    "ranges",
    multiple=True,
    metavar="FROM/TO[/REASON]",
    help="A range between two instants, the second not included; may be repeated.",
)
@click.option(
    "--file",
    type=click.File("rb"),
    help='Ranges from a JSON file: [{"from": …, "to": …, "reason": …}]; "-" is standard input.',
)
@api_command
def put(client: Client, name: str, ranges: tuple[str, ...], file: BinaryIO | None) -> tuple[Any, Any]:
    """Create a calendar, or replace its ranges."""
    if bool(ranges) == (file is not None):
        raise click.UsageError("give --range, once for each, or --file")
    read = [_range(text) for text in ranges] if file is None else _ranges_in(file)
    return client.put("calendars", name, body={"ranges": read}), _shown


@calendars.command()
@click.argument("name")
@api_command
def delete(client: Client, name: str) -> tuple[Any, Any]:
    """Delete a calendar that no job names."""
    return client.delete("calendars", name), say("deleted")


def _range(text: str) -> dict[str, str]:
    start, slash, rest = text.partition("/")
    end, _, reason = rest.partition("/")
    if not slash:
        raise click.UsageError(f"--range {text!r} has no slash; write FROM/TO")
    return {"from": start, "to": end} | ({"reason": reason} if reason else {})


def _ranges_in(file: BinaryIO) -> Any:
    """The ranges in a file: the list itself, or what `calendars show --json` prints."""
    try:
        document = json.load(file)
    except (ValueError, RecursionError) as error:
        raise click.ClickException(f"{file.name} is not JSON: {error}") from None
    return document.get("ranges") if isinstance(document, dict) else document


def _listed(answer: Any) -> None:
    items = [item | {"ranges": len(item["ranges"])} for item in answer["items"]]
    rows([("NAME", "name"), ("RANGES", "ranges"), ("UPDATED", "updated_at")], items)


def _shown(answer: Any) -> None:
    line(f"calendar {answer['name']}")
    rows([("FROM", "from"), ("TO", "to"), ("REASON", "reason")], answer["ranges"])
