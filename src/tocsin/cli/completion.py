"""`tocsin completion`: what a shell needs to complete commands and options."""

import click
from click.shell_completion import get_completion_class

_HOW = {
    "bash": 'eval "$(tocsin completion bash)"  # in ~/.bashrc',
    "zsh": 'eval "$(tocsin completion zsh)"  # in ~/.zshrc, after compinit',
    "fish": "tocsin completion fish > ~/.config/fish/completions/tocsin.fish",
}


@click.command()
@click.argument("shell", type=click.Choice(list(_HOW)))
@click.pass_context
def completion(ctx: click.Context, shell: str) -> None:
    """Print the script that completes commands and options in a shell.

    \b
    Examples:
      eval "$(tocsin completion bash)"
      tocsin completion fish > ~/.config/fish/completions/tocsin.fish
    """
    made = get_completion_class(shell)
    if made is None:
        raise click.UsageError(f"no completion for {shell}")
    click.echo(made(ctx.find_root().command, {}, "tocsin", "_TOCSIN_COMPLETE").source())
