"""`tocsin conformance`: does a worker in some language keep to the worker protocol?"""

import sys

import click

from tocsin.domain.errors import Refused
from tocsin.sdk.conformance.command import conform


@click.command(context_settings={"ignore_unknown_options": True})
@click.option("--only", metavar="TEXT", help="Play the scenarios whose name has this text in it.")
@click.option(
    "--at-once", type=click.IntRange(1, 32), default=4, show_default=True, help="Scenarios played at once."
)
@click.option(
    "--patience",
    type=click.FloatRange(1),
    default=20.0,
    show_default=True,
    metavar="SECONDS",
    help="How long the worker has for each step.",
)
@click.option("--list", "listed", is_flag=True, help="List the scenarios and run nothing.")
@click.option("--json", "as_json", is_flag=True, help="Print a line of JSON per scenario.")
@click.argument("command", nargs=-1, type=click.UNPROCESSED, metavar="[--] COMMAND...")
def conformance(
    only: str | None, at_once: int, patience: float, listed: bool, as_json: bool, command: tuple[str, ...]
) -> None:
    """Test a worker against the worker protocol.

    COMMAND is started once or twice per scenario, with TOCSIN_URL and TOCSIN_API_KEY of a gateway that can
    misbehave. It serves the tasks that docs/guides/conformance.md describes. The exit code is 1 if a scenario
    was not met.

    \b
    Examples:
      tocsin conformance -- node worker.js
      tocsin conformance --only SIGTERM -- ./go-worker
    """
    try:
        code = conform(command, only=only, at_once=at_once, patience=patience, listed=listed, as_json=as_json)
    except Refused as error:
        raise click.UsageError(str(error)) from None
    sys.exit(code)
