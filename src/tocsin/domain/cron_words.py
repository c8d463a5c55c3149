"""A cron expression in plain English, for previews: "at 09:00 on the second Monday of every month".

Said from what the expression means, not from how it is written, so equal schedules read alike: ``0 9 * *
1-5`` and ``0 9 * * MON,TUE,WED,THU,FRI`` are both "at 09:00, Monday to Friday". A sentence is a time phrase
followed by a day phrase and the months; shapes that people write often get the words people say, everything
else an exact list.
"""

from collections.abc import Callable, Iterable, Sequence
from itertools import product
from typing import Final

from tocsin.domain.cron import Cron
from tocsin.domain.cron_sets import (
    ALL_DATES,
    ALL_MONTHS,
    ALL_WEEKDAYS,
    Days,
    LastDay,
    LastWeekday,
    Mark,
    NearestWorkday,
    NthWeekday,
    Times,
    values,
)

_MONTHS: Final = (
    *("", "January", "February", "March", "April", "May", "June"),
    *("July", "August", "September", "October", "November", "December"),
)
_WEEKDAYS: Final = ("Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday")
_NTH: Final = ("", "first", "second", "third", "fourth", "fifth")
_MOST_TIMES_LISTED: Final = 4


def explain(cron: Cron) -> str:
    """When the expression fires, as a sentence without its full stop."""
    time, days = _time_phrase(cron.times), _day_phrase(cron.days)
    if not days and "every" not in time:
        days = " every day"
    return time + days + _month_phrase(cron.days)


def _time_phrase(times: Times) -> str:
    seconds, minutes, hours = values(times.seconds), values(times.minutes), values(times.hours)
    if len(seconds) * len(minutes) * len(hours) <= _MOST_TIMES_LISTED:
        return "at " + _clock_times(hours, minutes, seconds)
    if seconds == [0]:
        return _minute_phrase(minutes, hours)
    return _second_phrase(seconds, minutes, hours)


def _clock_times(hours: Sequence[int], minutes: Sequence[int], seconds: Sequence[int]) -> str:
    if seconds == [0]:
        return _join(f"{hour:02}:{minute:02}" for hour, minute in product(hours, minutes))
    return _join(
        f"{hour:02}:{minute:02}:{second:02}" for hour, minute, second in product(hours, minutes, seconds)
    )


def _minute_phrase(minutes: Sequence[int], hours: Sequence[int]) -> str:
    step = _step(minutes, 60)
    if step is not None:
        return _every(step, "minute") + _during(hours, minutes)
    if minutes == [0]:
        return _hour_phrase(hours)
    return f"at {_list(minutes)} {'minute' if minutes == [1] else 'minutes'} past {_hours_past(hours)}"


def _hour_phrase(hours: Sequence[int]) -> str:
    step = _step(hours, 24)
    if step is not None:
        return _every(step, "hour")
    return _hours_past(hours) if _consecutive(hours) else "at " + _clock_times(hours, [0], [0])


def _hours_past(hours: Sequence[int]) -> str:
    """The full hours that minutes are counted from."""
    step = _step(hours, 24)
    if step is not None:
        return "every hour" if step == 1 else f"every {_ordinal(step)} hour from 00:00"
    if _consecutive(hours) and len(hours) > 2:
        return f"every hour from {hours[0]:02}:00 to {hours[-1]:02}:00"
    return _clock_times(hours, [0], [0])


def _second_phrase(seconds: Sequence[int], minutes: Sequence[int], hours: Sequence[int]) -> str:
    step = _step(seconds, 60)
    phrase = f"at {_counted('second', seconds)}" if step is None else _every(step, "second")
    if len(minutes) == len(hours) == 1:
        return f"{phrase} of the minute {_clock_times(hours, minutes, [0])}"
    if len(minutes) < 60:
        phrase += f" of {_counted('minute', minutes)}"
        return phrase + (" of every hour" if len(hours) == 24 else _during(hours, minutes))
    if step is None:
        phrase += " of every minute"
    return phrase + _during(hours, minutes)


def _during(hours: Sequence[int], minutes: Sequence[int]) -> str:
    """The part of the day in which something repeats, from its first minute to its last."""
    if len(hours) == 24:
        return ""
    if _consecutive(hours):
        return f" from {hours[0]:02}:{minutes[0]:02} to {hours[-1]:02}:{minutes[-1]:02}"
    return f" in the hours from {_clock_times(hours, [0], [0])}"


