"""`tocsin history …`: what ended, for people who analyse it."""

import json
from typing import Any

import click

from tocsin.archive.tables import TABLES
from tocsin.archive.work import Query, Told, perform
from tocsin.cli.archive import day_options, files, part_of, place_of, place_options
from tocsin.cli.client import Client, connect
from tocsin.cli.groups import Group
from tocsin.cli.show import api_command, line, rows
from tocsin.domain.errors import Refused, Unavailable

_PAGE = 500
_MOST_SHOWN = 1000
_SECONDS = 3600.0


@click.group(cls=Group)
def history() -> None:
    """Export finished executions; query the archive in SQL.

    \b
    Examples:
      tocsin history export --from 2026-11-01T00:00:00Z --output november.ndjson
      tocsin history query "SELECT queue, state, count(*) FROM history GROUP BY ALL"
    """


@history.command()
@click.option(
    "--from",
    "finished_from",
    metavar="INSTANT",
    required=True,
    help="Only executions that ended at or after this instant.",
)
@click.option(
    "--to", "finished_to", metavar="INSTANT", help="Only executions that ended before this instant."
)
@click.option("--state", help="Only executions in this state.")
@click.option("--queue", help="Only executions of this queue.")
@click.option("--job", help="Only executions of this job.")
@click.option(
    "--output", type=click.File("w"), default="-", help="Where to write.  [default: standard output]"
)
@click.option("--url", help="Where the API is.  [default: TOCSIN_URL or http://127.0.0.1:8420]")
@click.option("--key", help="API key.  [default: TOCSIN_API_KEY or the local data directory's]")
@click.option("--tenant", help="Act for this tenant; for operators' keys.")
def export(output: Any, url: str | None, key: str | None, tenant: str | None, **filters: Any) -> None:
    """Write finished executions, latest first, one JSON object a line (NDJSON).

    They come from the database and, further back, from the archive.
    """
    client, cursor = connect(url, key, tenant), None
    while True:
        page = client.get("executions", **filters, limit=_PAGE, cursor=cursor)
        for execution in page["items"]:
            output.write(json.dumps(execution, ensure_ascii=False) + "\n")
        cursor = page["next_cursor"]
        if cursor is None:
            return


@history.command()
@click.argument("sql")
@day_options
@place_options
@api_command
def query(
    client: Client, sql: str, where: str | None, archive_endpoint: str | None, **days: Any
) -> tuple[Any, Any]:
    """Query the archive in SQL: the tables are `history` and `audit`, of all tenants. For operators.

    The dialect is duckdb's. Days that are still in the database are included once they are archived. Needs
    tocsin[archive] on this machine, and access to the files.
    """
    place = place_of(where, archive_endpoint)
    parts = {name: [part_of(item) for item in files(client, days | {"table": name})] for name in TABLES}
    task = Query(place=place, seconds=_SECONDS, tables=parts, statement=sql)
    try:
        told: Told = perform(task)
    except (Refused, Unavailable) as error:
        raise click.ClickException(str(error)) from None
    items = [dict(zip(told.columns, row, strict=True)) for row in told.rows]
    return {"items": json.loads(json.dumps(items, default=str))}, lambda answer: _told(
        told.columns, answer["items"]
    )


def _told(columns: list[str], items: list[Any]) -> None:
    rows([(name.upper(), name) for name in columns], items[:_MOST_SHOWN])
    if len(items) > _MOST_SHOWN:
        line(f"and {len(items) - _MOST_SHOWN:,} more: --json has them", "dim")
