"""`tocsin tasks …`: its options, once, for the two that read them. The server's command line is click's;
where only the SDK is installed it is the standard library's."""

import argparse
import importlib
import logging
import os
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

import msgspec

import tocsin
from tocsin.domain.errors import Refused, TocsinError
from tocsin.sdk.app import App
from tocsin.sdk.plan_words import plan_words

_log = logging.getLogger("tocsin.sdk")


class Option(msgspec.Struct, frozen=True):
    """One option of a command. `default` None: there is none, or it is that of the environment variable."""

    flag: str
    help: str
    kind: type[str] | type[int] | type[float] | type[bool] = str
    default: Any = None
    metavar: str | None = None
    least: float | None = None
    most: float | None = None
    variable: str | None = None
    """The environment variable that is read when the option is not given."""

    @property
    def name(self) -> str:
        """Under which its value is handed on."""
        return self.flag.removeprefix("--").replace("-", "_")


class Command(msgspec.Struct, frozen=True):
    """A command of an app: what it is called, what it does, and what it takes."""

    name: str
    help: str
    options: tuple[Option, ...]
    run: Callable[[App, Mapping[str, Any]], int]
    """Returns the exit code."""


REACH: Final = (
    Option("--url", "Where the API is.", variable="TOCSIN_URL"),
    Option("--api-key", "A key with the scope worker.", variable="TOCSIN_API_KEY"),
)


def serve(app: App, options: Mapping[str, Any]) -> int:
    """Run the tasks of an app until SIGTERM: a remote worker, which reaches Tocsin by HTTP alone."""
    if not app.tasks:
        raise Refused(f"the app {app.name} has no tasks")
    given = {name: value for name, value in options.items() if name not in ("reload", "verbose")}
    if app.schedules and (revision := str(given["revision"] or "")).isdigit():
        _declare_first(app, int(revision))
    queues = tuple(queue.strip() for queue in (given.pop("queues") or "").split(",") if queue.strip())
    return app.worker(queues=queues or None, **given).serve()


def _declare_first(app: App, revision: int) -> None:
    """A worker declares its app's schedules at its start. It works all the same if it cannot: the release may
    have done it, and the worker's key need not have the scope write."""
    try:
        for line in plan_words(app.declare(revision)):
            _log.info("%s", line)
    except TocsinError as error:
        _log.warning("the schedules of %s were not declared: %s", app.name, error)


SERVE: Final = Command(
    "serve",
    serve.__doc__ or "",
    (
        Option("--queues", "Queues to serve, separated by commas.  [default: those that the tasks name]"),
        Option("--concurrency", "Tasks at once.", int, 10, least=1, most=10_000),
        Option("--processes", 'Child processes for tasks with run="process".', int, 1, least=1, most=256),
        Option("--max-calls", "Replace a child process after this many tasks.", int, least=1),
        Option("--max-memory", "Replace a child process that has more memory, between two tasks.", metavar="SIZE"),
        Option(
            "--lease", "How long the worker may be silent before its tasks go to others.",
            default="30s", metavar="DURATION",
        ),
        Option(
            "--grace", "How long running tasks may take to finish after SIGTERM.",
            float, 25.0, metavar="SECONDS", least=0,
        ),
        Option("--name", "A name to show.  [default: host and process]"),
        Option("--revision", "The revision of the app. If it is a number, the app's schedules are declared first.", variable="TOCSIN_REVISION"),
        Option("--reload", "Restart when a Python file below this directory changes.", bool),
        Option("--verbose", "Log each task that has succeeded, too.", bool),
        *REACH,
    ),
    serve,
)  # fmt: skip


def declare(app: App, options: Mapping[str, Any]) -> int:
    """Declare the schedules of an app: recurring jobs are created, changed and cancelled as its code says."""
    declared = app.declare(options["revision"], dry_run=options["dry_run"])
    if options.get("json"):
        print(msgspec.json.format(msgspec.json.encode(declared)).decode())  # noqa: T201 - a command speaks to its terminal
        return 1 if declared["counts"].get("refused") else 0
    for line in plan_words(declared):
        print(line)  # noqa: T201
    if options["revision"] is None and declared["counts"].get("differs"):
        print("without --revision jobs that exist are not changed")  # noqa: T201
    return 1 if declared["counts"].get("refused") else 0


DECLARE: Final = Command(
    "declare",
    declare.__doc__ or "",
    (
        Option(
            "--revision", "A number that grows with every release; a lower one than before changes nothing.",
            int, least=0, variable="TOCSIN_REVISION",
        ),
        Option("--dry-run", "Change nothing; show what would change in jobs and their fires.", bool),
        Option("--json", "Print the answer as JSON.", bool),
        Option("--url", "Where the API is.", variable="TOCSIN_URL"),
        Option("--api-key", "A key with the scope write.", variable="TOCSIN_API_KEY"),
    ),
    declare,
)  # fmt: skip
COMMANDS: Final = (SERVE, DECLARE)


