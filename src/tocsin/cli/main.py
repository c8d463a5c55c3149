"""The `tocsin` command: processes of the fleet, and everything a person does with them over HTTP.

A command is imported when it is called for: a person who lists jobs does not wait for what a server needs.
"""

import sys
from importlib import import_module
from keyword import iskeyword
from typing import Final

import click

import tocsin

_COMMANDS: Final = {
    "processes": ("serve", "api", "engine", "scheduler", "worker", "migrate"),
    "jobs": ("jobs",),
    "preview": ("preview",),
    "imports": ("import",),
    "completion": ("completion",),
    "plan": ("plan", "apply", "export", "schema"),
    "trial": ("try",),
    "executions": ("executions",),
    "operations": ("operations",),
    "backfills": ("backfills",),
    "queues": ("queues",),
    "calendars": ("calendars",),
    "connections": ("connections",),
    "alerts": ("alerts",),
    "secrets": ("secrets", "webhook-secret"),
    "dead_letters": ("dead-letters",),
    "tenants": ("tenants",),
    "keys": ("keys",),
    "whoami": ("whoami",),
    "audit": ("audit",),
    "archive": ("archive",),
    "history": ("history",),
    "fleet": ("shards", "nodes", "system"),
    "doctor": ("doctor",),
    "workers": ("workers",),
    "tasks": ("tasks",),
    "stats": ("stats", "tallies"),
    "top": ("top",),
    "forecast": ("forecast",),
    "dashboard": ("dashboard",),
    "bench": ("bench",),
    "conformance": ("conformance",),
    "sandbox": ("sandbox",),
    "outbox": ("outbox",),
}
"""What each module of this folder has for the user."""
_HOMES: Final = {command: module for module, commands in _COMMANDS.items() for command in commands}


class LateCommands(click.Group):
    """A group that finds its commands by their names, and imports them then."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted((*super().list_commands(ctx), *_HOMES))

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        home = _HOMES.get(cmd_name)
        if home is None:
            return super().get_command(ctx, cmd_name)
        word = cmd_name.replace("-", "_")
        name = f"{word}_" if iskeyword(word) else word
        command: click.Command = getattr(import_module(f"tocsin.cli.{home}"), name)
        return command


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
