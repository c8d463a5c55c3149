"""`tocsin top`: the fleet as it works, in a terminal."""

import sys
import time
from typing import Any

import click
import msgspec
from rich.console import Console
from rich.live import Live

from tocsin.cli.client import ApiError, Client
from tocsin.cli.show import api_command, console
from tocsin.cli.top_picture import Picture, look
from tocsin.cli.top_screen import Screen, Wish, pressed
from tocsin.cli.top_view import drawn


@click.command()
@click.option(
    "--every", type=click.FloatRange(0.5, 3600), default=2.0, show_default=True, help="Seconds between looks."
)
@click.option("--once", is_flag=True, help="Print one picture and exit, as without a terminal.")
@api_command
def top(client: Client, every: float, once: bool) -> tuple[Any, Any]:
    """Watch what runs, waits, ends and fails; hold queues, cancel and explain executions by keys.

    \b
    Examples:
      tocsin top
      tocsin top --every 5
      tocsin top --once --json
    """
    picture = look(client)
    if once or not (sys.stdin.isatty() and sys.stdout.isatty()):
        return msgspec.to_builtins(picture), lambda _: console().print(drawn(picture, Screen(), client.url))
    _watch(client, picture, every)
    return None, lambda _: None


def _watch(client: Client, picture: Picture, every: float) -> None:
    from tocsin.cli.pressed_keys import keyboard  # noqa: PLC0415 - needs a terminal of this kind

    screen, next_look = Screen(), time.monotonic() + every
    with keyboard() as keys, Live(console=Console(emoji=False), screen=True, auto_refresh=False) as live:
        while True:
            live.update(drawn(picture, screen, client.url), refresh=True)
            key = keys.key(next_look - time.monotonic())
            wish = None
            if key is not None:
                screen, wish = pressed(screen, picture, key)
            if wish is not None and wish.deed == "quit":
                return
            if wish is not None:
                screen = msgspec.structs.replace(screen, told=carry_out(client, wish))
            if wish is not None or time.monotonic() >= next_look:
                picture, screen = _looked(client, picture, screen)
                next_look = time.monotonic() + every


def _looked(client: Client, picture: Picture, screen: Screen) -> tuple[Picture, Screen]:
    """A new picture. While nothing answers the old one stays, and the screen says so."""
    try:
        return look(client), screen
    except ApiError as error:
        return picture, msgspec.structs.replace(screen, told=(f"not up to date: {error.message}",))


def carry_out(client: Client, wish: Wish) -> tuple[str, ...]:
    """Do it, and say what came of it."""
    try:
        match wish.deed:
            case "pause":
                held = client.post("queues", wish.what, "pause", body={"reason": "paused in tocsin top"})[
                    "held"
                ]
                return (
                    f"{wish.what} is paused; {held:,} executions taken back from workers, and nothing is lost",
                )
            case "resume":
                client.post("queues", wish.what, "resume", body={"dry_run": False})
                return (f"{wish.what} goes on",)
            case "cancel":
                body = {"reason": "cancelled in tocsin top"}
                return (
                    f"{wish.what}: {client.post('executions', wish.what, 'cancel', body=body)['answer']}",
                )
            case _:
                return tuple(client.get("executions", wish.what, "explain")["explanation"])
    except ApiError as error:
        return (error.message,)
