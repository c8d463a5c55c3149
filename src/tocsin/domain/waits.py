"""What held an execution back, and from when to when. Pure values over what its row keeps.

Statements that put an execution back note the wait (`further_wait` in SQL); the statement that starts it late
notes what its worker knows of the time between run time and start (`late_for`). So each second that an
execution was late has one of these reasons, or none was recorded, and `explain` says that.
"""

from collections.abc import Sequence
from enum import StrEnum
from itertools import zip_longest
from typing import Final

import msgspec

from tocsin.domain.instant import SECOND, Instant, Span

LATE: Final[Span] = SECOND
"""What starts later than this after its run time has a reason recorded."""


class Reason(StrEnum):
    """What an execution waits for. Some are of a kind, which stands before a colon (`kind_of`): a row's
    `waits_for` has the kind alone, its `waits` have what was known beyond that."""

    TURN = "turn"  # an earlier execution of its job
    SLOT = "slot"  # a slot of its limit key
    RATE = "rate"  # its place in the rate of its limit key
    TENANT_LIMIT = "tenant_limit"  # its tenant's limits, now one and now the other
    IN_FLIGHT = "tenant_limit:in_flight"  # its tenant's limit of executions in flight
    FIRES = "tenant_limit:fires"  # its tenant's limit of fires per second
    HOST = "host"  # its target's host
    HOST_LINE = "host:line"  # a connection to it: too many calls stand in line
    HOST_REST = "host:rest"  # the end of the rest that the host is given after failures
    HOST_NAME = "host:name"  # the address of the host
    HOST_TOKEN = "host:token"  # noqa: S105 - the end of the rest that the host of its OAuth2 tokens is given
    TASK = "task"  # what its task waits for
    PLACE = "place"  # a place on the worker that starts it
    OTHERS = "place:others"  # one of the workers that were there before the one that starts it
    DESCRIPTORS = "descriptors"  # a file descriptor on a worker
    VERSION = "version"  # a worker that can use it
    NEWER = "version:newer"  # a worker that can read it: a newer version wrote it
    KEY = "version:key"  # a worker with the key of its secrets
    OUTAGE = "outage"  # a worker
    DATABASE = "outage:database"  # the database, which its worker could not reach
    WORKER = "worker"  # another worker: the one that had claimed it died before it started it
    PLANNING = "planning"  # a scheduler that plans it
    SUSPENSION = "suspension"  # the end of its tenant's suspension
    QUEUE_PAUSED = "queue_paused"  # the end of its queue's pause


def kind_of(reason: str) -> str:
    """What a reason is about in general."""
    return reason.partition(":")[0]


class Wait(msgspec.Struct, frozen=True, omit_defaults=True):
    """One wait. It lasts as long as it has no end."""

    reason: str = msgspec.field(name="for")
    since: Instant
    until: Instant | None = None


class Held(msgspec.Struct, frozen=True):
    """A pause of a queue: from when to when, by whom and why. It lasts as long as it has no end."""

    since: Instant
    until: Instant | None
    by: str
    reason: str | None = None


class Timing(msgspec.Struct, frozen=True, kw_only=True):
    """When an execution was due, ran and started for the first time; `run_at` is of its latest attempt."""

    due_at: Instant
    run_at: Instant
    first_start: Instant | None
    retried: bool


def waits_before_start(timing: Timing, kept: Sequence[Wait], late_for: str | None) -> list[Wait]:
    """All waits from due to the first start, in order; the last has no end if it lasts."""
    waits = [_ended(wait, later, timing) for wait, later in zip_longest(kept, kept[1:])]
    if late_for is not None and not timing.retried:
        waits.append(Wait(late_for, max(timing.run_at, timing.due_at), timing.first_start))
    start = timing.first_start
    return [wait for wait in waits if start is None or wait.since < start]


def outside(waits: Sequence[Wait], pauses: Sequence[Held]) -> list[Wait]:
    """What is left of waits beside pauses of the queue: while it was paused, nothing else held the execution
    back."""
    left = list(waits)
    for pause in pauses:
        left = [part for wait in left for part in _without(wait, pause)]
    return left


def _without(wait: Wait, pause: Held) -> list[Wait]:
    if (pause.until is not None and pause.until <= wait.since) or (
        wait.until is not None and wait.until <= pause.since
    ):
        return [wait]
    parts = [msgspec.structs.replace(wait, until=pause.since)] if wait.since < pause.since else []
    if pause.until is not None and (wait.until is None or pause.until < wait.until):
        parts.append(msgspec.structs.replace(wait, since=pause.until))
    return parts


def unexplained(timing: Timing, waits: Sequence[Wait], now: Instant) -> Span:
    """How much of an execution's lateness no wait covers."""
    start = timing.first_start or now
    covered = sum(max(0, min(wait.until or start, start) - max(wait.since, timing.due_at)) for wait in waits)
    return max(0, start - timing.due_at - covered)


def _ended(wait: Wait, later: Wait | None, timing: Timing) -> Wait:
    """An open wait ends when the next begins, or with its row's run time once it has started."""
    if wait.until is not None or (later is None and timing.first_start is None):
        return wait
    end = later.since if later is not None else min(timing.run_at, timing.first_start or timing.run_at)
    return msgspec.structs.replace(wait, until=max(wait.since, end))
