"""`tocsin outbox …`: tasks out of the transactions of other databases."""

import threading
from typing import Any

import click

from tocsin.cli.groups import Group
from tocsin.domain.errors import TocsinError
from tocsin.sdk.client.sync import Client
from tocsin.sdk.outbox import Relay
from tocsin.sdk.outbox import install as install_table

_DSN = click.option(
    "--dsn",
    required=True,
    envvar="TOCSIN_OUTBOX_DSN",
    help="sqlite:///shop.db, or postgresql://user@host/shop",
)
_LONGEST_PAUSE = 30.0


@click.group(cls=Group)
def outbox() -> None:
    """Enqueue in the transactions of a database that is not Tocsin's.

    \b
    Examples:
      tocsin outbox install --dsn postgresql://shop@db/shop
      tocsin outbox relay --dsn postgresql://shop@db/shop
    """


@outbox.command()
@_DSN
def install(dsn: str) -> None:
    """Create the table tocsin_outbox in your database, unless it exists."""
    _spoken(install_table, dsn)
    click.echo("the table tocsin_outbox is ready")


@outbox.command()
@_DSN
@click.option(
    "--every",
    default=1.0,
    show_default=True,
    type=click.FloatRange(0.01),
    metavar="SECONDS",
    help="How often to look.",
)
@click.option("--once", is_flag=True, help="Send the rows that are there, and exit.")
@click.option("--url", envvar="TOCSIN_URL", help="Where the API is.")
@click.option("--api-key", envvar="TOCSIN_API_KEY", help="A key with the scope write.")
def relay(dsn: str, every: float, once: bool, url: str | None, api_key: str | None) -> None:
    """Send the rows of the outbox to Tocsin, and delete the accepted ones."""
    with _spoken(Client, url, api_key) as client:
        made = _spoken(Relay.open, dsn, client)
        try:
            if once:
                _spoken(_empty, made)
            else:
                _go_on(made, every)
        except KeyboardInterrupt:
            pass
        finally:
            made.close()


def _empty(made: Relay) -> None:
    sent = 0
    while number := made.run_once():
        sent += number
    click.echo(f"{sent} sent")


def _go_on(made: Relay, every: float) -> None:
    """For ever. While the server is away, or wants nothing of us, rows wait where they are."""
    pause, waiting = every, threading.Event()
    while True:
        try:
            pause = 0.0 if made.run_once() else every
        except TocsinError as error:
            pause = min(max(2 * pause, every), _LONGEST_PAUSE)
            click.echo(f"{error}; tried again in {pause:.0f} s", err=True)
        waiting.wait(pause)


def _spoken(call: Any, *args: Any) -> Any:
    """What a call answers; what it refuses is said in words."""
    try:
        return call(*args)
    except TocsinError as error:
        raise click.ClickException(str(error)) from None
