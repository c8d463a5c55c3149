"""The `tocsin` command: processes of the fleet, and everything a person does with them over HTTP.

A command is imported when it is called for: a person who lists jobs does not wait for what a server needs.
"""

import sys
from difflib import get_close_matches
from importlib import import_module
from keyword import iskeyword
from typing import Final

import click
from click.shell_completion import CompletionItem

import tocsin
from tocsin.cli.contents import ENTRIES, SECTIONS

_COLUMN: Final = max(map(len, ENTRIES))


class LateCommands(click.Group):
    """A group that finds its commands by their names, and imports them then. What it has, it knows without
    importing any."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted((*super().list_commands(ctx), *ENTRIES))

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        entry = ENTRIES.get(cmd_name)
        if entry is None:
            return super().get_command(ctx, cmd_name)
        word = cmd_name.replace("-", "_")
        name = f"{word}_" if iskeyword(word) else word
        command: click.Command = getattr(import_module(f"tocsin.cli.{entry.module}"), name)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        word = args[0]
        if word not in ENTRIES and not word.startswith("-"):
            near = get_close_matches(word, ENTRIES, 3)
            meant = f" Did you mean {' or '.join(near)}?" if near else ""
            ctx.fail(f"No such command {word!r}.{meant}")
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002 - click's
        for heading, entries in SECTIONS.items():
            with formatter.section(heading):
                formatter.write_dl([(entry.name.ljust(_COLUMN), entry.words) for entry in entries])

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        own = [
            CompletionItem(entry.name, help=entry.words)
            for entry in ENTRIES.values()
            if entry.name.startswith(incomplete)
        ]
        return [*own, *click.Command.shell_complete(self, ctx, incomplete)]


@click.group(
    cls=LateCommands,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110},
)
@click.version_option(tocsin.__version__, prog_name="tocsin")
def cli() -> None:
    """Tocsin: a distributed job scheduler on PostgreSQL.

    Start with `tocsin serve`, then `tocsin jobs create --help`. Every option of the processes can also be set
    as TOCSIN_<NAME> in the environment.
    """


def main() -> None:
    """Entry point."""
    try:
        cli(standalone_mode=True)
    except KeyboardInterrupt:
        sys.exit(130)
