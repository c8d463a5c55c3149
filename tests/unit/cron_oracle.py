"""What a cron expression should do, found the slow way.

The oracle walks UTC in small steps, asks zoneinfo what the wall clock reads, and looks whether that reading
matches. It shares no code with the engine, not even the parser: `draw_expression` makes up an expression as
sets of numbers together with its text, so the two sides only meet in the text.

The `dst` policies are read straight from the requirement: `literal` fires at every instant whose reading
matches; `once` drops those whose reading was shown before; `cron` does the same for fixed times and adds one
fire at the first instant after a jump that swallowed a matching reading. Jumps of three hours or more are
corrections, which `cron` treats as `literal` does.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from random import Random
from zoneinfo import ZoneInfo

MONTH_NAMES = ["JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC"]
WEEKDAY_NAMES = ["SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT"]
ONE_DAY = timedelta(days=1)
CORRECTION = timedelta(hours=3)


@dataclass
class Expression:
    """An expression as text and as the sets it stands for. Weekdays count from Sunday as 0."""

    text: str
    seconds: set[int]
    minutes: set[int]
    hours: set[int]
    dates: set[int]
    date_words: list[str]
    months: set[int]
    weekdays: set[int]
    weekday_words: list[str]
    starred: dict[str, bool]
    known_days: dict[date, bool] = field(default_factory=dict)

    @property
    def fixed_time(self) -> bool:
        return not self.starred["minute"] and not self.starred["hour"]

    def matches(self, reading: datetime) -> bool:
        return (
            reading.minute in self.minutes
            and reading.second in self.seconds
            and reading.hour in self.hours
            and self.matches_day(reading.date())
        )

    def matches_day(self, day: date) -> bool:
        if day not in self.known_days:
            self.known_days[day] = self._matches_day(day)
        return self.known_days[day]

    def _matches_day(self, day: date) -> bool:
        if day.month not in self.months:
            return False
        by_date = day.day in self.dates or any(_is_date(word, day) for word in self.date_words)
        by_weekday = day.isoweekday() % 7 in self.weekdays or any(
            _is_weekday(word, day) for word in self.weekday_words
        )
        if self.starred["date"] or self.starred["weekday"]:
            return by_date and by_weekday
        return by_date or by_weekday


def _month_of(day: date) -> list[date]:
    first = day.replace(day=1)
    days = [first + n * ONE_DAY for n in range(31)]
    return [each for each in days if each.month == day.month]


def _is_date(word: str, day: date) -> bool:
    """Whether a day is what L, L-n, LW or nW says of its month."""
    month = _month_of(day)
    if word == "L":
        return day == month[-1]
    if word.startswith("L-"):
        return day == month[-1] - int(word[2:]) * ONE_DAY
    workdays = [each for each in month if each.isoweekday() <= 5]
    if word == "LW":
        return day == workdays[-1]
    wanted = int(word[:-1])
    return wanted <= len(month) and day == min(workdays, key=lambda each: abs(each.day - wanted))


def _is_weekday(word: str, day: date) -> bool:
    """Whether a day is what d#n or dL says of its month; d is a digit here."""
    same = [each for each in _month_of(day) if each.isoweekday() % 7 == int(word[0]) % 7]
    if word.endswith("L"):
        return day == same[-1]
    return day in same[int(word[2:]) - 1 : int(word[2:])]


def oracle_fires(
    expression: Expression, zone: ZoneInfo, policy: str, base: datetime, until: datetime, step: int
) -> Iterator[datetime]:
    """The fires after `base` and before `until`, walking `step` seconds at a time (60, or 1 for seconds)."""
    pause = timedelta(seconds=step)
    instant = base.astimezone(UTC).replace(microsecond=0)
    instant -= timedelta(seconds=instant.timestamp() % step)
    before = _reading(instant - pause, zone)
    while instant < until:
        if _at_midnight(instant) and not _any_day_near(expression, instant):
            instant += ONE_DAY
            before = _reading(instant - pause, zone)
            continue
        reading = _reading(instant, zone)
        if instant > base and _fires(expression, zone, policy, instant, before, reading, pause):
            yield instant
        before = reading
        instant += pause


def _fires(
    expression: Expression,
    zone: ZoneInfo,
    policy: str,
    instant: datetime,
    before: datetime,
    reading: datetime,
    pause: timedelta,
) -> bool:
    moved = policy == "cron" and expression.fixed_time
    made_up = moved and reading - before - pause < CORRECTION
    if made_up and any(expression.matches(lost) for lost in _lost(before, reading, pause)):
        return True
    if not expression.matches(reading):
        return False
    if moved:
        return not _seen_before(instant, reading, zone, CORRECTION)
    return policy != "once" or not _seen_before(instant, reading, zone, timedelta(hours=26))


def _lost(before: datetime, reading: datetime, pause: timedelta) -> Iterator[datetime]:
    lost = before + pause
    while lost < reading:
        yield lost
        lost += pause


