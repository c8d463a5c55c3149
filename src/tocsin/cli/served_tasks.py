"""`tocsin tasks list`: which tasks are served, by how many workers, under which revisions."""

from collections.abc import Iterable, Iterator
from typing import Any

import click

from tocsin.cli.client import Client
from tocsin.cli.show import api_command, table

_TABLE = table([("TASK", "task"), ("WORKERS", "workers"), ("QUEUES", "queues"), ("REVISIONS", "revisions")])


@click.command("list")
@api_command
def list_tasks(client: Client) -> tuple[Any, Any]:
    """List the tasks that live workers serve, and how many serve each."""
    return {"items": served(_live_workers(client))}, _TABLE


def _live_workers(client: Client) -> Iterator[dict[str, Any]]:
    cursor = None
    while True:
        page = client.get("workers", limit=500, cursor=cursor)
        yield from page["items"]
        cursor = page["next_cursor"]
        if cursor is None:
            return


def served(workers: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Tasks by name. A worker that drains knows a task, and takes no more of it."""
    found: dict[str, dict[str, Any]] = {}
    for worker in workers:
        for task in worker["tasks"]:
            of = found.setdefault(task, {"task": task, "workers": 0, "queues": set(), "revisions": set()})
            if worker["state"] == "active":
                of["workers"] += 1
                of["queues"].update(worker["queues"])
                of["revisions"].update(filter(None, [worker["revision"]]))
    return [
        of | {"queues": sorted(of["queues"]), "revisions": sorted(of["revisions"])}
        for _, of in sorted(found.items())
    ]
