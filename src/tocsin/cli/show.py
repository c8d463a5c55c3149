"""How answers look on a terminal: tables and field lists for people, JSON with --json."""

import json
import re
import sys
from collections.abc import Callable, Sequence
from datetime import datetime
from functools import wraps
from typing import Any

import click
from rich.console import Console
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from tocsin.cli.client import Client, connect

COLOURS = {
    "active": "green", "succeeded": "green", "running": "cyan", "claimed": "cyan", "queued": "blue",
    "paused": "yellow", "skipped": "yellow", "expired": "yellow", "dead": "red", "cancelled": "magenta",
    "completed": "green",
}  # fmt: skip

_WRAPPED = ("NAME", "REASON", "PROBLEM", "HINT", "WHEN", "TARGET", "WHAT", "WHY", "NOTES")
_NARROWEST = 20  # columns of free text, before a table outgrows the terminal
_TIME_ENDINGS = ("_at", "_until", "from", "to")
# What a target answered may hold anything; a terminal must not act on it. Line breaks are harmless.
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")


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
        answer, view, *code = command(lambda: connect(url, key, tenant), **rest)
        if as_json:
            click.echo(json.dumps(answer, indent=2, ensure_ascii=False))
        else:
            view(answer)
        if code:
            click.get_current_context().exit(code[0])

    return run


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
    """Print a table of items with (heading, field) columns.

    Only free text is wrapped. Ids and times stay whole, if need be wider than the terminal: they are to be
    copied.
    """
    if not items:
        console().print("[dim]nothing here[/dim]")
        return
    shown = Table(box=None, pad_edge=False, header_style="bold")
    lines = [[_cell(field, item.get(field)) for _, field in columns] for item in items]
    width = 0
    for (heading, _), column in zip(columns, zip(*lines, strict=True), strict=True):
        whole = heading not in _WRAPPED
        shown.add_column(heading, overflow="fold", no_wrap=whole)
        longest = max(Text.from_markup(cell).cell_len for cell in (heading, *column))
        width += 2 + (longest if whole else min(longest, _NARROWEST))
    for cells in lines:
        shown.add_row(*cells)
    console(width).print(shown)


def fields(answer: Any) -> None:
    """A view of one object, a field a line; nested objects as JSON."""
    out = console()
    width = max(len(name) for name in answer)
    for name, value in answer.items():
        if value in (None, [], {}):
            continue
        out.print(f"[bold]{name:<{width}}[/bold]  ", end="")
        out.print(_cell(name, value), soft_wrap=True)


def fires(answer: Any) -> None:
    """A view of coming fires: what the schedule says in words, the instants, what to watch out for."""
    line(answer["explanation"])
    rows(
        [("UTC", "at"), ("LOCAL", "local")],
        [fire | {"local": _weekday(fire["local"])} for fire in answer["fires"]],
    )
    for warning in answer["warnings"]:
        line(f"warning: {warning}", "yellow")


def line(text: str, style: str = "") -> None:
    """Print a line, harmless whatever is in it."""
    console().print(_cell("", text), style=style, soft_wrap=True, highlight=False)


def console(width: int = 0) -> Console:
    """As wide as the terminal, but not narrower than `width`; into a pipe nothing is cut or wrapped.

    A name with :boom: in it stays one.
    """
    if not sys.stdout.isatty():
        return Console(width=max(1000, width), emoji=False)
    return Console(width=max(Console().width, width), emoji=False)


def say(words: str) -> Callable[[Any], None]:
    """A view that prints a sentence made from the answer."""
    return lambda answer: click.echo(words.format(**answer))


def _cell(name: str, value: Any) -> str:
    if value is None:
        return "[dim]–[/dim]"
    if name == "state":
        return f"[{COLOURS.get(value, 'white')}]{value}[/]"
    if name.endswith(_TIME_ENDINGS) and isinstance(value, str):
        return _local(value)
    if isinstance(value, dict | list):
        value = json.dumps(value, ensure_ascii=False)
    return escape(harmless(str(value)))


def harmless(text: str) -> str:
    """The text with whatever a terminal would act on spelled out."""
    return _CONTROL.sub(lambda letter: ascii(letter[0])[1:-1], text)


def _local(text: str) -> str:
    try:
        moment = datetime.fromisoformat(text).astimezone()
    except (OverflowError, ValueError):
        return text  # the year 1 or 9999, which a zone can push over the edge
    return moment.isoformat(sep=" ", timespec="milliseconds" if moment.microsecond else "seconds")


def _weekday(local: str) -> str:
    """A wall clock's time with its day of the week: the first thing people check a schedule by."""
    return f"{datetime.fromisoformat(local):%a} {local.replace('T', ' ')}"
