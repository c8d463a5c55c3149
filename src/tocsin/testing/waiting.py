"""Calls that are enqueued and not over, as the sandbox sees them, or as a transaction of the test does."""

import importlib
from datetime import datetime
from typing import Any, Final
from uuid import UUID

import msgspec

from tocsin.domain.cells import CELL
from tocsin.domain.ids import ExecutionKey, execution_text
from tocsin.domain.instant import to_datetime
from tocsin.sdk.transactions import connection_kind

WAITING: Final = (
    "SELECT CAST(e.job_id AS text), CAST(extract(epoch FROM e.fire_at) * 1000000 AS bigint),"  # noqa: S608
    " CAST(extract(epoch FROM e.run_at) * 1000000 AS bigint), CAST(j.target AS text) FROM tocsin.executions e"
    f" JOIN tocsin.jobs j ON j.cell = e.cell AND j.id = e.job_id WHERE e.cell = {CELL} AND e.route = {{route}}"
    " ORDER BY e.run_at, e.job_id"
)


class Waiting(msgspec.Struct, frozen=True):
    """A call that is enqueued and not over."""

    id: str
    run_at: datetime
    payload: Any


def waiting_of(row: Any) -> Waiting:
    """A call from a row of the statement."""
    job_id, fire_at, run_at, target = row
    return Waiting(
        execution_text(ExecutionKey(UUID(job_id), fire_at)),
        to_datetime(run_at),
        msgspec.json.decode(target).get("payload"),
    )


def rows_in(connection: Any, route: str) -> list[Any]:
    """The rows that a connection sees, those of its own open transaction among them."""
    if isinstance(connection, str):
        connection = importlib.import_module("django.db").connections[connection]
    if connection_kind(connection) == "sqlalchemy":
        text = importlib.import_module("sqlalchemy").text
        return [
            tuple(row) for row in connection.execute(text(WAITING.format(route=":route")), {"route": route})
        ]
    if not hasattr(connection, "cursor"):
        raise TypeError(f"{type(connection).__qualname__} is no connection that blocks")
    cursor = connection.cursor()
    try:
        cursor.execute(WAITING.format(route="%s"), (route,))
        return list(cursor.fetchall())
    finally:
        cursor.close()
