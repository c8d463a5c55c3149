"""Alert rules: what to watch, and how to tell of it. One tagged value per kind of trouble.

A rule watches what its tenant owns; with the scope `fleet`, which only operators may give, what all tenants
own. Some kinds of trouble are the fleet's alone. A dead man's switch is a rule turned round: it tells once a
minute that all is well, and something outside notices when that ends.
"""

from datetime import time
from typing import Annotated, ClassVar, Final, Literal
from zoneinfo import ZoneInfo

import msgspec

from tocsin.domain.errors import Refused
from tocsin.domain.instant import DAY, MILLISECOND, MINUTE, SECOND, Instant, Span, parse_span, to_datetime
from tocsin.domain.job import check_name
from tocsin.domain.schedule import zone_of
from tocsin.domain.tally import BOUNDS_MS
from tocsin.domain.written import (
    SpanText,
    UpToADay,
    WrittenName,
    WrittenZone,
    at_most,
    between,
    described,
)

Scope = Literal["tenant", "fleet"]
MAX_CHANNELS: Final = 8
MAX_NUMBER: Final = 100
MAX_COUNT: Final = 1_000_000
_ALWAYS: Final = "0s"
_WINDOW: Final = (MINUTE, 7 * DAY)
_SHORT_WINDOW: Final = (MINUTE, DAY)
_GRACE: Final = (30 * SECOND, DAY)
Window = SpanText | Annotated[float, between(60, 7 * 86_400)]
ShortWindow = SpanText | Annotated[float, between(60, 86_400)]
Grace = SpanText | Annotated[float, between(30, 86_400)]
Repeat = SpanText | Annotated[float, described(anyOf=[{"const": 0}, {"minimum": 60, "maximum": 30 * 86_400}])]
Clock = Annotated[str, described(pattern="^([01][0-9]|2[0-3]):[0-5][0-9]$", examples=["22:00"])]


class _Watch(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True, tag_field="kind"):
    """What one kind of rule looks for."""

    of_fleet: ClassVar[bool] = False
    """Whether only a rule of the fleet can watch for it."""


class DeadLetters(_Watch, frozen=True, tag="dead_letters"):
    """At least so many executions failed for good within the window, by kind of error."""

    window: Window = "1h"
    at_least: Annotated[int, between(1, MAX_COUNT)] = 1
    queue: WrittenName | None = None


class FailuresInARow(_Watch, frozen=True, tag="failures_in_a_row"):
    """The latest executions of a job all failed for good, the last of them within the window."""

    number: Annotated[int, between(2, MAX_NUMBER)] = 3
    window: Window = "1d"


class DidNotRun(_Watch, frozen=True, tag="did_not_run"):
    """A recurring job's fire has not started a grace after its instant, or was missed within the window."""

    grace: Grace = "2m"
    window: ShortWindow = "10m"


class LateFires(_Watch, frozen=True, tag="lag"):
    """Fewer than this share of the fires within the window started in time, by queue."""

    within: SpanText | Annotated[float, between(0.001, 3600)] = "5s"
    share: Annotated[float, between(0.5, 0.9999)] = 0.99
    window: ShortWindow = "10m"
    at_least: Annotated[int, between(1, MAX_COUNT)] = 10
    queue: WrittenName | None = None


class Unserved(_Watch, frozen=True, tag="unserved"):
    """Executions wait in a queue for a route that no live worker serves."""

    waiting: Grace = "1m"


class PausedQueue(_Watch, frozen=True, tag="queue_paused"):
    """A queue has been paused for too long."""

    longer_than: Window = "1h"
    queue: WrittenName | None = None


class HostAtRest(_Watch, frozen=True, tag="host_at_rest"):
    """Executions have waited for this long for a host or broker that fails or takes no more calls."""

    longer_than: Window = "10m"


class PendingJobs(_Watch, frozen=True, tag="pending_jobs"):
    """A tenant has used up so much of its limit of pending jobs."""

    share: Annotated[float, between(0.1, 1)] = 0.9


class ClockTrouble(_Watch, frozen=True, tag="clock"):
    """The database's clock was set within the window."""

    of_fleet: ClassVar[bool] = True
    window: ShortWindow = "15m"


class PartitionTrouble(_Watch, frozen=True, tag="partitions"):
    """A day of history to come has no partition, or rows are where no day is."""

    of_fleet: ClassVar[bool] = True


class DiskTrouble(_Watch, frozen=True, tag="disk"):
    """Less than this share of a disk is free that a node writes to: the embedded database's, or the temporary
    files'."""

    of_fleet: ClassVar[bool] = True
    free: Annotated[float, between(0.01, 0.5)] = 0.1


class ArchiveFailing(_Watch, frozen=True, tag="archive_failing"):
    """A part of an old day could not be archived so often in a row: nothing is dropped meanwhile."""

    of_fleet: ClassVar[bool] = True
    at_least: Annotated[int, between(1, MAX_COUNT)] = 3


class LeaseChurn(_Watch, frozen=True, tag="lease_churn"):
    """Shards changed hands within the window more often than so many times each, on average."""

    of_fleet: ClassVar[bool] = True
    times: Annotated[float, between(1, 1000)] = 3.0
    window: ShortWindow = "10m"


class DeadMansSwitch(_Watch, frozen=True, tag="dead_mans_switch"):
    """Calls its channels every minute while what should fire fires."""

    grace: Grace = "2m"


