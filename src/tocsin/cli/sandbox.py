"""`tocsin sandbox`: a fleet on virtual time, for tests in other languages."""

import asyncio
import sys

import click

from tocsin.domain.errors import Refused, Unavailable
from tocsin.roles.process import stop_on_signals
from tocsin.telemetry import set_up_logging
from tocsin.testing.fleet import KEY
from tocsin.testing.server import serve


@click.command()
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on.")
@click.option(
    "--port", default=8421, show_default=True, type=click.IntRange(1, 65_535), help="Port to listen on."
)
def sandbox(host: str, port: int) -> None:
    """Run everything on virtual time, for tests: time passes when a test says so, at /sandbox/clock.

    It has a database of its own, which is deleted at the end.
    """
    set_up_logging("auto", "warning")

    def ready() -> None:
        click.echo(f"sandbox at http://{host}:{port}; TOCSIN_API_KEY={KEY}")
        sys.stdout.flush()

    async def work() -> None:
        await serve(host, port, stop_on_signals(), ready)

    try:
        asyncio.run(work())
    except (Refused, Unavailable) as error:
        raise click.ClickException(str(error)) from None
