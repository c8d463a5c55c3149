"""The written form of a cron expression: text in, a bit set per field out, or a refusal that helps.

::

    expression  minute hour day-of-month month day-of-week, with a seconds field before them if there are six;
                or @yearly @annually @monthly @weekly @daily @midnight @hourly
    field       items joined by commas
    item        *  n  n-m  and each with /step; n/step runs to the end of the range
                ?  in the day fields, the same as *
                L  L-n  LW  nW  in day-of-month;  dL  d#n  in day-of-week

Letters may be of any case. Months and weekdays have names, 0 and 7 are both Sunday, and their ranges may wrap
around (FRI-MON, NOV-FEB); in the other fields a range that runs backwards is taken for a slip and refused.
Work is bounded by the length of the text: no item can name more values than its field has.
"""

import re
from collections.abc import Sequence
from dataclasses import replace
from difflib import get_close_matches
from typing import Final, NamedTuple, NoReturn

from tocsin.domain.cron_sets import (
    ALL_WEEKDAYS,
    Days,
    LastDay,
    LastWeekday,
    Mark,
    NearestWorkday,
    NthWeekday,
    longest_month,
    values,
)
from tocsin.domain.errors import Refused

MAX_LENGTH: Final = 256
MONTH_NAMES: Final = ("JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC")
WEEKDAY_NAMES: Final = ("SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT")
SHORTHANDS: Final = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}

_ITEM_HINT: Final = "write it like 5, 1-5, */15 or 1,15,30"
_NUMBER: Final = re.compile(r"[0-9]{1,9}")
_ITEM: Final = re.compile(r"(?:\*|(?P<low>\w+)(?:-(?P<high>\w+))?)(?:/(?P<step>\w+))?", re.ASCII)
_LAST_DAY: Final = re.compile(r"L(?:-(\w+))?", re.ASCII)
_NEAREST_WORKDAY: Final = re.compile(r"(\w+)W", re.ASCII)
_LAST_WEEKDAY: Final = re.compile(r"(\w*)L", re.ASCII)
_NTH_WEEKDAY: Final = re.compile(r"(\w+)#(\w+)", re.ASCII)


class Field(NamedTuple):
    """What one field says: plain values, days that depend on the month, and whether it begins with ``*``."""

    bits: int
    marks: tuple[Mark, ...] = ()
    starred: bool = False


class FieldKind(NamedTuple):
    """What a field may hold. `top` is where ``*`` ends; only day-of-week reads a value above it."""

    name: str
    low: int
    top: int
    high: int
    names: tuple[str, ...] = ()

    @property
    def size(self) -> int:
        return self.top - self.low + 1


SECOND: Final = FieldKind("second", 0, 59, 59)
MINUTE: Final = FieldKind("minute", 0, 59, 59)
HOUR: Final = FieldKind("hour", 0, 23, 23)
DATE: Final = FieldKind("day-of-month", 1, 31, 31)
MONTH: Final = FieldKind("month", 1, 12, 12, MONTH_NAMES)
WEEKDAY: Final = FieldKind("day-of-week", 0, 6, 7, WEEKDAY_NAMES)
KINDS: Final = (SECOND, MINUTE, HOUR, DATE, MONTH, WEEKDAY)


def read_fields(text: str, field: str) -> list[Field]:
    """The six fields of an expression, seconds first; `field` names the input in a refusal."""
    return [
        _Reader(kind, field).read(written) for kind, written in zip(KINDS, split(text, field), strict=True)
    ]


def split(text: str, field: str) -> list[str]:
    """The six fields as written, shorthands spelled out and seconds filled in."""
    if len(text) > MAX_LENGTH:
        raise Refused(
            f"a cron expression has at most {MAX_LENGTH} characters; got {len(text)}",
            field=field,
            hint="use ranges and steps instead of long lists",
        )
    fields = text.split()
    if not fields:
        raise Refused("the cron expression is empty", field=field, hint="for example 0 9 * * MON-FRI")
    if fields[0].startswith("@"):
        fields = _spell_out(fields, field)
    if "=" in fields[0]:
        raise Refused(
            f"{_shown(fields[0])} does not belong in the expression",
            field=field,
            hint="the time zone has a field of its own",
        )
    if len(fields) not in (5, 6):
        raise _wrong_count(len(fields), field)
    return fields if len(fields) == 6 else ["0", *fields]


def refuse_impossible(text: str, days: Days, field: str) -> NoReturn:
    """Say why no day ever matches: no month is long enough, or date and weekday never meet."""
    names = [MONTH_NAMES[month - 1] for month in values(days.months)]
    months = "any month" if len(names) == len(MONTH_NAMES) else ", ".join(names)
    dates_alone = replace(days, weekdays=ALL_WEEKDAYS, weekday_marks=(), either=False)
    hint = f"the longest month there has {longest_month(days.months)} days"
    if dates_alone.possible():
        hint = "a day field begins with *, so date and weekday must both match"
    raise Refused(f"{_shown(text)} can never fire: no such day exists in {months}", field=field, hint=hint)


def _spell_out(fields: Sequence[str], field: str) -> list[str]:
    shorthand = fields[0].lower()
    if len(fields) == 1 and shorthand in SHORTHANDS:
        return SHORTHANDS[shorthand].split()
    if shorthand == "@every":
        hint = "an interval is a schedule of its own: every"
    elif shorthand in SHORTHANDS:
        hint = "a shorthand stands alone"
    else:
        close = get_close_matches(shorthand, SHORTHANDS, n=1)
        hint = f"did you mean {close[0]}?" if close else "use one of " + " ".join(SHORTHANDS)
    raise Refused(f"{_shown(' '.join(fields))} is not a known shorthand", field=field, hint=hint)


