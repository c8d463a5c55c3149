"""`tocsin keys …`: make, list, rotate and revoke API keys. For operators."""

from typing import Any

import click

from tocsin.cli.client import Client
from tocsin.cli.groups import Group
from tocsin.cli.show import api_command, fields, line, say, table
from tocsin.domain.keys import Scope

_TABLE = table(
    [
        ("ID", "id"), ("NAME", "name"), ("TENANT", "tenant"), ("SCOPES", "scopes"), ("VALID", "valid"),
        ("LAST USED", "last_used_at"), ("EXPIRES", "expires_at"),
    ]
)  # fmt: skip


@click.group(cls=Group)
def keys() -> None:
    """Create, list, rotate and revoke API keys. With --tenant, those of one tenant.

    \b
    Examples:
      tocsin keys create ci --tenant acme --scope read --scope write --expires-in 90d
      tocsin keys rotate 4kX… --overlap 2d
      tocsin keys revoke 4kX…
    """


@keys.command()
@click.argument("name")
@click.option(
    "--scope",
    "scopes",
    multiple=True,
    required=True,
    type=click.Choice([str(scope) for scope in Scope]),
    help="What it may do; may be repeated.",
)
@click.option("--expires-in", metavar="DURATION", help="Valid for this long: 90d  [default: no end]")
@click.option("--expires-at", metavar="INSTANT", help="Valid until this instant.")
@api_command
def create(client: Client, name: str, scopes: tuple[str, ...], **expiry: str | None) -> tuple[Any, Any]:
    """Create a key. Its text is shown once, here."""
    body = {"name": name, "scopes": list(scopes)} | {k: v for k, v in expiry.items() if v is not None}
    return client.post("keys", body=body), _fresh


@keys.command("list")
@click.option("--limit", type=click.IntRange(1, 500), default=50, show_default=True)
@click.option("--cursor", help="Continue a listing.")
@api_command
def list_keys(client: Client, **options: Any) -> tuple[Any, Any]:
    """List keys, by id."""
    return client.get("keys", **options), _TABLE


@keys.command()
@click.argument("key_id")
@api_command
def show(client: Client, key_id: str) -> tuple[Any, Any]:
    """Show a key, without its secret."""
    return client.get("keys", key_id), fields


@keys.command()
@click.argument("key_id")
@click.option("--overlap", metavar="DURATION", help="How long the old key stays valid.  [default: 1d]")
@api_command
def rotate(client: Client, key_id: str, overlap: str | None) -> tuple[Any, Any]:
    """Replace a key by a new one with the same name and scopes."""
    body = {} if overlap is None else {"overlap": overlap}
    return client.post("keys", key_id, "rotate", body=body), _fresh


@keys.command()
@click.argument("key_id")
@api_command
def revoke(client: Client, key_id: str) -> tuple[Any, Any]:
    """Revoke a key at once."""
    return client.post("keys", key_id, "revoke"), say("revoked {id}")


def _fresh(answer: Any) -> None:
    fields(answer["key"])
    line("\nthe key, shown once:\n")
    line(f"  {answer['text']}\n")
