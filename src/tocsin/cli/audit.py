"""`tocsin audit …`: who changed what, when, from where."""

import json
from collections.abc import Callable, Iterator
from typing import Any

import click

from tocsin.cli.client import Client, connect
from tocsin.cli.groups import Group
from tocsin.cli.show import api_command, table

_PAGE = 500
_TABLE = table(
    [
        ("AT", "written_at"), ("TENANT", "tenant"), ("ACTOR", "actor"), ("ACTION", "action"), ("OBJECT", "object"),
        ("ADDRESS", "address"),
        ("VIA", "via"),
    ]
)  # fmt: skip


def _filters(command: Callable[..., Any]) -> Callable[..., Any]:
    for name, words in (
        ("to", "Only entries before this instant."),
        ("from", "Only entries at or after this instant."),
        ("object", "Only changes of this object: an id, or a kind and a name such as tenant:acme."),
        ("action", "Only this action, for example job.pause."),
        ("actor", "Only changes by this key id, or by system."),
    ):
        command = click.option(f"--{name}", name, help=words)(command)
    return command


@click.group(cls=Group)
def audit() -> None:
    """See who changed what. An operator sees all tenants, or one with --tenant.

    \b
    Examples:
      tocsin audit list --action job.pause
      tocsin audit export --from 2030-01-01T00:00:00Z --output january.ndjson
    """


@audit.command("list")
@_filters
@click.option("--limit", type=click.IntRange(1, 500), default=50, show_default=True)
@click.option("--cursor", help="Continue a listing.")
@api_command
def list_audit(client: Client, **options: Any) -> tuple[Any, Any]:
    """List entries, latest first. With --json, entries show the values before and after."""
    return client.get("audit", **options), _listed


@audit.command()
@_filters
@click.option(
    "--output", type=click.File("w"), default="-", help="Where to write.  [default: standard output]"
)
@click.option("--url", help="Where the API is.  [default: TOCSIN_URL or http://127.0.0.1:8420]")
@click.option("--key", help="API key.  [default: TOCSIN_API_KEY or the local data directory's]")
@click.option("--tenant", help="Act for this tenant; for operators' keys.")
def export(output: Any, url: str | None, key: str | None, tenant: str | None, **filters: Any) -> None:
    """Write all entries that match, latest first, one JSON object a line (NDJSON)."""
    for entry in _all(connect(url, key, tenant), filters):
        output.write(json.dumps(entry, ensure_ascii=False) + "\n")


def _listed(answer: Any) -> None:
    items = [item | {"written_at": item["at"]} for item in answer["items"]]
    _TABLE({"items": items, "next_cursor": answer["next_cursor"]})


def _all(client: Client, filters: dict[str, Any]) -> Iterator[Any]:
    cursor = None
    while True:
        page = client.get("audit", **filters, limit=_PAGE, cursor=cursor)
        yield from page["items"]
        cursor = page["next_cursor"]
        if cursor is None:
            return
