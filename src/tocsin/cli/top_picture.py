"""What `tocsin top` shows: one look at the API."""

from datetime import UTC, datetime, timedelta
from typing import Any, Final

import msgspec

from tocsin.cli.client import ApiError, Client

_SHOWN: Final = 12
"""Executions that are asked for, running and ended each."""
_PLOTTED: Final = timedelta(minutes=15)
_STEP: Final = "15s"


class Picture(msgspec.Struct, frozen=True):
    """How it stood at one moment, as the API told it."""

    summary: dict[str, Any]
    series: dict[str, Any]
    queues: list[dict[str, Any]]
    running: list[dict[str, Any]]
    ended: list[dict[str, Any]]
    nodes: list[dict[str, Any]] | None
    """None for a key that may not see the fleet."""


def look(client: Client) -> Picture:
    """Ask for all of it."""
    since = (datetime.now(UTC) - _PLOTTED).isoformat(timespec="seconds").replace("+00:00", "Z")
    return Picture(
        summary=client.get("stats", "summary"),
        series=client.get("stats", "series", group="none", step=_STEP, **{"from": since}),
        queues=client.get("queues")["items"],
        running=client.get("executions", state="running", limit=_SHOWN)["items"],
        ended=client.get("executions", over="true", limit=_SHOWN)["items"],
        nodes=_nodes(client),
    )


def _nodes(client: Client) -> list[dict[str, Any]] | None:
    try:
        nodes: list[dict[str, Any]] = client.get("nodes")["items"]
    except ApiError as error:
        if error.status == 403:
            return None
        raise
    return nodes
