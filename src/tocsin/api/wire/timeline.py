"""Fires on one axis of past and coming, and by day."""

from typing import Literal

import msgspec

from tocsin.api.wire.pages import Page
from tocsin.api.wire.scalars import Time
from tocsin.domain.ids import JobText

FireState = Literal["succeeded", "dead", "skipped", "cancelled", "expired", "queued", "running", "expected"]


class LaneFire(msgspec.Struct, frozen=True, kw_only=True):
    """One fire of a lane, or a run of equal skips. `expected` ones are not planned yet."""

    at: Time
    state: FireState
    late_ms: float | None = None
    run_ms: float | None = None
    reason: str | None = None
    until: Time | None = None
    """The last fire time of a run of skips."""
    count: int = 1


class Band(msgspec.Struct, frozen=True):
    """How many fires of a lane ended how, within a step from `at` on."""

    at: Time
    counts: dict[FireState, int]


class Lane(msgspec.Struct, frozen=True, kw_only=True):
    """One job's fires, in order: one by one, or as bands where there are more than 120."""

    job: JobText
    name: str | None
    queue: str
    tags: list[str]
    fires: list[LaneFire] | None
    bands: list[Band] | None
    covers_from: Time
    """Before this nothing was read."""
    expected_to: Time
    """Beyond this nothing was foretold."""


class Timeline(Page, frozen=True, kw_only=True):
    """Lanes of a page of jobs."""

    now: Time
    step_s: int
    lanes: list[Lane]


class DayCounts(msgspec.Struct, frozen=True, kw_only=True):
    """How fires of a stretch of time ended, and how many are to come."""

    ran: int = 0
    dead: int = 0
    skipped: dict[str, int] = {}
    cancelled: int = 0
    expired: int = 0
    expected: int = 0
    backfilled: int = 0
    """Of those that ran or died, how many a backfill ran."""


class CalendarHour(DayCounts, frozen=True, kw_only=True):
    """An hour of a day."""

    at: Time


class CalendarDay(DayCounts, frozen=True, kw_only=True):
    """A day of a zone. It has 23 or 25 hours where the clock changes."""

    date: str
    begins: Time
    hour_count: int
    hours: list[CalendarHour] | None = None
    """Where at most a week was asked for."""


class JobCalendar(msgspec.Struct, frozen=True, kw_only=True):
    """A job's days."""

    zone: str
    covers_from: Time
    days: list[CalendarDay]
