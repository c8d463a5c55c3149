"""What a schedule will do, before a job relies on it: fire times, words, warnings."""

from collections.abc import Sequence
from contextlib import suppress
from datetime import datetime
from typing import Final
from zoneinfo import ZoneInfo

import msgspec

from tocsin.domain.cron import Cron, Dst
from tocsin.domain.cron_warnings import warnings as cron_warnings
from tocsin.domain.cron_words import explain as cron_words
from tocsin.domain.instant import Instant, format_instant, format_span, parse_span, to_datetime
from tocsin.domain.planning import Fire, Terms, plan
from tocsin.domain.schedule import Schedule, rule_of, zone_of

_STEP: Final = 1000
_MOST_STEPS: Final = 100
_FOREVER: Final[Instant] = 1 << 62


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
    schedule: Schedule, after: Instant | None, limit: int, terms: Terms, planned: Sequence[Instant] = ()
) -> Preview:
    """The first `limit` fires after `after`, as they would be planned: blackouts, jitter and max_fires
    included.

    `planned` are those that are planned already and come before them; without an `after` they are all there
    is.
    """
    zone = zone_of(_zone_name(schedule))
    coming = [] if after is None else _fires(schedule, after, limit - len(planned), terms)
    fires = [_shown(due_at, zone) for due_at in (*planned, *(fire.due_at for fire in coming))][:limit]
    warnings = [] if after is None else _warnings(schedule, after)
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


def _fires(schedule: Schedule, after: Instant, limit: int, terms: Terms) -> list[Fire]:
    """Plan step by step until there are enough, or until too many steps went by without one."""
    rule = rule_of(schedule)
    cursor = rule.next_fire(after)
    fires: list[Fire] = []
    for _ in range(_MOST_STEPS):
        if cursor is None or len(fires) >= limit:
            break
        left = None if terms.fires_left is None else terms.fires_left - len(fires)
        step = msgspec.structs.replace(terms, fires_left=left)
        planned = plan(rule, cursor, step, now=cursor, until=_FOREVER, limit=_STEP)
        fires += planned.fires
        cursor = planned.cursor
    return fires[:limit]


def _zone_name(schedule: Schedule) -> str:
    """The zone to show times in: the schedule's own, or the one that all parts of a union share."""
    zones = {part.time_zone or "UTC" for part in schedule.any_of or ()}
    return schedule.time_zone or (zones.pop() if len(zones) == 1 else "UTC")


def _shown(fire: Instant, zone: ZoneInfo) -> PreviewFire:
    local: datetime = to_datetime(fire)
    with suppress(OverflowError):  # where the zone's own year would be one that cannot be written
        local = local.astimezone(zone)
    return PreviewFire(format_instant(fire), local.isoformat())
