"""`tocsin conformance`: does a worker in some language keep to the worker protocol?"""

import sys
from typing import Any

import click
import msgspec

from tocsin.sdk.conformance.run import SCENARIOS, Verdict, judge


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
    chosen = [one for one in SCENARIOS if only is None or only.lower() in one.name.lower()]
    if not chosen:
        raise click.UsageError(f"no scenario has {only!r} in its name; --list names them")
    if listed:
        for one in chosen:
            click.echo(f"{one.name}: {one.expects}")
        return
    if not command:
        raise click.UsageError("name the command of the worker, after --")
    missed = 0
    for number, verdict in enumerate(judge(command, chosen, at_once=at_once, patience=patience), start=1):
        missed += not verdict.passed
        click.echo(_as_json(verdict) if as_json else _as_text(number, verdict))
    if not as_json:
        click.echo(f"{len(chosen) - missed} of {len(chosen)} scenarios passed")
    sys.exit(1 if missed else 0)


def _as_text(number: int, verdict: Verdict) -> str:
    one = verdict.scenario
    word = click.style("passed", fg="green") if verdict.passed else click.style("FAILED", fg="red")
    line = f"{number:2} {word}  {one.name:26}  expected: {one.expects}; seen: {verdict.seen}"
    printed = "".join(f"\n             | {text}" for text in verdict.printed.splitlines()[-12:])
    return line + printed


def _as_json(verdict: Verdict) -> str:
    one = verdict.scenario
    told: dict[str, Any] = {
        "name": one.name, "expected": one.expects, "passed": verdict.passed, "seen": verdict.seen,
        "printed": verdict.printed,
    }  # fmt: skip
    return msgspec.json.encode(told).decode()
