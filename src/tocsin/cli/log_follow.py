"""Log lines as they come: `tocsin executions logs --follow`.

Whole pages are read once. The last one is read again until the execution is over, and once more after that:
no line that was written in between is missed.
"""

from typing import Any, Final

import click

from tocsin.cli.client import Client
from tocsin.cli.show import line
from tocsin.domain.lifecycle import FINAL

_WAIT: Final = "1s"


def follow_logs(client: Client, execution_id: str, page: dict[str, Any]) -> None:
    """Print lines until the execution is over."""
    if click.get_current_context().params.get("as_json"):
        raise click.UsageError("--follow prints lines as they come; leave --json out")
    reader = _Reader(client, execution_id, page)
    over = False
    while not over:
        over = client.get("executions", execution_id, wait=_WAIT)["state"] in FINAL
        reader.print_new()


class _Reader:
    """What was printed so far, and where to read on."""

    def __init__(self, client: Client, execution_id: str, page: dict[str, Any]) -> None:
        self._client = client
        self._execution_id = execution_id
        self._limit = page["limit"]
        self._cursor = page["cursor"]
        self._printed = 0
        """Lines of the page at the cursor that were printed."""

    def print_new(self) -> None:
        """Print what came since the last look."""
        while True:
            found = self._client.get(
                "executions", self._execution_id, "logs", limit=self._limit, cursor=self._cursor
            )
            for one in found["items"][self._printed :]:
                _print(one)
            self._printed = len(found["items"])
            if not found["next_cursor"]:
                return
            self._cursor, self._printed = found["next_cursor"], 0


def _print(one: dict[str, Any]) -> None:
    more = "".join(f" {name}={value}" for name, value in (one["fields"] or {}).items())
    line(f"{one['at']} #{one['attempt']} {one['level']:<8} {one['message']}{more}")