def _day_phrase(days: Days) -> str:
    if days.either:
        return f"{_dates_phrase(days)}, or{_weekdays_phrase(days).removeprefix(',')}"
    if days.dates == ALL_DATES:
        return "" if days.weekdays == ALL_WEEKDAYS else _weekdays_phrase(days)
    phrase = _dates_phrase(days)
    return phrase if days.weekdays == ALL_WEEKDAYS else f"{phrase} if that is {_weekday_condition(days)}"


def _dates_phrase(days: Days) -> str:
    dates = values(days.dates)
    words = [_plain_dates(dates)] if dates else []
    return " on " + _join(words + [_mark_words(mark) for mark in days.date_marks]) + _of_month(days)


def _plain_dates(dates: Sequence[int]) -> str:
    if len(dates) > _MOST_TIMES_LISTED:
        step = dates[1] - dates[0]
        if step > 1 and dates == list(range(1, 32, step)):
            return f"every {_ordinal(step)} day from the 1st"
    return "the " + _list(dates, _ordinal)


def _weekdays_phrase(days: Days) -> str:
    plain = _monday_first(days.weekdays)
    marks = [_mark_words(mark) for mark in days.weekday_marks]
    if not marks and _consecutive(plain) and len(plain) > 2:
        return f", {_weekday(plain[0])} to {_weekday(plain[-1])}"
    words = [f"{_weekday(day)}s" for day in plain] + marks
    return " on " + _join(words) + (_of_month(days) if marks else "")


def _weekday_condition(days: Days) -> str:
    plain = [f"a {_weekday(day)}" for day in _monday_first(days.weekdays)]
    return _join(plain + [_mark_words(mark) for mark in days.weekday_marks], "or")


def _mark_words(mark: Mark) -> str:
    match mark:
        case LastDay(before):
            return f"the {_ordinal(before)} day before the last" if before else "the last day"
        case NearestWorkday(date):
            return "the last weekday" if date is None else f"the weekday nearest the {_ordinal(date)}"
        case NthWeekday(weekday, nth):
            return f"the {_NTH[nth]} {_weekday(weekday)}"
        case LastWeekday(weekday):
            return f"the last {_weekday(weekday)}"


def _of_month(days: Days) -> str:
    if days.months == ALL_MONTHS:
        return " of every month"
    return f" of {_list(values(days.months), _month)}" if _names_its_month(days) else " of the month"


def _month_phrase(days: Days) -> str:
    if days.months == ALL_MONTHS or _names_its_month(days):
        return ""
    months = values(days.months)
    preposition = "from" if _consecutive(months) and len(months) > 2 else "in"
    return f" {preposition} {_list(months, _month)}"


def _names_its_month(days: Days) -> bool:
    """Whether "the 1st of January" says it all; in other sentences the months come last and bind
    everything."""
    by_mark = days.weekday_marks and days.weekdays != ALL_WEEKDAYS
    return bool(days.dates != ALL_DATES or by_mark) and not days.either and len(values(days.months)) == 1


def _step(numbers: Sequence[int], size: int) -> int | None:
    """The interval, when the numbers are evenly spread over the whole range."""
    step = size // len(numbers)
    return step if 0 < step < size and numbers == list(range(0, size, step)) and size % step == 0 else None


def _every(step: int, unit: str) -> str:
    return f"every {unit}" if step == 1 else f"every {step} {unit}s"


def _consecutive(numbers: Sequence[int]) -> bool:
    return len(numbers) > 0 and numbers[-1] - numbers[0] + 1 == len(numbers)


def _counted(unit: str, numbers: Sequence[int]) -> str:
    return f"{unit} {numbers[0]}" if len(numbers) == 1 else f"{unit}s {_list(numbers)}"


def _list(numbers: Sequence[int], say: Callable[[int], str] = str) -> str:
    """The numbers in prose, three or more in a row as "a to b"."""
    if _consecutive(numbers) and len(numbers) > 2:
        return f"{say(numbers[0])} to {say(numbers[-1])}"
    return _join(say(number) for number in numbers)


def _join(words: Iterable[str], conjunction: str = "and") -> str:
    *most, last = words
    return f"{', '.join(most)} {conjunction} {last}" if most else last


def _ordinal(number: int) -> str:
    suffix = "th" if number in (11, 12, 13) else {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{number}{suffix}"


def _month(month: int) -> str:
    return _MONTHS[month]


def _weekday(weekday: int) -> str:
    return _WEEKDAYS[weekday % 7]


def _monday_first(weekdays: int) -> list[int]:
    """Weekdays in the order of a week that ends with Sunday, which is 7 here."""
    return sorted(day or 7 for day in values(weekdays))
