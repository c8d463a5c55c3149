"""Remote workers as people see them."""

from typing import Any, Literal

import msgspec

from tocsin.api.wire.pages import Page
from tocsin.api.wire.scalars import Time
from tocsin.domain.ids import WorkerText, worker_text
from tocsin.domain.instant import MILLISECOND, format_instant


class Worker(msgspec.Struct, frozen=True):
    """A remote worker: what it serves, how busy it is, when it was heard of."""

    id: WorkerText
    name: str
    app: str | None
    revision: str | None
    sdk: str | None
    state: Literal["active", "draining", "gone"]
    queues: list[str]
    tasks: list[str]
    capacity: int
    running: int
    lease_ms: int
    started_at: Time
    seen_at: Time


class WorkerPage(Page, frozen=True, kw_only=True):
    """Remote workers."""

    items: list[Worker]


class Gone(msgspec.Struct, frozen=True):
    """A worker that has left."""

    worker: WorkerText


def worker_view(row: Any) -> Worker:
    """A worker from its row."""
    return Worker(
        id=worker_text(row["id"]),
        name=row["name"],
        app=row["app"],
        revision=row["revision"],
        sdk=row["sdk"],
        state=row["state"],
        queues=list(row["queues"]),
        tasks=list(row["tasks"]),
        capacity=row["capacity"],
        running=row["running"],
        lease_ms=row["lease"] // MILLISECOND,
        started_at=format_instant(row["started_at"]),
        seen_at=format_instant(row["seen_at"]),
    )
