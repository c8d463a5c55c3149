"""The load to come, and how a schedule would fit into it."""

import msgspec

from tocsin.api.wire.scalars import Time
from tocsin.api.wire.schedules import WrittenSchedule
from tocsin.domain.ids import JobText


class PeakJob(msgspec.Struct, frozen=True):
    """Jobs with one schedule that fire in a peak: one of them, how many there are, and their fires
    together."""

    id: JobText
    name: str | None
    jobs: int
    fires: int


class Peak(msgspec.Struct, frozen=True):
    """A minute with far more fires than usual."""

    at: Time
    fires: int
    jobs: list[PeakJob]


class Forecast(msgspec.Struct, frozen=True, kw_only=True):
    """Expected fires per step, from `at` on."""

    step_s: int
    at: list[Time]
    expected: list[float]
    """Of recurring jobs; jitter spreads them, so a bucket may have a part of one."""
    one_offs: list[int]
    capacity: int | None
    """Calls that the fleet can make at once, for operators."""
    peaks: list[Peak]
    free: list[Time]
    """Minutes with the fewest fires."""
    capped: bool
    """Whether there are more jobs than were summed up: then there is more to come."""
    computed_at: Time | None
    """When the oldest part of it was computed; null if no scheduler has looked yet."""
    age_s: int | None
    """How long ago that was. One-offs are as of now."""


class FitRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A schedule that may be saved."""

    schedule: WrittenSchedule


class Fit(msgspec.Struct, frozen=True, kw_only=True):
    """How a schedule would fit into the coming day."""

    peak: int
    """The fires of the busiest minute of the day."""
    at: Time | None
    """The busiest minute in which the schedule fires; null if it does not fire within a day."""
    joins: int
    """The fires that are there already."""
    joins_peak: bool
    free_slots: list[Time]
    """Minutes of the same hour with the fewest fires."""
