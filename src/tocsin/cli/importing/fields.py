"""Cron fields of other systems in ours, and how each treats a change of clocks.

Three things differ between them: whether weekdays count from Sunday as 0, from Sunday as 1 or from Monday as
0; whether date and weekday are joined by AND or by OR; and what `*/n` counts as. Tocsin joins them as
Debian's cron does: by AND if either begins with `*`, else by OR.

When clocks change, no two systems do the same, so a reader says `dst` beside the zone of an expression. Where
none of ours is the same as theirs, it takes the closest that loses no day, and a note says what differs.
"""

import re
from collections.abc import Callable, Iterable
from typing import Any, Final

from tocsin.cli.importing.reading import Found, Unfit
from tocsin.domain.cron import Dst

WEEKDAYS: Final = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")
_MONTHS: Final = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_WEEKS: Final = {frozenset(range(first, first + 7)): nth for nth, first in enumerate((1, 8, 15, 22), 1)}
_ITEM: Final = re.compile(r"(\*|(\w+)(?:-(\w+))?)(?:/(\d+))?")
_SINGLE: Final = re.compile(r"\d+")


def values(text: str, low: int, high: int, value_of: Callable[[str], int] = int) -> frozenset[int]:
    """All values that a field names, between `low` and `high`."""
    found: set[int] = set()
    for item in text.replace(" ", "").split(","):
        parts = _ITEM.fullmatch(item)
        if parts is None:
            raise Unfit(f"{item!r} is not a value, a range or a step")
        step = int(parts[4] or 1)
        if parts[1] == "*":
            first, last = low, high
        else:
            try:
                first = value_of(parts[2])
                last = value_of(parts[3]) if parts[3] else high if parts[4] else first
            except ValueError:
                raise Unfit(f"{item!r} names no value of its field") from None
        if not (low <= first <= high and low <= last <= high and step):
            raise Unfit(f"{item!r} is not between {low} and {high}")
        if first <= last:
            found.update(range(first, last + 1, step))
        else:
            found.update((*range(first, high + 1, step), *range(low, last + 1, step)))
    return frozenset(found)


def zoned(cron: str, time_zone: str | None, dst: Dst = Dst.CRON) -> dict[str, Any]:
    """A cron schedule, with its zone and policy where it has a zone."""
    zone = {"time_zone": time_zone} if time_zone else {}
    policy = {"dst": str(dst)} if time_zone and dst is not Dst.CRON else {}
    return {"cron": cron} | zone | policy


def clock_notes(found: Iterable[Found], words: str) -> tuple[str, ...]:
    """What a note says of changes of clocks, if any expression has a zone that could have them."""
    zones = {one.job["schedule"].get("time_zone") for one in found if "cron" in one.job["schedule"]}
    return (words,) if zones - {None, "UTC", "Etc/UTC"} else ()


def unstarred(field: str, whole: str) -> str:
    """A step over everything, written as one over the whole range, so that it does not count as `*`."""
    return ",".join(
        whole + item[1:] if item.startswith("*/") and item != "*/1" else item for item in field.split(",")
    )


def weekdays_of(text: str) -> frozenset[int]:
    """The weekdays of a field in which 0 and 7 are Sunday, as 0 to 6."""
    if text.startswith("*"):
        return values(text, 0, 6)
    return frozenset(day % 7 for day in values(text, 0, 7, weekday))


def weekday(name: str) -> int:
    """A weekday by its number from Sunday as 0, or by its name, short or whole."""
    return WEEKDAYS.index(name[:3].lower()) if name.isalpha() else int(name)


def month(name: str) -> int:
    """A month by its number or its name."""
    return _MONTHS.index(name[:3].lower()) + 1 if name.isalpha() else int(name)


def both_days(dates: frozenset[int], weekdays: frozenset[int]) -> tuple[str, str]:
    """The two day fields of a system in which both must match; weekdays are 0 to 6 from Sunday.

    Ours are joined by AND where one begins with `*`. `*/31` is the first of a month and `*/7` is Sunday, so
    these can begin a list; and seven dates in a row are the nth of a weekday. Others cannot be written.
    """
    if len(dates) == 31 or len(weekdays) == 7:
        return listed(dates, 31), listed(weekdays, 7)
    if 1 in dates:
        return ",".join(["*/31", *map(str, sorted(dates - {1}))]), listed(weekdays, 7)
    if 0 in weekdays:
        return listed(dates, 31), ",".join(["*/7", *map(str, sorted(weekdays - {0}))])
    if nth := _WEEKS.get(dates):
        return "*", ",".join(f"{day}#{nth}" for day in sorted(weekdays))
    raise Unfit(
        "date and weekday must both match there, and no cron expression of Tocsin says this pair of them",
        "fire on the weekday, and let the target look at the date",
    )


def counted_from_one(text: str) -> str:
    """A day-of-week field that has Sunday as 1 (Quartz, EventBridge) with Sunday as 0. A lone L is
    Saturday."""
    if text.upper() == "L":
        return "6"
    return ",".join(_item_from_one(item) for item in text.split(","))


def _item_from_one(item: str) -> str:
    head, mark, tail = re.fullmatch(r"([^#/L]*)([#/L]?)(.*)", item, re.IGNORECASE | re.DOTALL).groups()  # type: ignore[union-attr]
    if head.isalpha() and item.upper() in {day.upper() for day in WEEKDAYS}:
        return item
    return _SINGLE.sub(lambda number: _less_one(number[0]), head) + mark + tail


def _less_one(number: str) -> str:
    if not 1 <= int(number) <= 7:
        raise Unfit(f"day-of-week {number} is not between 1 (Sunday) and 7")
    return str(int(number) - 1)


def listed(chosen: Iterable[int], size: int) -> str:
    """Values as a field; `*` if it is all of them."""
    found = sorted(chosen)
    return "*" if len(found) == size else ",".join(map(str, found))