Watch = (
    DeadLetters
    | FailuresInARow
    | DidNotRun
    | LateFires
    | Unserved
    | PausedQueue
    | HostAtRest
    | PendingJobs
    | ClockTrouble
    | PartitionTrouble
    | DiskTrouble
    | ArchiveFailing
    | LeaseChurn
    | DeadMansSwitch
)


class QuietTimes(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """A time of day in which nothing is told; from 22:00 to 07:00 goes over midnight."""

    begins: Clock
    ends: Clock
    time_zone: WrittenZone = "UTC"


class AlertRule(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """What to watch, and how to tell of it."""

    watch: Watch
    channels: Annotated[tuple[WrittenName, ...], at_most(MAX_CHANNELS, minItems=1)]
    scope: Annotated[Scope, described(enum=["tenant", "fleet"])] = "tenant"
    lasting: UpToADay = _ALWAYS
    """How long trouble must have lasted before it is told."""
    repeat: Repeat = "4h"
    """How often trouble that lasts is told again; 0 is never."""
    quiet: QuietTimes | None = None
    enabled: bool = True


def kind_of(watch: Watch) -> str:
    """The word for what is watched."""
    return str(watch.__struct_config__.tag)


def check_rule(rule: AlertRule) -> None:
    """Refuse a rule that makes no sense, naming the field."""
    if not 1 <= len(rule.channels) <= MAX_CHANNELS:
        raise Refused(f"a rule names 1 to {MAX_CHANNELS} channels", field="channels")
    for name in rule.channels:
        check_name(name, "channels")
    if len(set(rule.channels)) != len(rule.channels):
        raise Refused("a channel is named twice", field="channels")
    if rule.scope not in ("tenant", "fleet"):
        raise Refused(f"{rule.scope[:20]!r} is not one of tenant, fleet", field="scope")
    if rule.watch.of_fleet and rule.scope != "fleet":
        raise Refused(f"only the fleet has {kind_of(rule.watch)}: say scope fleet", field="scope")
    if parse_span(rule.lasting, "lasting") > DAY:
        raise Refused("lasting is at most a day", field="lasting")
    repeat = parse_span(rule.repeat, "repeat")
    rounded_to_never = not isinstance(rule.repeat, str) and rule.repeat > repeat == 0
    if (repeat or rounded_to_never) and not MINUTE <= repeat <= 30 * DAY:
        raise Refused("repeat is 0, or lies between 1m and 30d", field="repeat")
    _check_watch(rule.watch)
    if rule.quiet is not None:
        _check_quiet(rule.quiet)


def _check_watch(watch: Watch) -> None:
    for name, (least, most) in _bounds(watch).items():
        field = f"watch.{name}"
        if not least <= parse_span(getattr(watch, name), field) <= most:
            raise Refused(f"{name} lies between {least // SECOND}s and {most // DAY}d", field=field)
    for name, (low, high) in _numbers(watch).items():
        if not low <= getattr(watch, name) <= high:
            raise Refused(f"{name} lies between {low:g} and {high:g}", field=f"watch.{name}")
    queue = getattr(watch, "queue", None)
    if queue is not None:
        check_name(queue, "watch.queue")
    if isinstance(watch, LateFires) and parse_span(watch.within, "watch.within") not in _LAGS:
        known = ", ".join(f"{ms}ms" if ms < 1000 else f"{ms // 1000}s" for ms in BOUNDS_MS)
        raise Refused(f"lateness is counted up to certain bounds: {known}", field="watch.within")


def _numbers(watch: Watch) -> dict[str, tuple[float, float]]:
    known: dict[str, tuple[float, float]] = {
        "at_least": (1, MAX_COUNT),
        "number": (2, MAX_NUMBER),
        "times": (1, 1000),
        "free": (0.01, 0.5),
        "share": (0.5, 0.9999) if isinstance(watch, LateFires) else (0.1, 1),
    }
    return {name: bounds for name, bounds in known.items() if hasattr(watch, name)}


def _bounds(watch: Watch) -> dict[str, tuple[Span, Span]]:
    short = isinstance(watch, DidNotRun | LateFires | ClockTrouble | LeaseChurn)
    known = {
        "window": _SHORT_WINDOW if short else _WINDOW,
        "grace": _GRACE,
        "waiting": _GRACE,
        "longer_than": _WINDOW,
    }
    return {name: span for name, span in known.items() if hasattr(watch, name)}


_LAGS: Final = frozenset(ms * MILLISECOND for ms in BOUNDS_MS)


def _check_quiet(quiet: QuietTimes) -> None:
    begin, end = _clock(quiet.begins, "quiet.begins"), _clock(quiet.ends, "quiet.ends")
    if begin == end:
        raise Refused("quiet times that end as they begin would never end", field="quiet.ends")
    try:
        zone_of(quiet.time_zone)
    except Refused as error:
        raise Refused(error.detail, field="quiet.time_zone", hint=error.hint) from None


def is_quiet(quiet: QuietTimes | None, now: Instant) -> bool:
    """Whether nothing is told now."""
    if quiet is None:
        return False
    at = to_datetime(now).astimezone(ZoneInfo(quiet.time_zone)).time()
    begin, end = _clock(quiet.begins, "quiet.begins"), _clock(quiet.ends, "quiet.ends")
    return begin <= at < end if begin < end else at >= begin or at < end


def _clock(text: str, field: str) -> time:
    try:
        if len(text) == len("22:00"):
            return time.fromisoformat(text)
    except ValueError:
        pass
    raise Refused(f"{text[:20]!r} is not a time of day such as 22:00", field=field)
