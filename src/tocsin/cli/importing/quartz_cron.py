"""Cron expressions of Quartz and of EventBridge: six fields and a year, `?` in one of the day fields,
weekdays counted from Sunday as 1. EventBridge has no seconds.

Both skip what clocks skip, and fire once in what clocks repeat: EventBridge the first time, Quartz the
second.
"""

import re
from typing import Any, Final

from tocsin.cli.importing.fields import counted_from_one, zoned
from tocsin.cli.importing.reading import Unfit
from tocsin.domain.cron import Cron, Dst

_YEARS: Final = re.compile(r"(\d{4})(?:-(\d{4}))?")


def quartz_schedule(text: str, time_zone: str | None, *, seconds: bool) -> dict[str, Any]:
    """The schedule of an expression. A year, or years in a row, become its window, in UTC."""
    fields = text.split()
    least = 6 if seconds else 5
    if not least <= len(fields) <= least + 1:
        raise Unfit(f"a cron expression has {least} fields there, and a year; got {len(fields)}")
    year = fields.pop() if len(fields) > least else "*"
    fields[-3] = fields[-3].replace("?", "*")
    fields[-1] = counted_from_one(fields[-1].replace("?", "*"))
    if seconds and fields[0] == "0":
        fields = fields[1:]
    cron = " ".join(fields)
    Cron.parse(cron, "schedule")
    schedule = zoned(cron, time_zone, Dst.ONCE)
    if year != "*":
        found = _YEARS.fullmatch(year)
        if found is None:
            raise Unfit(f"the year {year!r} is not one year or years in a row")
        schedule |= {
            "starts_at": f"{found[1]}-01-01T00:00:00Z",
            "ends_at": f"{found[2] or found[1]}-12-31T23:59:59Z",
        }
    return schedule
