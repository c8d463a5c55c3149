"""How answers look on a terminal: tables and field lists for people, JSON with --json.

On a terminal tables fit its width, ids are short (`short_ids`) and states have colours; into a pipe
everything is whole and plain.
"""

import json
import os
import shutil
import sys
import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from functools import wraps
from typing import TYPE_CHECKING, Any, Final

import click

from tocsin.cli.cells import cell, distance, flat, harmless
from tocsin.cli.client import Client, connect
from tocsin.cli.short_ids import remember, short
from tocsin.cli.tables import Cell, layout, paint, painted

if TYPE_CHECKING:
    from rich.console import Console

_FREE: Final = frozenset(
    {"NAME", "JOB", "REASON", "PROBLEM", "HINT", "WHEN", "TARGET", "WHAT", "WHY", "NOTES", "TASKS", "MESSAGE"}
)
_LEAST_WIDTH: Final = 40
Connect = Callable[[], Client]
"""Makes the client that the options of a command ask for."""


def api_command(command: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command a client, and print what it returns: as JSON, or by the view it names.

    A command that did only part of what it was asked returns an exit code beside them.
    """

    @local_command
    @wraps(command)
    def run(connect: Connect, **rest: Any) -> Any:
        return command(connect(), **rest)

    return run


def local_command(command: Callable[..., Any]) -> Callable[..., Any]:
    """As `api_command`, for commands that may need no server: they are given the means to connect."""

    @click.option("--url", help="Where the API is.  [default: TOCSIN_URL or http://127.0.0.1:8420]")
    @click.option("--key", help="API key.  [default: TOCSIN_API_KEY or the local data directory's]")
    @click.option("--tenant", help="Act for this tenant; for operators' keys.")
    @click.option("--json", "as_json", is_flag=True, help="Print the answer as JSON.")
    @wraps(command)
    def run(url: str | None, key: str | None, tenant: str | None, as_json: bool, **rest: Any) -> None:
        _print(command(lambda: connect(url, key, tenant), **rest), as_json=as_json)

    return run


def watched_command(command: Callable[..., Any]) -> Callable[..., Any]:
    """As `api_command`, for what is worth looking at again and again: with --watch it is, until Ctrl-C."""

    @click.option(
        "--watch",
        metavar="SECONDS",
        type=click.FloatRange(0.2, 3600),
        help="Refresh the output every SECONDS, until Ctrl-C.",
    )
    @api_command
    @wraps(command)
    def run(client: Client, watch: float | None, **rest: Any) -> Any:
        shown = command(client, **rest)
        if watch is None:
            return shown
        as_json = bool(click.get_current_context().params.get("as_json"))
        while True:
            if not as_json:
                click.clear()  # on a terminal only
            _print(shown, as_json=as_json)
            time.sleep(watch)
            shown = command(client, **rest)

    return run


def _print(shown: Any, *, as_json: bool) -> None:
    answer, view, *code = shown
    if as_json:
        click.echo(json.dumps(answer, indent=2, ensure_ascii=False))
    else:
        view(answer)
    if code:
        click.get_current_context().exit(code[0])


def table(columns: Sequence[tuple[str, str]]) -> Callable[[Any], None]:
    """A view of ``items`` with (heading, field) columns."""

    def view(answer: Any) -> None:
        rows(columns, answer["items"])
        for broken in answer.get("broken", ()):
            line(f"{broken['id']} cannot be shown: {broken['detail']}", "red")
        if answer.get("next_cursor"):
            line(f"more: --cursor {answer['next_cursor']}", "dim")

    return view


def rows(columns: Sequence[tuple[str, str]], items: Sequence[Any]) -> None:
    """Print a table of items with (heading, field) columns."""
    if not items:
        line("nothing here", "dim")
        return
    now = datetime.now(UTC)
    terminal = sys.stdout.isatty()
    cells = [
        [_shown(cell(field, item.get(field), now, brief=terminal), terminal) for _, field in columns]
        for item in items
    ]
    free = [heading in _FREE for heading, _ in columns]
    lines = layout([heading for heading, _ in columns], cells, free, _width() if terminal else None)
    for pieces in lines:
        click.echo(painted(pieces, colours=_colours()))
    if terminal:
        remember(str(item.get(field)) for item in items for _, field in columns if field.endswith("id"))


def fields(answer: Any) -> None:
    """A view of one object, a field a line; what is nested by its path."""
    found = list(flat(answer))
    now = datetime.now(UTC)
    width = max((len(name) for name, _ in found), default=0)
    for name, value in found:
        shown = cell(name.rpartition(".")[2], value, now)
        heading = f"{name:<{width}}"
        if _colours():
            click.echo(f"{paint(heading, 'bold')}  {paint(shown.text, shown.style)}")
        else:
            click.echo(f"{heading}  {shown.text}")


def fires(answer: Any) -> None:
    """A view of coming fires: what the schedule says in words, the instants, what to watch out for."""
    line(answer["explanation"])
    now = datetime.now(UTC)
    rows(
        [("UTC", "utc"), ("LOCAL", "local"), ("FROM NOW", "distance")],
        [
            {
                "utc": fire["at"],
                "local": _weekday(fire["local"]),
                "distance": _from_now(fire["at"], now),
            }
            for fire in answer["fires"]
        ],
    )
    for warning in answer["warnings"]:
        line(f"warning: {warning}", "yellow")


def line(text: str, style: str = "") -> None:
    """Print a line, harmless whatever is in it."""
    click.echo(paint(harmless(text), style) if _colours() else harmless(text))


def console(width: int = 0) -> "Console":
    """Where rich draws: as wide as the terminal, but not narrower than `width`; into a pipe nothing is cut or
    wrapped. A name with :boom: in it stays one.
    """
    from rich.console import Console  # noqa: PLC0415 - few commands draw, and it takes its time to load

    if not sys.stdout.isatty():
        return Console(width=max(1000, width), emoji=False)
    return Console(width=max(Console().width, width), emoji=False)


def say(words: str) -> Callable[[Any], None]:
    """A view that prints a sentence made from the answer."""
    return lambda answer: click.echo(words.format(**answer))


def _shown(found: Cell, terminal: bool) -> Cell:
    return Cell(short(found.text), found.style) if terminal else found


def _width() -> int:
    return max(_LEAST_WIDTH, shutil.get_terminal_size().columns)


def _colours() -> bool:
    return sys.stdout.isatty() and not os.environ.get("NO_COLOR")


def _weekday(local: str) -> str:
    """A wall clock's time with its day of the week: the first thing people check a schedule by."""
    return f"{datetime.fromisoformat(local):%a} {local.replace('T', ' ')}"


def _from_now(instant: str, now: datetime) -> str:
    try:
        return distance(datetime.fromisoformat(instant), now)
    except (OverflowError, ValueError):
        return "–"
