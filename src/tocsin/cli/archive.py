"""`tocsin archive …`: which days are in the archive, and whether their files are what they were."""

import os
from collections.abc import Callable, Iterator
from typing import Any, Final

import click

from tocsin.archive.objects import check_archive, check_extra
from tocsin.archive.work import Check, Part, Place, perform
from tocsin.cli.client import Client
from tocsin.cli.groups import Group
from tocsin.cli.show import api_command, line, rows, table
from tocsin.domain.errors import Refused, Unavailable

WHOLE: Final = ("verified", "dropped")
"""States in which a file is what it should be."""
_PAGE: Final = 500
_WRONG: Final = 1
_SECONDS: Final = 600.0
_TABLE = table(
    [
        ("DAY", "day"), ("TABLE", "table"), ("PART", "part"), ("STATE", "state"), ("ROWS", "rows"), ("BYTES", "bytes"),
        ("FILE", "object"), ("PROBLEM", "trouble"),
    ]
)  # fmt: skip


def place_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Where the files are, for commands that read them."""
    words = "Where the bucket is, if not at Amazon.  [default: TOCSIN_ARCHIVE_ENDPOINT]"
    command = click.option("--archive-endpoint", metavar="URL", help=words)(command)
    words = "A directory, or s3://bucket/prefix.  [default: TOCSIN_ARCHIVE]"
    return click.option("--archive", "where", metavar="PLACE", help=words)(command)


def day_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Which days."""
    command = click.option("--to", metavar="DAY", help="Only days before this one.")(command)
    return click.option("--from", metavar="DAY", help="Only this day (in UTC: 2026-11-17) or later ones.")(
        command
    )


@click.group(cls=Group)
def archive() -> None:
    """See which days are in the archive, and check their files. For operators.

    \b
    Examples:
      tocsin archive list --from 2026-11-01
      tocsin archive verify --archive s3://company-tocsin/production
    """


@archive.command("list")
@click.option("--table", type=click.Choice(["history", "audit"]), help="Only days of this table.")
@day_options
@click.option("--limit", type=click.IntRange(1, 500), default=50, show_default=True)
@click.option("--cursor", help="Continue a listing.")
@api_command
def list_archives(client: Client, **options: Any) -> tuple[Any, Any]:
    """List the parts of archived days, the latest day first."""
    return client.get("archives", **options), _TABLE


@archive.command()
@click.option("--table", type=click.Choice(["history", "audit"]), help="Only days of this table.")
@day_options
@place_options
@api_command
def verify(
    client: Client, where: str | None, archive_endpoint: str | None, **options: Any
) -> tuple[Any, ...]:
    """Read files back and compare them with what the database held: bytes, rows, content.

    Exits with 1 if a file differs. Needs tocsin[archive] on this machine, and access to the files.
    """
    place = place_of(where, archive_endpoint)
    looked, wrong = 0, []
    for item in files(client, options):
        part = part_of(item)
        check = Check(place=place, seconds=_SECONDS, table=item["table"], part=part)
        looked += 1
        try:
            trouble = perform(check)
        except Unavailable as error:
            trouble = str(error)
        if trouble is not None:
            wrong.append({"object": part.object, "problem": trouble})
    answer = {"verified": looked - len(wrong), "wrong": wrong}
    return answer, _verified, *([_WRONG] if wrong else [])


def place_of(where: str | None, endpoint: str | None) -> Place:
    """Where the archive is: by an option, or as the processes of the fleet are told."""
    where = where or os.environ.get("TOCSIN_ARCHIVE") or None
    endpoint = endpoint or os.environ.get("TOCSIN_ARCHIVE_ENDPOINT") or None
    if where is None:
        raise click.UsageError("--archive or TOCSIN_ARCHIVE says where the files are")
    try:
        check_archive(where, endpoint)
        check_extra()
    except Refused as error:
        raise click.UsageError(f"{error.field}: {error.detail}") from None
    return Place(where, endpoint)


def files(client: Client, options: dict[str, Any]) -> Iterator[Any]:
    """Parts with files that are whole."""
    cursor = None
    while True:
        page = client.get("archives", **options, limit=_PAGE, cursor=cursor)
        yield from (item for item in page["items"] if item["object"] and item["state"] in WHOLE)
        cursor = page["next_cursor"]
        if cursor is None:
            return


def part_of(item: Any) -> Part:
    """What the API says of a file."""
    return Part(item["object"], item["sha256"], item["rows"], item["content"], item["edition"])


def _verified(answer: Any) -> None:
    good = answer["verified"]
    line(
        f"{good} {'file is what it was' if good == 1 else 'files are what they were'}",
        "green" if good else "",
    )
    if answer["wrong"]:
        line(f"{len(answer['wrong'])} not:", "red")
        rows([("FILE", "object"), ("PROBLEM", "problem")], answer["wrong"])
