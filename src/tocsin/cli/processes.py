"""`tocsin serve`, `api`, `engine`, `scheduler`, `worker` and `migrate`: the processes of a fleet."""

import asyncio
import gc
import sys
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import click
import uvloop

from tocsin.domain.errors import Refused, Unavailable
from tocsin.roles.engine import ENGINE
from tocsin.roles.node import Node
from tocsin.roles.preparing import prepare
from tocsin.roles.process import TaskHost, stop_on_signals, wait_for_database
from tocsin.roles.supervisor import supervise
from tocsin.settings import Settings, load_settings
from tocsin.telemetry import set_up_logging


def _database_option(command: Callable[..., Any]) -> Callable[..., Any]:
    return click.option(
        "--database-url", metavar="URL", help="PostgreSQL 15 or newer; postgresql://user@host/name"
    )(command)


def _listen_options(command: Callable[..., Any]) -> Callable[..., Any]:
    command = click.option("--host", help="Address to listen on.  [default: 127.0.0.1]")(command)
    return click.option("--port", type=int, help="Port to listen on.  [default: 8420]")(command)


@click.command()
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


@click.command()
@_listen_options
@_database_option
def api(**flags: Any) -> None:
    """Run an API process against a shared database."""
    _run_node(("api",), flags)


@click.command()
@_database_option
def engine(**flags: Any) -> None:
    """Run a scheduler and a worker in one process."""
    _run_node(ENGINE, flags)


@click.command()
@_database_option
def scheduler(**flags: Any) -> None:
    """Run a scheduler process: it plans, reclaims and tidies."""
    _run_node(("scheduler",), flags)


@click.command()
@_database_option
@click.option(
    "--concurrency", type=click.IntRange(1, 100_000), help="Calls under way at once.  [default: 1000]"
)
@click.option("--queue", "queues", multiple=True, help="Serve only this queue; may be repeated.")
@click.option("--app", metavar="MODULE:APP", help="Run the tasks of this app, too, inside this process.")
@click.option("--tenant", default="default", show_default=True, help="The tenant that --app runs tasks for.")
@click.option(
    "--processes",
    type=click.IntRange(1, 256),
    default=1,
    show_default=True,
    help='Child processes for tasks of --app with run="process".',
)
@click.option("--max-calls", type=click.IntRange(1), help="Replace a child process after this many tasks.")
@click.option(
    "--max-memory",
    metavar="SIZE",
    help="Replace a child process that has more memory, between two tasks.",
)
def worker(
    app: str | None,
    tenant: str,
    processes: int,
    max_calls: int | None,
    max_memory: str | None,
    **flags: Any,
) -> None:
    """Run a worker process: it claims, fires and settles."""
    flags["queues"] = flags["queues"] or None
    children = (processes, max_calls, max_memory)
    tasks = None if app is None else lambda stop: _tasks_of(app, tenant, children, stop)
    _run_node(("worker",), flags, tasks)


@click.command()
@_database_option
@click.option(
    "--shards",
    type=click.IntRange(1, 4096),
    help="Shards of a new installation; at most this many schedulers share the work.  [default: 256]",
)
def migrate(**flags: Any) -> None:
    """Bring a shared database to this version's schema; safe to run while the fleet works."""
    settings = _with_database(_settings(flags))
    _run(settings, lambda: prepare(settings.database_url or "", settings, announce=True))


def _tasks_of(
    app: str, tenant: str, children: tuple[int, int | None, str | None], stop: Callable[[], None]
) -> TaskHost:
    from tocsin.app_worker.hosting import AppTasks  # noqa: PLC0415 - most workers run no app
    from tocsin.sdk.command import load  # noqa: PLC0415
    from tocsin.sdk.worker.processes import Wear  # noqa: PLC0415

    processes, max_calls, max_memory = children
    return AppTasks(load(app), tenant, processes, Wear.of(max_calls, max_memory), stop)


def _run_node(
    roles: tuple[str, ...],
    flags: dict[str, Any],
    tasks: Callable[[Callable[[], None]], TaskHost] | None = None,
) -> None:
    settings = _with_database(_settings(flags))
    url = settings.database_url or ""
    host: TaskHost | None = None

    async def work() -> None:
        nonlocal host
        stop = stop_on_signals()
        await wait_for_database(url, stop)
        # What was imported stays, and what comes is many small things without cycles: looking through all of
        # it again and again is a pause in the wrong moment.
        gc.freeze()
        gc.set_threshold(10_000, 20, 50)
        if not stop.is_set():
            host = tasks and tasks(stop.set)
            await Node(settings, roles, url, host).run(stop)

    _run(settings, work)
    if host is not None and host.exit_code:
        sys.exit(host.exit_code)


def _settings(flags: dict[str, Any]) -> Settings:
    try:
        return load_settings(**flags)
    except Refused as error:
        name = (error.field or "").removeprefix("TOCSIN_").lower()
        if flags.get(name) is not None:  # named as it was given
            option = f"--{name.replace('_', '-')}"
            error = Refused(error.detail, field=option, hint=error.hint)
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
