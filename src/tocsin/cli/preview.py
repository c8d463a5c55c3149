"""`tocsin preview`: what a schedule will do, before a job relies on it.

It is worked out on this machine. Only calendars are the server's, so the server is asked about a schedule
that names one.
"""

from typing import Any

import click

from tocsin.cli.schedule_options import SCHEDULE_OPTIONS, with_options, written_schedule
from tocsin.cli.show import Connect, fires, local_command
from tocsin.domain.errors import Refused


@click.command()
@with_options(*SCHEDULE_OPTIONS)
@click.option("--limit", type=click.IntRange(1, 1000), default=10, show_default=True)
@click.option("--after", metavar="INSTANT", help="Fires after this instant.  [default: now]")
@local_command
def preview(connect: Connect, limit: int, after: str | None, **options: Any) -> tuple[Any, Any]:
    """Show when a schedule would fire, in words and instants, with warnings.

    No server is needed, unless the schedule names a calendar.

    \b
    Examples:
      tocsin preview --cron "30 2 * * *" --time-zone Europe/Berlin
      tocsin preview --every 7h --starts-at 2030-01-01T00:00:00Z --after 2030-01-01T00:00:00Z
    """
    schedule = written_schedule(options)
    if schedule.get("exclude", {}).get("calendars"):
        body = {"schedule": schedule, "limit": limit, "after": after}
        return connect().post("schedules", "preview", body=body), fires
    from tocsin.cli.local_preview import preview_of  # noqa: PLC0415 - only the call itself needs it

    try:
        return preview_of(schedule, limit, after), fires
    except Refused as refused:
        field = f"{refused.field}: " if refused.field else ""
        hint = f"\nHint: {refused.hint}" if refused.hint else ""
        raise click.ClickException(f"{field}{refused.detail}{hint}") from None
