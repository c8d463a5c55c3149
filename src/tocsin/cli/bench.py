"""`tocsin bench`: what an installation does, measured on itself with jobs that do nothing."""

import asyncio
import sys
from typing import Any, Final

import click
import uvloop

from tocsin.cli.bench_measures import MOST_SINGLES
from tocsin.cli.bench_report import show
from tocsin.cli.bench_run import Plan, Run
from tocsin.cli.client import Client
from tocsin.cli.show import api_command, say

_LONG: Final = 60  # seconds of nothing but waiting for a limit, to be told of before


@click.command()
@click.option(
    "--executions",
    type=click.IntRange(1, 100_000),
    default=10_000,
    show_default=True,
    help="Executions of the backlog, and of the herd.",
)
@click.option(
    "--spread",
    type=click.IntRange(0, 10_000),
    default=200,
    show_default=True,
    help="Executions due one after the other, 20 a second; 0 for none.",
)
@click.option(
    "--concurrency",
    type=click.IntRange(1, 256),
    default=16,
    show_default=True,
    help="Requests at a time.",
)
@click.option("--queue", default="default", show_default=True, help="The queue whose workers are measured.")
@click.option("--keep", is_flag=True, help="Keep the jobs at the end.")
@click.option("--clean", is_flag=True, help="Measure nothing; delete the jobs that earlier runs left.")
@click.option("--yes", is_flag=True, help="Do not ask before it begins.")
@api_command
def bench(client: Client, clean: bool, yes: bool, **options: Any) -> tuple[Any, Any] | tuple[Any, Any, int]:
    """Measure the running installation with jobs that do nothing.

    How fast jobs are created, singly and in batches; how fast a backlog of due executions is run; how late
    executions start that are all due at one instant, and such that are spread over time. Lag and rates of
    firing are taken from what the installation recorded. The jobs belong to the key's tenant, have the tag
    tocsin-bench, and are deleted at the end, also after Ctrl-C. It is real load: whatever else the
    installation does may be late meanwhile.

    \b
    Examples:
      tocsin bench
      tocsin bench --executions 1000 --spread 0 --yes --json
      tocsin bench --queue reports --tenant acme
    """
    identity = client.get("whoami")
    plan = Plan(**options)
    run = Run(client, identity, plan)
    if clean:
        deleted = _finish(run, run.clean())
        return {"deleted": deleted}, say("{deleted:,} jobs deleted")
    _check(identity, plan)
    _ask(client, identity, plan, yes=yes)
    _finish(run, run.measure())
    if run.stopped and not run.measures:
        raise click.ClickException(f"{run.stopped}\n{run.fate}" if run.left else run.stopped)
    click.echo(run.fate, err=True)
    return run.answer(), show, 1 if run.stopped or run.left_over else 0


def _finish(run: Run, work: Any) -> Any:
    try:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            return runner.run(work)
    except asyncio.CancelledError:
        click.echo(f"interrupted; {run.fate}", err=True)
        click.get_current_context().exit(130)


def _check(identity: Any, plan: Plan) -> None:
    """Refuse what cannot work, before anything is made."""
    if not {"write", "admin"} & set(identity["scopes"]):
        raise click.ClickException("the key has no write scope, which is needed beside read")
    room = identity["limits_in_force"]["pending_jobs"]
    if room is not None and room < plan.jobs:
        tenant, fits = identity["tenant"], max((room - 1) // 3, (room - 1 - MOST_SINGLES) // 2)
        fewer = f"--executions {fits} --spread 0 fits if nothing else is pending; or " if fits > 0 else ""
        raise click.ClickException(
            f"{plan.jobs:,} jobs may be pending at once, and tenant {tenant} may have {room:,} (limit pending_jobs)\n"
            f"Hint: {fewer}an operator lifts it: tocsin tenants change {tenant} --pending-jobs {plan.jobs}"
        )


def _ask(client: Client, identity: Any, plan: Plan, *, yes: bool) -> None:
    """Tell what is about to happen, and let it be refused."""
    fate = "are kept" if plan.keep else "are deleted at the end"
    click.echo(
        f"About to create {plan.jobs:,} jobs that do nothing for tenant {identity['tenant']} at {client.url}; they {fate}.\n"
        "This is load: other jobs of the installation may start late meanwhile.",
        err=True,
    )
    rate = identity["limits_in_force"]["requests_per_second"]
    requests = plan.singles + (0 if plan.keep else plan.jobs)
    if rate is not None and "admin" not in identity["scopes"] and requests / rate > _LONG:
        click.echo(
            f"The tenant may make {rate:g} requests per second (limit requests_per_second): creating and deleting takes"
            f" {requests / rate / 60:,.0f} minutes or more. Fewer --executions take less.",
            err=True,
        )
    if yes:
        return
    if not sys.stdin.isatty():
        raise click.UsageError("this is no terminal to ask at; give --yes")
    click.confirm("Go on?", abort=True, err=True)
