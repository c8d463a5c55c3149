"""Groups of commands whose list in the help is whole: words that are too long go on in the next line."""

import click


class Group(click.Group):
    """A group that cuts no words off."""

    group_class = type

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        found = [(name, self.get_command(ctx, name)) for name in self.list_commands(ctx)]
        with formatter.section("Commands"):
            formatter.write_dl(
                [
                    (name, _words(command))
                    for name, command in found
                    if command is not None and not command.hidden
                ]
            )


def _words(command: click.Command) -> str:
    """The first paragraph of a command's help, whole."""
    return command.get_short_help_str(limit=1000)
