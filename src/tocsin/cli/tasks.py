"""`tocsin tasks …`: run the tasks of an app, and see which tasks are served.

What the commands that run tasks do and take is the SDK's: it has a command line of its own where the server
is not installed.
"""

import sys
from typing import Any

import click

from tocsin.cli.client import local_key
from tocsin.cli.groups import Group
from tocsin.cli.served_tasks import list_tasks
from tocsin.domain.errors import TocsinError
from tocsin.sdk.command import COMMANDS, Command, Option, obey


@click.group(cls=Group)
def tasks() -> None:
    """Run functions of your own.

    \b
    Examples:
      tocsin tasks serve shop.tasks:app --concurrency 50
      tocsin tasks list
    """


def _click_command(command: Command) -> click.Command:
    def callback(app: str, **options: Any) -> None:
        try:
            code = obey(command, app, options, local_key)
        except TocsinError as error:
            raise click.ClickException(str(error)) from None
        sys.exit(code)

    parameters = [click.Argument(["app"], metavar="MODULE:APP"), *map(_click_option, command.options)]
    return click.Command(command.name, params=parameters, callback=callback, help=command.help)


def _click_option(option: Option) -> click.Option:
    if option.kind is bool:
        return click.Option([option.flag], is_flag=True, help=option.help)
    kind: Any = option.kind
    if option.kind is int:
        kind = click.IntRange(_whole(option.least), _whole(option.most))
    elif option.kind is float:
        kind = click.FloatRange(option.least, option.most)
    return click.Option(
        [option.flag],
        type=kind,
        default=option.default,
        show_default=option.default is not None,
        metavar=option.metavar,
        envvar=option.variable,
        help=option.help,
    )


def _whole(number: float | None) -> int | None:
    return None if number is None else int(number)


tasks.add_command(list_tasks)
for _command in COMMANDS:
    tasks.add_command(_click_command(_command))