def _wrong_count(count: int, field: str) -> Refused:
    hint = "the fields are: minute hour day-of-month month day-of-week"
    if count == 7:
        hint = "years are not part of an expression; use starts_at and ends_at"
    return Refused(
        f"a cron expression has 5 fields, or 6 with seconds first; got {count}", field=field, hint=hint
    )


def _shown(text: str) -> str:
    return repr(_cut(text))


def _cut(text: str) -> str:
    return text if len(text) <= 32 else text[:31] + "…"


class _Reader:
    """Reads one field of one expression; what it refuses names both."""

    def __init__(self, kind: FieldKind, field: str) -> None:
        self._kind = kind
        self._field = field

    def read(self, written: str) -> Field:
        if written == "?" and self._kind in (DATE, WEEKDAY):
            written = "*"
        bits, marks = 0, []
        for item in written.upper().split(","):
            mark = self._mark(item)
            if mark is None:
                bits |= self._set(item)
            else:
                marks.append(mark)
        return Field(bits, tuple(marks), starred=written.startswith("*"))

    def _mark(self, item: str) -> Mark | None:
        match self._kind.name:
            case DATE.name:
                return self._date_mark(item)
            case WEEKDAY.name:
                return self._weekday_mark(item)
        return None

    def _date_mark(self, item: str) -> Mark | None:
        if item == "LW":
            return NearestWorkday()
        if last := _LAST_DAY.fullmatch(item):
            return LastDay(
                self._number("L-", last[1], 30, "L-3 is three days before the last") if last[1] else 0
            )
        if near := _NEAREST_WORKDAY.fullmatch(item):
            return NearestWorkday(self._value(near[1]))
        return None

    def _weekday_mark(self, item: str) -> Mark | None:
        if nth := _NTH_WEEKDAY.fullmatch(item):
            occurrence = self._number("#", nth[2], 5, "MON#2 is the second Monday")
            return NthWeekday(self._value(nth[1]) % 7, occurrence)
        if last := _LAST_WEEKDAY.fullmatch(item):
            if not last[1]:
                raise self._refused(
                    "L needs a day before it",
                    "5L is the last Friday; the last day of the month is L in day-of-month",
                )
            return LastWeekday(self._value(last[1]) % 7)
        return None

    def _set(self, item: str) -> int:
        parts = _ITEM.fullmatch(item)
        if parts is None:
            raise self._not_an_item(item)
        low, high = self._bounds(parts["low"], parts["high"], open_ended=parts["step"] is not None)
        step = self._number("step ", parts["step"] or "1", 9999, "*/15 is every 15th value")
        bits, offset, size = 0, self._kind.low, self._kind.size
        # Modulo the size, 7 becomes Sunday and a range that wraps around goes on at the beginning.
        for value in range(low, high + 1, step):
            bits |= 1 << offset + (value - offset) % size
        return bits

    def _bounds(self, low: str | None, high: str | None, *, open_ended: bool) -> tuple[int, int]:
        """The first and last value; the last lies beyond the end of the range when it wraps around."""
        if low is None:
            return self._kind.low, self._kind.top
        first = self._value(low)
        if high is None:
            return first, max(first, self._kind.top) if open_ended else first
        last = self._value(high)
        if last < first:
            if not self._kind.names:
                raise self._backwards(first, last)
            last += self._kind.size
        return first, last

    def _value(self, written: str) -> int:
        kind = self._kind
        if written in kind.names:
            return kind.names.index(written) + kind.low
        if not _NUMBER.fullmatch(written):
            raise self._not_a_value(written)
        value = int(written)
        if not kind.low <= value <= kind.high:
            raise self._refused(f"{value} is out of range {kind.low}–{kind.high}", _range_hint(kind, value))
        return value

    def _number(self, what: str, written: str, high: int, hint: str) -> int:
        if not _NUMBER.fullmatch(written) or not 1 <= int(written) <= high:
            raise self._refused(f"{what}{_cut(written)} is not in the range 1–{high}", hint)
        return int(written)

    def _refused(self, problem: str, hint: str) -> Refused:
        return Refused(f"{self._kind.name} {problem}", field=self._field, hint=hint)

    def _not_an_item(self, item: str) -> Refused:
        if not item:
            return self._refused("has an empty item", "remove the extra comma")
        if item == "?":
            problem = "stands alone" if self._kind in (DATE, WEEKDAY) else "is only for the day fields"
            return self._refused(f"'?' {problem}", "use * for every value")
        return self._refused(f"{_shown(item)} is not a value, a range or a step", _ITEM_HINT)

    def _not_a_value(self, written: str) -> Refused:
        kind = self._kind
        expected = f"a number {kind.low}–{kind.high}"
        if kind.names:
            expected += f" or a name {kind.names[0]}–{kind.names[-1]}"
        close = get_close_matches(written[:3], kind.names, n=1)
        hint = f"did you mean {close[0]}?" if close else _ITEM_HINT
        return self._refused(f"{_shown(written)} is not {expected}", hint)

    def _backwards(self, first: int, last: int) -> Refused:
        low, top = self._kind.low, self._kind.top
        return self._refused(
            f"range {first}-{last} runs backwards", f"write {first}-{top},{low}-{last} to go around"
        )


def _range_hint(kind: FieldKind, value: int) -> str:
    if value < kind.low or (value == kind.high + 1 and kind in (SECOND, MINUTE, HOUR)):
        return f"did you mean {kind.low}?"
    if kind == HOUR and value <= MINUTE.high:
        return "the minute comes before the hour"
    if kind == DATE:
        return "did you mean L, the last day of the month?"
    names = f" or {kind.names[0]}–{kind.names[-1]}" if kind.names else ""
    return f"use {kind.low}–{kind.high}{names}"
