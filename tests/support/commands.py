"""Every command of the command line, by its whole name."""

from collections.abc import Iterator

import click

from tocsin.cli.main import cli


def every_command(*path: str) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    """The command or group at `path` of words, those below it, and how each is called."""
    context = click.Context(cli)
    command: click.Command = cli
    for word in path:
        assert isinstance(command, click.Group)
        found = command.get_command(context, word)
        assert found is not None, f"there is no command `tocsin {' '.join(path)}`"
        command = found
    if path:
        yield path, command
    if isinstance(command, click.Group):
        for word in command.list_commands(context):
            yield from every_command(*path, word)


def leaves() -> Iterator[tuple[str, click.Command]]:
    """Those that do something."""
    for path, command in every_command():
        if not isinstance(command, click.Group):
            yield " ".join(("tocsin", *path)), command
