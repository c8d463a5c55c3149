"""`tocsin preview`: what a schedule will do, before a job relies on it."""

from typing import Any

import click

from tocsin.cli.client import Client
from tocsin.cli.schedule_options import SCHEDULE_OPTIONS, with_options, written_schedule
from tocsin.cli.show import api_command, fires


@click.command()
@with_options(*SCHEDULE_OPTIONS)
@click.option("--limit", type=click.IntRange(1, 1000), default=10, show_default=True)
@click.option("--after", metavar="INSTANT", help="Fires after this instant.  [default: now]")
@api_command
def preview(client: Client, limit: int, after: str | None, **options: Any) -> tuple[Any, Any]:
    """Show when a schedule would fire, in words and instants, with what to watch out for.

    \b
    Examples:
      tocsin preview --cron "30 2 * * *" --time-zone Europe/Berlin
      tocsin preview --every 7h --starts-at 2030-01-01T00:00:00Z --after 2030-01-01T00:00:00Z
    """
    body = {"schedule": written_schedule(options), "limit": limit, "after": after}
    return client.post("schedules", "preview", body=body), fires
