"""What a tenant may use, and the pure decisions about it.

`TenantLimits` is stored in `tenants.limits` and written in requests in the same form. A field that is not
given follows the installation's default; a default that is not given either is no limit. Who keeps to which
field:

- the API, when something is created or changed: `pending_jobs`, `payload_bytes`, `min_interval`;
- every API process for itself, at every request: `requests_per_second`, `request_burst`;
- the engines, when executions are claimed: `in_flight`, `fires_per_second`. Executions over these wait, and
  nothing is lost;
- the schedulers: `history_days`.
"""

import math
from typing import Annotated, Final

import msgspec
from msgspec import Meta

from tocsin.domain.errors import Refused
from tocsin.domain.instant import DAY, Instant, Span, format_span, parse_span
from tocsin.domain.schedule import Schedule, rule_of
from tocsin.domain.written import UpToADay

_LOOKED_AT: Final = 100
Count = Annotated[int, Meta(ge=1, le=10_000_000_000)]
# Slower than once in a quarter of an hour is a suspension; and of a bucket that never fills one cannot say
# when it will.
Days = Annotated[int, Meta(ge=1, le=36_500)]
Rate = Annotated[float, Meta(ge=0.001, le=10_000_000)]


class TenantLimits(msgspec.Struct, frozen=True, omit_defaults=True):
    """Limits of one tenant. None: as the installation's settings say."""

    pending_jobs: Count | None = None
    """Jobs that still have something to do. Counted by estimate: see `api.quota`."""
    payload_bytes: Count | None = None
    """Bytes of a job's target as JSON."""
    min_interval: UpToADay | None = None
    """The shortest time between two fires of a recurring job."""
    requests_per_second: Rate | None = None
    """API requests per second that one API process answers."""
    request_burst: Count | None = None
    """API requests that may come at once after a quiet while. Default: one second's worth."""
    in_flight: Count | None = None
    """Executions running at once."""
    fires_per_second: Rate | None = None
    """Executions started per second."""
    history_days: Days | None = None
    """For how many days history is kept, if that is shorter than the installation keeps it."""

    def over(self, defaults: "TenantLimits") -> "TenantLimits":
        """These limits, and the defaults where they say nothing."""
        own = {name: value for name in self.__struct_fields__ if (value := getattr(self, name)) is not None}
        return msgspec.structs.replace(defaults, **own)


class OverLimit(Refused):
    """A tenant's limit stands in the way. `limit` names it."""

    status = 409
    code = "limit_reached"

    def __init__(self, limit: str, detail: str, *, field: str | None = None, hint: str | None = None) -> None:
        super().__init__(f"{detail} (limit {limit})", field=field, hint=hint)
        self.limit = limit


class TooLarge(OverLimit):
    """The limit is one of size."""

    status = 413


class TooFrequent(OverLimit):
    """The limit is one of frequency, and the schedule does not keep to it."""

    status = 422


def check_limits(limits: TenantLimits) -> None:
    """Refuse limits that make no sense, naming the field."""
    if limits.min_interval is not None and parse_span(limits.min_interval, "limits.min_interval") > DAY:
        raise Refused("min_interval is at most a day", field="limits.min_interval")


def check_payload(limits: TenantLimits, target: object) -> None:
    """Refuse a target that is larger than the tenant may store."""
    if limits.payload_bytes is None:
        return
    size = len(msgspec.json.encode(target))
    if size > limits.payload_bytes:
        raise TooLarge(
            "payload_bytes",
            f"the target has {size:,} bytes, more than {limits.payload_bytes:,}",
            field="target",
        )


def check_interval(limits: TenantLimits, schedule: Schedule, now: Instant) -> None:
    """Refuse a schedule that fires more often than the tenant may."""
    if limits.min_interval is None or not schedule.recurring:
        return
    least = parse_span(limits.min_interval, "limits.min_interval")
    shortest = shortest_interval(schedule, now)
    if shortest is not None and shortest < least:
        raise TooFrequent(
            "min_interval",
            f"two fires lie {format_span(shortest)} apart, less than {format_span(least)}",
            field="schedule",
        )


def shortest_interval(schedule: Schedule, now: Instant) -> Span | None:
    """The shortest time between two of the coming hundred fires; None when there is only one."""
    rule = rule_of(schedule)
    fire, shortest = rule.next_fire(now), None
    for _ in range(_LOOKED_AT):
        following = None if fire is None else rule.next_fire(fire)
        if fire is None or following is None:
            break
        shortest = following - fire if shortest is None else min(shortest, following - fire)
        fire = following
    return shortest


class Grant(msgspec.Struct, frozen=True):
    """A bucket's answer: whether there was a token, how many are left, and seconds until the next and until
    all."""

    granted: bool
    remaining: int
    retry_after: float
    full_after: float


class Bucket:
    """A token bucket: `rate` tokens come per second, at most `burst` are kept. Time is given, never asked
    for."""

    def __init__(self, rate: float, burst: float | None, now: float) -> None:
        self._at = now
        self._rate = self._burst = self._tokens = 0.0
        self.change(rate, burst)
        self._tokens = self._burst

    @property
    def quota(self) -> int:
        """The most that can be taken at once."""
        return int(self._burst)

    @property
    def window(self) -> float:
        """Seconds in which an empty bucket fills."""
        return self._burst / self._rate

    def change(self, rate: float, burst: float | None) -> None:
        """Go on with another rate; what was used stays used."""
        self._rate = rate
        self._burst = float(burst if burst is not None else max(1, math.ceil(rate)))
        self._tokens = min(self._tokens, self._burst)

    def take(self, now: float) -> Grant:
        """Take a token if there is one."""
        self._tokens = min(self._burst, self._tokens + max(0.0, now - self._at) * self._rate)
        self._at = now
        granted = self._tokens >= 1
        if granted:
            self._tokens -= 1
        retry_after = 0.0 if granted else (1 - self._tokens) / self._rate
        return Grant(granted, int(self._tokens), retry_after, (self._burst - self._tokens) / self._rate)