def load(name: str) -> App:
    """The app that a word such as ``shop.tasks:app`` names. Modules of the working directory can be
    imported."""
    module, colon, attribute = name.partition(":")
    if not colon:
        raise Refused(f"{name!r} is not MODULE:APP, such as shop.tasks:app")
    if str(Path.cwd()) not in sys.path:
        sys.path.insert(0, str(Path.cwd()))
    try:
        found = getattr(importlib.import_module(module), attribute)
    except ModuleNotFoundError as error:
        # A module that the app's own file imports may be missing, too: say which one it is.
        where = (
            f"; run this where {module.partition('.')[0]} is, or install it" if error.name == module else ""
        )
        raise Refused(f"cannot load {name}: {error}{where}") from None
    except (ImportError, AttributeError) as error:
        raise Refused(f"cannot load {name}: {error}") from None
    if not isinstance(found, App):
        raise Refused(f"{name} is not a tocsin.App, but {type(found).__name__!r}")
    return found


def obey(
    command: Command,
    app: str,
    options: Mapping[str, Any],
    local_key: Callable[[], str | None] = lambda: None,
) -> int:
    """Run a command for the app of that name, at the address that the options give.

    `local_key` finds a key where neither the options nor the app have one.
    """
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    logging.getLogger("httpx2").setLevel(logging.WARNING)
    if options.get("verbose") or options.get("reload"):
        logging.getLogger("tocsin").setLevel(logging.DEBUG)
    if options.get("reload"):
        from tocsin.sdk.worker.reload import Reloader, look_at  # noqa: PLC0415 - for development only

        words, environment = words_of(command, app, options)
        python = (sys.executable, "-m", "tocsin")
        return Reloader(
            (*python, "tasks", *words, "--verbose"), environment, lambda: look_at(Path.cwd())
        ).run()
    loaded = load(app)
    _, own_key = loaded.place()
    loaded.reach(options["url"], options["api_key"] or (None if own_key else local_key()))
    return command.run(
        loaded, {name: value for name, value in options.items() if name not in ("url", "api_key")}
    )


def words_of(
    command: Command, app: str, options: Mapping[str, Any]
) -> tuple[tuple[str, ...], dict[str, str]]:
    """The words of a command, without its flags, and what goes by the environment: other users of a machine
    see the words."""
    words, environment = [command.name, app], {}
    for option in command.options:
        value = options.get(option.name)
        if option.kind is bool or value is None:
            continue
        if option.variable is not None:
            environment[option.variable] = str(value)
        else:
            words += [option.flag, str(value)]
    return tuple(words), environment


def run(words: list[str]) -> int:
    """`tocsin tasks …` without the server's command line."""
    parser = argparse.ArgumentParser(
        "tocsin", description="Tasks of Tocsin. The server: pip install 'tocsin[server]'."
    )
    parser.add_argument("--version", action="version", version=f"tocsin, version {tocsin.__version__}")
    tasks = parser.add_subparsers(required=True).add_parser("tasks", help="Run functions of your own.")
    commands = tasks.add_subparsers(required=True, dest="command")
    for command in COMMANDS:
        added = commands.add_parser(command.name, help=command.help, description=command.help)
        added.add_argument("app", metavar="MODULE:APP")
        for option in command.options:
            added.add_argument(option.flag, **_argument(option))
    given = vars(parser.parse_args(words))
    chosen = next(command for command in COMMANDS if command.name == given.pop("command"))
    try:
        return obey(chosen, given.pop("app"), given)
    except TocsinError as error:
        print(f"Error: {error}", file=sys.stderr)  # noqa: T201 - a command speaks to its terminal
        return 1


def _argument(option: Option) -> dict[str, Any]:
    default = option.default if option.variable is None else os.environ.get(option.variable)
    said = "" if option.default in (None, False) else f"  [default: {option.default}]"
    if option.kind is bool:
        return {"action": "store_true", "help": option.help}
    return {
        "type": _reader(option),
        "default": default,
        "help": option.help + said,
        "metavar": option.metavar,
    }


def _reader(option: Option) -> Callable[[str], Any]:
    def read(text: str) -> Any:
        value = option.kind(text)
        low, high = option.least, option.most
        if not isinstance(value, str) and (
            (low is not None and value < low) or (high is not None and value > high)
        ):
            raise argparse.ArgumentTypeError(f"{text} lies not between {low} and {high or 'any'}")
        return value

    return read
