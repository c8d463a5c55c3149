"""``/v1/jobs/{job_id}/calendar``: a job's days in a zone: what ran, what did not and why, what is
expected."""

from collections.abc import Iterator
from datetime import date, timedelta
from typing import Any, Final
from zoneinfo import ZoneInfo

import msgspec

from tocsin.api.endpoint import ApiCall, Endpoint, Parameter
from tocsin.api.foretold import foretold
from tocsin.api.jobs import job_id_of
from tocsin.api.wire import timeline as wire
from tocsin.domain.days import begin_of, day_of, end_of, hour_of, hours_of, parse_date
from tocsin.domain.errors import Refused
from tocsin.domain.instant import MINUTE, Instant, format_instant, to_datetime
from tocsin.domain.schedule import fire_times, rule_of, zone_of
from tocsin.domain.stored_job import read_schedule
from tocsin.store.timeline import MOST_OF_CALENDAR

_MOST_DAYS: Final = 400
_DAYS_WITH_HOURS: Final = 7
_PAST_DAYS, _COMING_DAYS = timedelta(days=90), timedelta(days=30)
_MOST_FORETOLD: Final = 10_000
_MOST_IN_RUN: Final = 10_000
_QUARTER: Final = 15 * MINUTE
_DATE: Final = {"type": "string", "format": "date"}
Place = tuple[date, int]
"""A day, and the number of the hour in it."""


class _Counts(msgspec.Struct):
    """Counts that grow."""

    ran: int = 0
    dead: int = 0
    cancelled: int = 0
    expired: int = 0
    expected: int = 0
    backfilled: int = 0
    skipped: dict[str, int] = {}

    def add(self, state: str, number: int, reason: str | None, *, backfill: bool) -> None:
        if state == "skipped":
            self.skipped[reason or "skipped"] = self.skipped.get(reason or "skipped", 0) + number
            return
        name = "ran" if state == "succeeded" else state
        setattr(self, name, getattr(self, name) + number)
        if backfill:
            self.backfilled += number


async def calendar(call: ApiCall) -> wire.JobCalendar:
    """A job's days."""
    context, tenant_id, job_id = call.context, call.asker.tenant_id, job_id_of(call)
    row = await context.jobs.get(tenant_id, job_id)
    schedule = read_schedule(row["schedule"])
    zone = zone_of(call.query.get("zone") or schedule.time_zone or "UTC")
    first, last = _days(call, zone)
    since, until = begin_of(first, zone), end_of(last, zone)
    counts: dict[Place, _Counts] = {}
    place_of = _Places(zone)
    found = await context.timeline.calendar(tenant_id, job_id, since, until)
    for one in found:
        for place, number in _spread(one, schedule, place_of):
            counts.setdefault(place, _Counts()).add(
                one["state"], number, one["reason"], backfill=one["backfill"]
            )
    live = await context.timeline.live(tenant_id, [job_id], since, until)
    coming = (await foretold(call, [row], until, _MOST_FORETOLD))[job_id].fires
    for at in (*(one["fire_at"] for one in live), *coming):
        if since <= at < until:
            counts.setdefault(place_of(at), _Counts()).expected += 1
    whole = not found or found[0]["rows"] < MOST_OF_CALENDAR
    return wire.JobCalendar(
        zone=zone.key,
        covers_from=format_instant(since if whole else found[0]["since"]),
        days=[
            _day(day, zone, counts, hours=(last - first).days < _DAYS_WITH_HOURS)
            for day in _each(first, last)
        ],
    )


class _Places:
    """Days and hours of a zone, remembered by the quarter of an hour: many fires lie in one."""

    def __init__(self, zone: ZoneInfo) -> None:
        self._zone = zone
        self._known: dict[Instant, Place] = {}

    def __call__(self, at: Instant) -> Place:
        quarter = at - at % _QUARTER
        place = self._known.get(quarter)
        if place is None:
            place = self._known[quarter] = day_of(quarter, self._zone), hour_of(quarter, self._zone)
        return place


def _spread(one: Any, schedule: Any, place_of: _Places) -> Iterator[tuple[Place, int]]:
    """Where a count belongs. A run of skips over days is laid over the fire times that the schedule has
    there."""
    if one["run_from"] is None:
        yield place_of(one["quarter"]), one["number"]
        return
    times = list(_run(schedule, one["run_from"], one["run_until"]))
    if len(times) != one["number"]:  # the schedule was another one then, or the run is too long
        yield place_of(one["quarter"]), one["number"]
        return
    for at in times:
        yield place_of(at), 1


def _run(schedule: Any, first: Instant, last: Instant) -> Iterator[Instant]:
    for number, at in enumerate(fire_times(rule_of(schedule), first)):
        if at > last or number >= _MOST_IN_RUN:
            return
        yield at


def _day(day: date, zone: ZoneInfo, counts: dict[Place, _Counts], *, hours: bool) -> wire.CalendarDay:
    begins = hours_of(day, zone)
    each = [counts.get((day, number)) for number in range(len(begins))]
    return wire.CalendarDay(
        date=day.isoformat(),
        begins=format_instant(begins[0]),
        hour_count=len(begins),
        hours=[_hour(at, one) for at, one in zip(begins, each, strict=True)] if hours else None,
        **msgspec.structs.asdict(_sum([one for one in each if one is not None])),
    )


def _hour(at: Instant, counts: _Counts | None) -> wire.CalendarHour:
    return wire.CalendarHour(at=format_instant(at), **msgspec.structs.asdict(counts or _Counts()))


def _sum(each: list[_Counts]) -> _Counts:
    whole = _Counts()
    for one in each:
        for name in ("ran", "dead", "cancelled", "expired", "expected", "backfilled"):
            setattr(whole, name, getattr(whole, name) + getattr(one, name))
        for reason, number in one.skipped.items():
            whole.skipped[reason] = whole.skipped.get(reason, 0) + number
    return whole


def _days(call: ApiCall, zone: ZoneInfo) -> tuple[date, date]:
    today = to_datetime(call.context.clock.now()).astimezone(zone).date()
    begin, end = call.query.get("from"), call.query.get("to")
    last = today + _COMING_DAYS if end is None else parse_date(end, "to")
    first = min(today, last) - _PAST_DAYS if begin is None else parse_date(begin, "from")
    if not 0 <= (last - first).days < _MOST_DAYS:
        raise Refused(f"the range ends after it begins, and has at most {_MOST_DAYS} days", field="from")
    if first.year < 1970 or last.year > 9000:
        raise Refused("days are of the years from 1970 to 9000", field="from")
    return first, last


def _each(first: date, last: date) -> Iterator[date]:
    while first <= last:
        yield first
        first += timedelta(days=1)


ENDPOINTS = (
    Endpoint(
        method="GET", path="/v1/jobs/{job_id}/calendar", handler=calendar, answer=wire.JobCalendar, refusals=(404,),
        summary="A job's days: what ran, what did not and why, what is expected",
        parameters=(
            Parameter("from", "The first day; default 90 days ago", _DATE),
            Parameter("to", "The last day; default in 30 days; at most 400 days", _DATE),
            Parameter("zone", "The time zone whose days these are; default the schedule's own"),
        ),
    ),
)  # fmt: skip
