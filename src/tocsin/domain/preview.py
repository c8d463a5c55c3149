"""What a schedule will do, before anybody relies on it: fire times, words, warnings."""

from collections.abc import Iterable
from datetime import datetime
from itertools import islice
from typing import Final
from zoneinfo import ZoneInfo

import msgspec

from tocsin.domain.blackout import NO_BLACKOUTS, Blackouts, Range
from tocsin.domain.cron import Cron, Dst
from tocsin.domain.cron_warnings import warnings as cron_warnings
from tocsin.domain.cron_words import explain as cron_words
from tocsin.domain.instant import Instant, format_instant, format_span, parse_span, to_datetime
from tocsin.domain.schedule import Schedule, blackout_dates, fire_times, rule_of, zone_of

_MOST_LOOKED_AT: Final = 100_000


class PreviewFire(msgspec.Struct, frozen=True):
    """A coming fire: the instant, and what the clock on the wall shows."""

    at: str
    local: str


class Preview(msgspec.Struct, frozen=True):
    """The next fires of a schedule and what to know about it."""

    fires: list[PreviewFire]
    explanation: str
    warnings: list[str]


def preview(
    schedule: Schedule, after: Instant, limit: int, calendars: Iterable[Range] = (), slot: int = 0
) -> Preview:
    """The first `limit` fires after `after`. Blackouts are left out, the job's jitter slot is added."""
    zone = zone_of(schedule.time_zone or "UTC")
    fires = [_shown(fire + slot, zone) for fire in islice(_open_fires(schedule, after, calendars), limit)]
    warnings = [*_warnings(schedule, after)]
    if not fires:
        warnings.append("the schedule does not fire again")
    return Preview(fires, explanation(schedule), warnings)


def explanation(schedule: Schedule) -> str:
    """A schedule in words."""
    words = _bare_words(schedule)
    if schedule.starts_at:
        words += f", from {schedule.starts_at}"
    if schedule.ends_at:
        words += f", until {schedule.ends_at}"
    if schedule.max_fires:
        words += f", {schedule.max_fires} times at most"
    if schedule.jitter:
        words += f", each job at its own offset within {format_span(parse_span(schedule.jitter, 'schedule.jitter'))}"
    if schedule.exclude:
        excluded = [*schedule.exclude.dates[:3], *(f"calendar {name}" for name in schedule.exclude.calendars)]
        words += f", except on {', '.join(excluded)}" + (" …" if len(schedule.exclude.dates) > 3 else "")
    return words


def _bare_words(schedule: Schedule) -> str:
    if schedule.any_of is not None:
        return "; and ".join(explanation(part) for part in schedule.any_of)
    if schedule.at is not None:
        return f"once, at {schedule.at}"
    if schedule.every is not None:
        return f"every {format_span(parse_span(schedule.every, 'schedule.every'))}"
    words = cron_words(Cron.parse(schedule.cron or "", "schedule.cron"))
    return f"{words} ({schedule.time_zone or 'UTC'})"


def _warnings(schedule: Schedule, after: Instant) -> list[str]:
    if schedule.any_of is not None:
        return [warning for part in schedule.any_of for warning in _warnings(part, after)]
    if schedule.cron is None:
        return []
    cron = Cron.parse(schedule.cron, "schedule.cron")
    return cron_warnings(cron, zone_of(schedule.time_zone or "UTC"), schedule.dst or Dst.CRON, after)


def _open_fires(schedule: Schedule, after: Instant, calendars: Iterable[Range]) -> Iterable[Instant]:
    blackouts = NO_BLACKOUTS
    if schedule.exclude is not None:
        blackouts = Blackouts([*blackout_dates(schedule), *calendars], schedule.exclude.policy)
    rule = rule_of(schedule)
    first = rule.next_fire(after)
    if first is None:
        return
    for fire in islice(fire_times(rule, first), _MOST_LOOKED_AT):
        if blackouts.end_of(fire) is None:
            yield fire


def _shown(fire: Instant, zone: ZoneInfo) -> PreviewFire:
    local: datetime = to_datetime(fire).astimezone(zone)
    return PreviewFire(format_instant(fire), local.isoformat())
