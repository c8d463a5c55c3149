"""Days of a zone: where they begin, how many hours they have, and which day and hour an instant lies in.

A day has 23 or 25 hours where the clock is put forward or back, or half an hour less in some places. Hours
are counted from the day's first instant, by elapsed time, so that none is missing and none comes twice.
"""

from datetime import date, datetime, time, timedelta
from zoneinfo import ZoneInfo

from tocsin.domain.errors import Refused
from tocsin.domain.instant import HOUR, Instant, from_datetime, to_datetime


def parse_date(text: str, field: str) -> date:
    """A date in its one notation."""
    try:
        if len(text) == len("2030-01-31"):
            return date.fromisoformat(text)
    except ValueError:
        pass
    raise Refused(f"{text[:40]!r} is not a date such as 2030-01-31", field=field)


def begin_of(day: date, zone: ZoneInfo) -> Instant:
    """The first instant of a day."""
    return from_datetime(datetime.combine(day, time(), zone))


def end_of(day: date, zone: ZoneInfo) -> Instant:
    """The first instant after a day."""
    return begin_of(day + timedelta(days=1), zone)


def hours_of(day: date, zone: ZoneInfo) -> list[Instant]:
    """When its hours begin."""
    return list(range(begin_of(day, zone), end_of(day, zone), HOUR))


def day_of(instant: Instant, zone: ZoneInfo) -> date:
    """The day that an instant lies in."""
    return to_datetime(instant).astimezone(zone).date()


def hour_of(instant: Instant, zone: ZoneInfo) -> int:
    """The number of its hour within that day."""
    return (instant - begin_of(day_of(instant, zone), zone)) // HOUR
