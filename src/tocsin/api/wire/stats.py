"""Numbers for people who look. A capped count means "at least"; a window may be shorter than an hour where much happens."""

from typing import Literal

import msgspec

from tocsin.api.wire.scalars import Time
from tocsin.domain.ids import ExecutionText, JobText


class Count(msgspec.Struct, frozen=True):
    """A number; at least that if it is capped."""

    count: int
    capped: bool


class Due(msgspec.Struct, frozen=True):
    """What is due and waits."""

    count: int
    capped: bool
    oldest_ms: float | None


class Ended(msgspec.Struct, frozen=True):
    """How executions ended, by final state."""

    succeeded: int
    dead: int
    skipped: int
    cancelled: int
    expired: int


class Lateness(msgspec.Struct, frozen=True):
    """How late executions started, in milliseconds, and which share started within a second."""

    p50_ms: float | None
    p99_ms: float | None
    on_time: float | None


class Need(msgspec.Struct, frozen=True):
    """Something that a person should look at, the most urgent first. `link` is a page of the dashboard."""

    kind: Literal["dead", "overdue", "late", "node", "paused"]
    text: str
    count: int
    link: str
    since: Time | None = None


class Summary(msgspec.Struct, frozen=True, kw_only=True):
    """How a tenant's work stands."""

    now: Time
    running: Count
    due: Due
    window_s: int
    """How many seconds back `ended` and `late` reach: an hour, or less if more ended than is counted."""
    ended: Ended
    late: Lateness
    dead_24h: Count
    recurring_jobs: Count
    paused_jobs: Count
    needs_you: list[Need]


class Bucket(msgspec.Struct, frozen=True):
    """What ended within a step from `at` on."""

    at: Time
    succeeded: int
    dead: int
    skipped: int
    cancelled: int
    expired: int
    p50_ms: float | None
    p99_ms: float | None


class Series(msgspec.Struct, frozen=True):
    """Buckets in which something ended. Before `covers_from` nothing was counted."""

    step_s: int
    covers_from: Time
    items: list[Bucket]


class ErrorGroup(msgspec.Struct, frozen=True, kw_only=True):
    """Dead letters of one kind of error."""

    fingerprint: str | None
    status: str | None
    error: str | None
    count: int
    jobs: int
    last_hour: int
    first_at: Time
    last_at: Time
    sample: ExecutionText


class ErrorGroups(msgspec.Struct, frozen=True):
    """Kinds of errors, the most frequent first; `capped` if older dead letters were not counted."""

    capped: bool
    items: list[ErrorGroup]


class ComingFire(msgspec.Struct, frozen=True):
    """A fire that is to come. `execution` is there once it is planned."""

    at: Time
    job_id: JobText
    name: str | None
    execution: ExecutionText | None
    attempt: int


class ComingFires(msgspec.Struct, frozen=True):
    """The next fires, soonest first: all that are planned, and of each recurring job the first that is not."""

    items: list[ComingFire]