def _seen_before(instant: datetime, reading: datetime, zone: ZoneInfo, within: timedelta) -> bool:
    """Offsets of the zones and years drawn here are whole quarters of an hour apart, so are equal
    readings."""
    quarter = timedelta(minutes=15)
    return any(_reading(instant - n * quarter, zone) == reading for n in range(1, within // quarter))


def _reading(instant: datetime, zone: ZoneInfo) -> datetime:
    return instant.astimezone(zone).replace(tzinfo=None, fold=0)


def _at_midnight(instant: datetime) -> bool:
    return instant.hour == instant.minute == instant.second == 0


def _any_day_near(expression: Expression, instant: datetime) -> bool:
    """Spares the walk through days on which no clock on earth shows a matching date."""
    return any(expression.matches_day(instant.date() + n * ONE_DAY) for n in range(-1, 4))


def draw_expression(rng: Random, *, with_seconds: bool = False, near_hour: int | None = None) -> Expression:
    """A random expression; one with `near_hour` is likely to fire around that hour of any day."""
    hours_liked = (
        (0, 1, 2, 3, 23) if near_hour is None else tuple((near_hour + n) % 24 for n in (-2, -1, 0, 1))
    )
    any_day = 0.5 if near_hour is None else 0.85
    starred: dict[str, bool] = {}
    second, seconds = ("", {0})
    if with_seconds:
        second, seconds, _ = _draw_field(rng, 0, 59)
        second += " "
    minute, minutes, starred["minute"] = _draw_field(rng, 0, 59, favourites=(0, 15, 30, 45, 59))
    hour, hours, starred["hour"] = _draw_field(rng, 0, 23, favourites=hours_liked)
    date_text, dates, starred["date"], date_words = _draw_dates(rng, any_day)
    month, months, _ = ("*", set(range(1, 13)), True) if rng.random() < any_day else _draw_months(rng)
    weekday, weekdays, starred["weekday"], weekday_words = _draw_weekdays(rng, any_day)
    text = f"{second}{minute} {hour} {date_text} {month} {weekday}"
    return Expression(
        text, seconds, minutes, hours, dates, date_words, months, weekdays, weekday_words, starred
    )


def _draw_field(
    rng: Random, low: int, high: int, favourites: tuple[int, ...] = ()
) -> tuple[str, set[int], bool]:
    """A star, a stepped star, or a list of values, ranges and stepped ranges."""
    kind = rng.random()
    if kind < 0.2:
        return "*", set(range(low, high + 1)), True
    if kind < 0.35:
        step = rng.randint(1, high)
        return f"*/{step}", set(range(low, high + 1, step)), True
    texts, found = [], set()
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        text, some = _draw_item(rng, low, high, favourites)
        texts.append(text)
        found |= some
    return ",".join(texts), found, False


def _draw_item(rng: Random, low: int, high: int, favourites: tuple[int, ...]) -> tuple[str, set[int]]:
    kind = rng.random()
    if favourites and kind < 0.5:
        value = rng.choice(favourites)
        return rng.choice((f"{value}", f"{value:02}")), {value}
    first, last = sorted((rng.randint(low, high), rng.randint(low, high)))
    if kind < 0.75:
        return str(first), {first}
    if kind < 0.85:
        return f"{first}-{last}", set(range(first, last + 1))
    step = rng.randint(1, high)
    if kind < 0.92:
        return f"{first}/{step}", set(range(first, high + 1, step))
    return f"{first}-{last}/{step}", set(range(first, last + 1, step))


def _draw_dates(rng: Random, any_day: float) -> tuple[str, set[int], bool, list[str]]:
    if rng.random() < any_day:
        return rng.choice("*?"), set(range(1, 32)), True, []
    if rng.random() < 0.5:
        text, dates, star = _draw_field(rng, 1, 31, favourites=(1, 15, 28, 29, 30, 31))
        return text, dates, star, []
    words = [_draw_date_word(rng) for _ in range(rng.choice((1, 1, 2)))]
    plain = {rng.randint(1, 31)} if rng.random() < 0.3 else set()
    return ",".join([*map(str, plain), *(_any_case(rng, word) for word in words)]), plain, False, words


def _draw_date_word(rng: Random) -> str:
    # Short of 28 days before the last: further back some months, and so maybe all drawn ones, have no such
    # day.
    return rng.choice(("L", "LW", f"L-{rng.randint(1, 27)}", f"{rng.randint(1, 28)}W"))


def _draw_months(rng: Random) -> tuple[str, set[int], bool]:
    first, last = rng.randint(1, 12), rng.randint(1, 12)
    if rng.random() < 0.5:
        return str(first), {first}, False
    span = {(first - 1 + n) % 12 + 1 for n in range((last - first) % 12 + 1)}
    return f"{_any_case(rng, MONTH_NAMES[first - 1])}-{_any_case(rng, MONTH_NAMES[last - 1])}", span, False


def _draw_weekdays(rng: Random, any_day: float) -> tuple[str, set[int], bool, list[str]]:
    if rng.random() < any_day:
        return rng.choice("*?"), set(range(7)), True, []
    kind = rng.random()
    if kind < 0.2:
        step = rng.randint(1, 7)
        return f"*/{step}", set(range(0, 7, step)), True, []
    first, last = rng.randint(0, 7), rng.randint(0, 6)
    if kind < 0.4:
        return str(first), {first % 7}, False, []
    if kind < 0.7:
        span = {(first + n) % 7 for n in range((last - first) % 7 + 1)}
        return f"{_any_case(rng, WEEKDAY_NAMES[first % 7])}-{WEEKDAY_NAMES[last]}", span, False, []
    word = rng.choice((f"{first}L", f"{first}#{rng.randint(1, 5)}"))
    return word, set(), False, [word]


def _any_case(rng: Random, text: str) -> str:
    return rng.choice((text, text.lower(), text.title()))
