"""The `tocsin` command: processes of the fleet, and everything a person does with them over HTTP."""

import asyncio
import gc
import sys
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import click
import uvloop

import tocsin
from tocsin.cli.audit import audit
from tocsin.cli.backfills import backfills
from tocsin.cli.bench import bench
from tocsin.cli.calendars import calendars
from tocsin.cli.dashboard import dashboard
from tocsin.cli.executions import dead_letters, executions
from tocsin.cli.fleet import nodes, shards
from tocsin.cli.jobs import jobs
from tocsin.cli.keys import keys
from tocsin.cli.preview import preview
from tocsin.cli.secrets import secrets, webhook_secret
from tocsin.cli.tenants import tenants
from tocsin.cli.whoami import whoami
from tocsin.domain.errors import Refused, Unavailable
from tocsin.roles import ENGINE, Node, stop_on_signals, wait_for_database
from tocsin.settings import Settings, load_settings
from tocsin.supervisor import prepare, supervise
from tocsin.telemetry import set_up_logging


@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110})
@click.version_option(tocsin.__version__, prog_name="tocsin")
def cli() -> None:
    """Tocsin: a distributed job scheduler on PostgreSQL.

    Start with `tocsin serve`, then `tocsin jobs create --help`. Every option of the processes can also be set
    as TOCSIN_<NAME> in the environment.
    """


def _database_option(command: Callable[..., Any]) -> Callable[..., Any]:
    return click.option(
        "--database-url", metavar="URL", help="PostgreSQL 15 or newer; postgresql://user@host/name"
    )(command)


def _listen_options(command: Callable[..., Any]) -> Callable[..., Any]:
    command = click.option("--host", help="Address to listen on.  [default: 127.0.0.1]")(command)
    return click.option("--port", type=int, help="Port to listen on.  [default: 8420]")(command)


@cli.command()
@_listen_options
@_database_option
@click.option(
    "--data-dir",
    type=click.Path(path_type=Path),
    help="Where the embedded database and the administrator's key live.  [default: .tocsin]",
)
@click.option("--engines", type=click.IntRange(0, 256), help="Engine processes.  [default: one per core]")
def serve(**flags: Any) -> None:
    """Run everything on this machine: database (unless --database-url is given), API and engines."""
    settings = _settings(flags)
    _run(settings, lambda: supervise(settings))


@cli.command()
@_listen_options
@_database_option
def api(**flags: Any) -> None:
    """Run an API process against a shared database."""
    _run_node(("api",), flags)


@cli.command()
@_database_option
def engine(**flags: Any) -> None:
    """Run a scheduler and a worker in one process."""
    _run_node(ENGINE, flags)


@cli.command()
@_database_option
def scheduler(**flags: Any) -> None:
    """Run a scheduler process: it plans, reclaims and tidies."""
    _run_node(("scheduler",), flags)


@cli.command()
@_database_option
@click.option(
    "--concurrency", type=click.IntRange(1, 100_000), help="Calls under way at once.  [default: 1000]"
)
@click.option("--queue", "queues", multiple=True, help="Serve only this queue; may be repeated.")
def worker(**flags: Any) -> None:
    """Run a worker process: it claims, fires and settles."""
    flags["queues"] = flags["queues"] or None
    _run_node(("worker",), flags)


@cli.command()
@_database_option
def migrate(**flags: Any) -> None:
    """Bring a shared database to this version's schema; safe to run while the fleet works."""
    settings = _with_database(_settings(flags))
    _run(settings, lambda: prepare(settings.database_url or "", settings, announce=True))


_API_COMMANDS = (
    jobs, preview, executions, backfills, calendars, secrets, webhook_secret, dead_letters, tenants,
    keys, whoami, audit, shards, nodes, dashboard, bench,
)  # fmt: skip
for _group in _API_COMMANDS:
    cli.add_command(_group)


def _run_node(roles: tuple[str, ...], flags: dict[str, Any]) -> None:
    settings = _with_database(_settings(flags))
    url = settings.database_url or ""

    async def work() -> None:
        stop = stop_on_signals()
        await wait_for_database(url, stop)
        # What was imported stays, and what comes is many small things without cycles: looking through all of it again
        # and again is a pause in the wrong moment.
        gc.freeze()
        gc.set_threshold(10_000, 20, 50)
        if not stop.is_set():
            await Node(settings, roles, url).run(stop)

    _run(settings, work)


def _settings(flags: dict[str, Any]) -> Settings:
    try:
        return load_settings(**flags)
    except Refused as error:
        raise click.UsageError(_words(error)) from None


def _with_database(settings: Settings) -> Settings:
    if not settings.database_url:
        raise click.UsageError(
            "--database-url or TOCSIN_DATABASE_URL is needed; `tocsin serve` brings its own"
        )
    return settings


def _run(settings: Settings, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
    set_up_logging(settings.log_format, settings.log_level)
    try:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(work())
    except (Refused, Unavailable) as error:
        raise click.ClickException(_words(error)) from None


def _words(error: Refused | Unavailable) -> str:
    if isinstance(error, Refused):
        field = f"{error.field}: " if error.field else ""
        hint = f"\nHint: {error.hint}" if error.hint else ""
        return f"{field}{error.detail}{hint}"
    return error.detail


def main() -> None:
    """Entry point."""
    try:
        cli(standalone_mode=True)
    except KeyboardInterrupt:
        sys.exit(130)
