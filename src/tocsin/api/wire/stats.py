"""Numbers for people who look. A capped count means "at least"; a window may be shorter than an hour where
much happens."""

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
    """How late executions started, in milliseconds."""

    p50_ms: float | None
    p99_ms: float | None


class Need(msgspec.Struct, frozen=True):
    """Something that a person should look at, the most urgent first. `link` is a page of the dashboard.
    `since` is when a `key` ends, else when it began."""

    kind: Literal["alert", "overdue", "node", "dead", "late", "key", "paused"]
    text: str
    count: int
    link: str
    since: Time | None = None


class Paused(msgspec.Struct, frozen=True):
    """What is paused."""

    jobs: Count
    queues: int


class Summary(msgspec.Struct, frozen=True, kw_only=True):
    """How a tenant's work stands. `running` and `due` are the tenant's; `held` and `capacity` are the
    fleet's, for operators."""

    now: Time
    running: Count
    held: int | None
    """Executions that workers have claimed and keep in memory until their instant."""
    capacity: int | None
    """Calls that the live workers can make at once."""
    due: Due
    ended_1h: Ended
    late_1h: Lateness
    on_time_1h: float | None
    """The share of what should have started within the last hour that did so within a second. What is due and
    waits is not on time."""
    dead_24h: Count
    recurring_jobs: Count
    paused: Paused
    needs_you: list[Need]


class SeriesLine(msgspec.Struct, frozen=True):
    """One series: a number for each of the buckets."""

    key: str
    fires: list[int]
    p50_ms: list[float | None]
    p99_ms: list[float | None]


class Series(msgspec.Struct, frozen=True, kw_only=True):
    """What ended in each step from the instants in `at` on, by what was asked for, and in all. Before
    `covers_from` nothing was counted."""

    step_s: int
    at: list[Time]
    series: list[SeriesLine]
    total: SeriesLine
    behind_s: int
    """Of how many last seconds something may be missing."""
    covers_from: Time


class LagMap(msgspec.Struct, frozen=True, kw_only=True):
    """How late executions started: for each step from the instants in `at` on, how many within each bound.
    The last number of each is what was later than all bounds."""

    step_s: int
    bounds_ms: list[int]
    at: list[Time]
    counts: list[list[int]]
    behind_s: int


class ComingFire(msgspec.Struct, frozen=True):
    """A fire that is to come. `execution` is there once it is planned."""

    at: Time
    job_id: JobText
    name: str | None
    execution: ExecutionText | None
    attempt: int


class ComingFires(msgspec.Struct, frozen=True):
    """The next fires, soonest first: all that are planned, and of each recurring job the first that is
    not."""

    items: list[ComingFire]
