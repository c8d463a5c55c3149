"""`tocsin shards`, `tocsin nodes` and `tocsin system`."""

from typing import Any

import click

from tocsin.cli.client import Client
from tocsin.cli.show import line, rows, table, watched_command


@click.command()
@watched_command
def shards(client: Client) -> tuple[Any, Any]:
    """Show the shards and who leases them."""
    columns = [
        ("SHARD", "shard"),
        ("OWNER", "owner"),
        ("NODE", "node"),
        ("EPOCH", "epoch"),
        ("EXPIRES", "expires_at"),
    ]
    return client.get("shards"), table(columns)


@click.command()
@watched_command
def nodes(client: Client) -> tuple[Any, Any]:
    """Show the processes of the fleet."""
    columns = [
        ("ID", "id"),
        ("NAME", "name"),
        ("ROLES", "roles"),
        ("VERSION", "version"),
        ("SCHEMA", "schema"),
        ("ALIVE", "alive"),
        ("SHARDS", "shards"),
        ("SEEN", "seen_at"),
    ]
    return client.get("nodes"), table(columns)


@click.command()
@watched_command
def system(client: Client) -> tuple[Any, Any]:
    """Show the database, the fleet's versions, and what to do about failed checks."""
    return client.get("system"), _system


def _system(answer: Any) -> None:
    database = answer["database"]
    line(
        f"PostgreSQL {database['version']}, {database['size_bytes'] / 1e6:,.0f} MB, schema {database['migration']:04},"
        f" {database['connections']} of {database['max_connections']} connections"
    )
    line("live: " + (", ".join(f"{number} {role}" for role, number in answer["roles"].items()) or "nothing"))
    shown = [check | {"ok": "ok" if check["ok"] else "NO"} for check in answer["checks"]]
    rows([("CHECK", "name"), ("OK", "ok"), ("REASON", "words"), ("HINT", "hint")], shown)
    set_ones = [one for one in answer["settings"] if not one["default"]]
    rows([("SETTING", "name"), ("VALUE", "value")], set_ones)
