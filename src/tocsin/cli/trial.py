"""`tocsin try`: call a target once, before a job relies on it."""

from typing import Any

import click

from tocsin.cli.client import Client
from tocsin.cli.job_options import TARGET_OPTIONS, new_target
from tocsin.cli.schedule_options import with_options
from tocsin.cli.show import api_command, fields


@click.command("try")
@with_options(*TARGET_OPTIONS)
@click.option("--name", help="What {name} is filled in with.")
@click.option("--timeout", metavar="DURATION", help="How long the call may take.  [default: 25s, the most]")
@api_command
def try_(client: Client, **options: Any) -> tuple[Any, Any, int]:
    """Call a target once, now, and show the result. Nothing is stored.

    Exits with 1 unless the call succeeded.

    \b
    Examples:
      tocsin try --target-url https://example.com/hook --body '{"hello": "world"}'
      tocsin try --target-url 'https://example.com/reports/{fire_at}' --template
    """
    answer = client.post("targets", "test", body=new_target(options))
    return answer, fields, 0 if answer["verdict"] == "succeeded" else 1
