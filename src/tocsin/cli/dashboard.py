"""`tocsin dashboard`: a link that opens the dashboard logged in."""

from typing import Any

import click

from tocsin.cli.client import Client
from tocsin.cli.show import api_command, line


@click.command()
@click.option("--open", "open_browser", is_flag=True, help="Open it in the browser, too.")
@api_command
def dashboard(client: Client, open_browser: bool) -> tuple[Any, Any]:
    """Print a link that opens the dashboard, logged in with this key. It works once, within ten minutes."""
    made = client.post("session", "tickets")
    link = f"{client.url}/#ticket={made['ticket']}"
    if open_browser:
        click.launch(link)
    return {"link": link, "expires_in_s": made["expires_in_s"]}, lambda answer: line(answer["link"])
