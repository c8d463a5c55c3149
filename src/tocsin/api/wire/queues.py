"""Queues: how deep they are, who serves them, whether they are paused. Counts are capped: "at least" where
they say so."""

import msgspec

from tocsin.api.wire.actions import Reason
from tocsin.api.wire.pages import Listing
from tocsin.api.wire.scalars import Time
from tocsin.api.wire.stats import Count, Due


class QueuePause(msgspec.Struct, frozen=True):
    """A pause that lasts."""

    since: Time
    by: str
    """The key that paused it, or `system`."""
    reason: str | None
    until: Time | None


class QueueLimits(msgspec.Struct, frozen=True):
    """The tenant's limits that hold for what its queues start; null is none."""

    in_flight: int | None
    fires_per_second: float | None


class Queue(msgspec.Struct, frozen=True, kw_only=True):
    """A queue of a tenant as it stands."""

    name: str
    tenant: str
    paused: QueuePause | None
    due: Due
    running: Count
    per_minute: list[int]
    """Executions that ended in each of the last ten minutes, the latest last."""
    workers: int
    """Live workers that serve it."""
    limits: QueueLimits


class QueueDepth(msgspec.Struct, frozen=True):
    """What is due in one lane of a queue. Priority 10 is the catch-up lane of missed fires."""

    priority: int
    tenant: str
    due: Due


class QueueDetail(Queue, frozen=True, kw_only=True):
    """A queue with what is due by priority."""

    depth: list[QueueDepth]


class QueueList(Listing, frozen=True, kw_only=True):
    """Queues, by name."""

    items: list[Queue]


class PauseQueue(Reason, frozen=True):
    """A pause, for good or until an instant."""

    until: Time | None = None


class ResumeQueue(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """With `dry_run` nothing is changed."""

    dry_run: bool = False


class QueuePaused(msgspec.Struct, frozen=True):
    """The queue, and how many executions were taken back from workers that had claimed them ahead."""

    queue: QueueDetail
    held: int


class QueueResumed(msgspec.Struct, frozen=True):
    """The queue, and what of it starts as soon as workers have room."""

    queue: QueueDetail
    dry_run: bool
    ready: Count
    """What runs."""
    missed: Count
    """Recurring fires whose grace is over: their misfire policies decide which of them run."""
