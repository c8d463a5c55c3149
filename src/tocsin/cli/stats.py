"""`tocsin stats` and `tocsin tallies …`: how it stands, and the counts behind the plots."""

from datetime import UTC, datetime, timedelta
from typing import Any, Final

import click

from tocsin.cli.client import Client
from tocsin.cli.groups import Group
from tocsin.cli.show import api_command, line, rows, watched_command

_HOUR: Final = timedelta(hours=1)


@click.command()
@watched_command
def stats(client: Client) -> tuple[Any, Any]:
    """Show what runs and waits, what ended within the hour, how late, and what needs a person."""
    return client.get("stats", "summary"), _shown


@click.group(cls=Group)
def tallies() -> None:
    """Rebuild the counts behind the plots.

    \b
    Examples:
      tocsin tallies rebuild --from 2030-01-01T00:00:00Z --to 2030-01-02T00:00:00Z
    """


@tallies.command()
@click.option(
    "--from", "since", required=True, type=click.DateTime(["%Y-%m-%dT%H:%M:%S%z"]), help="The first instant."
)
@click.option(
    "--to",
    "until",
    type=click.DateTime(["%Y-%m-%dT%H:%M:%S%z"]),
    help="The last one.  [default: an hour after]",
)
@api_command
def rebuild(client: Client, since: datetime, until: datetime | None) -> tuple[Any, Any]:
    """Recount past hours from history, after a crash or for days before an upgrade."""
    hour = since.astimezone(UTC).replace(minute=0, second=0)
    done = []
    while hour < (until or since + _HOUR):
        done.append(client.post("tallies:rebuild", body={"hour": hour.strftime("%Y-%m-%dT%H:%M:%SZ")}))
        hour += _HOUR
    return {"items": done}, lambda answer: line(f"counted {len(answer['items'])} hours again")


def _shown(answer: Any) -> None:
    running, due, dead = answer["running"], answer["due"], answer["dead_24h"]
    ended = ", ".join(f"{number} {state}" for state, number in answer["ended_1h"].items() if number)
    share = answer["on_time_1h"]
    line(f"running {_count(running)}, due {_count(due)}, dead within 24 h {_count(dead)}")
    line(f"ended within the hour: {ended or 'nothing'}")
    line(f"on time: {'–' if share is None else f'{share:.2%}'}, late p99 {_ms(answer['late_1h']['p99_ms'])}")
    rows(
        [("NEEDS YOU", "kind"), ("COUNT", "count"), ("REASON", "text"), ("SINCE", "since")],
        answer["needs_you"],
    )


def _count(counted: Any) -> str:
    return f"{counted['count']}{'+' if counted['capped'] else ''}"


def _ms(value: float | None) -> str:
    return "–" if value is None else f"{value:.1f} ms"
