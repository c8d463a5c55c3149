"""`tocsin shards` and `tocsin nodes`."""

from typing import Any

import click

from tocsin.cli.client import Client
from tocsin.cli.show import api_command, table


@click.command()
@api_command
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
@api_command
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
