"""`tocsin whoami`: what the key in use is, and may do."""

from typing import Any

import click

from tocsin.cli.client import Client
from tocsin.cli.show import api_command, fields


@click.command()
@api_command
def whoami(client: Client) -> tuple[Any, Any]:
    """Show the key in use: its scopes, the tenant it acts for, the limits in force there."""
    return client.get("whoami"), _shown


def _shown(answer: Any) -> None:
    """Only limits that there are; without any, that is said."""
    limits = {name: value for name, value in answer["limits_in_force"].items() if value is not None}
    fields(answer | {"scopes": ", ".join(answer["scopes"]), "limits_in_force": limits or "none"})
