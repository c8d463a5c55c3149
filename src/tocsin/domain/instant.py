"""Instants and durations as integers.

An `Instant` is microseconds since the Unix epoch, UTC; a `Span` is microseconds. Integers make the sums
that matter (fire times, lags, deadlines) exact and cheap, and cannot carry a wrong `tzinfo` or drop a
`fold`. PostgreSQL's `timestamptz` has the same resolution, so nothing is rounded on the way. Text and zones
exist only at the edges: here for RFC 3339, in `cron` for wall clocks.
"""

import re
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Final

from tocsin.domain.errors import Refused
from tocsin.domain.written import MAX_SPAN_TEXT, SPAN_TEXT

Instant = int
Span = int

MICROSECOND: Final = 1
MILLISECOND: Final = 1_000
SECOND: Final = 1_000_000
MINUTE: Final = 60 * SECOND
HOUR: Final = 60 * MINUTE
DAY: Final = 24 * HOUR

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_UNITS: Final = {"ms": MILLISECOND, "s": SECOND, "m": MINUTE, "h": HOUR, "d": DAY, "w": 7 * DAY}
_PART: Final = re.compile(r"([0-9]+(?:\.[0-9]+)?) *(ms|s|m|h|d|w)")
_SPAN: Final = re.compile(SPAN_TEXT)
# What RFC 3339 allows; `fromisoformat` reads much more. The offset may be missing here, to be asked for by
# name.
_RFC_3339: Final = re.compile(
    r"[0-9]{4}-[0-9]{2}-[0-9]{2}[Tt ][0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]+)?([Zz]|[+-][0-9]{2}:[0-9]{2})?"
)
_MAX_SPAN: Final = 100 * 366 * DAY


def from_datetime(moment: datetime) -> Instant:
    """The instant of an aware datetime, to the microsecond."""
    since = moment - _EPOCH
    return since.days * DAY + since.seconds * SECOND + since.microseconds


EARLIEST: Final = from_datetime(datetime.min.replace(tzinfo=UTC))
LATEST: Final = from_datetime(datetime.max.replace(tzinfo=UTC))


def to_datetime(instant: Instant) -> datetime:
    """The instant as an aware datetime in UTC."""
    return _EPOCH + timedelta(microseconds=instant)


def has_passed(span: Span, since: Instant, now: Instant) -> bool:
    """Whether a span has passed since then. Also true if the clock was set back meanwhile: how much has
    passed is unknown then, and waiting for the clock to catch up could take long."""
    return not 0 <= now - since < span


@lru_cache(maxsize=1024)  # the same text is read more than once on its way, and often stands in many jobs
def parse_instant(text: str, field: str) -> Instant:
    """Read RFC 3339 with an explicit offset; a local time without one is refused, never guessed."""
    try:
        if not _RFC_3339.fullmatch(text):
            raise ValueError
        moment = datetime.fromisoformat(text.upper())
    except ValueError:
        raise Refused(
            f"{text[:64]!r} is not an RFC 3339 instant such as 2030-01-31T09:00:00Z", field=field
        ) from None
    if moment.tzinfo is None:
        raise Refused(f"{text!r} has no offset; add Z or +01:00 so that it names one instant", field=field)
    instant = from_datetime(moment)
    if not EARLIEST <= instant <= LATEST:  # an offset can carry it over the edge
        raise Refused(f"{text!r} lies outside the years 1 to 9999 in UTC", field=field)
    return instant


def format_instant(instant: Instant) -> str:
    """RFC 3339 in UTC; whole seconds stay short, anything finer shows microseconds."""
    second, finer = divmod(instant, SECOND)
    return f"{_format_second(second)}.{finer:06}Z" if finer else f"{_format_second(second)}Z"


@lru_cache(maxsize=1024)
def _format_second(second: int) -> str:
    """Remembered, because what happens in one second comes in crowds."""
    return to_datetime(second * SECOND).isoformat()[: -len("+00:00")]


def parse_span(value: str | float, field: str) -> Span:
    """Read a duration: seconds as a number, or text such as ``1h30m``, ``90s``, ``250ms``."""
    if isinstance(value, str):
        span = _span_of_text(value, field)
    else:
        if value != value or abs(value) == float("inf"):  # noqa: PLR0124 - the cheapest test for NaN
            raise Refused("a duration must be a finite number of seconds", field=field)
        if value < 0:  # also where it would round to nothing
            raise Refused("a duration cannot be negative", field=field)
        span = round(min(value, float(_MAX_SPAN)) * SECOND)  # anything huge would overflow
    if span > _MAX_SPAN:
        raise Refused("a duration cannot exceed 100 years", field=field)
    return span


def format_span(span: Span) -> str:
    """The shortest text that `parse_span` reads back as the same span."""
    if span == 0:
        return "0s"
    parts = []
    rest = span
    for unit in ("d", "h", "m"):
        count, rest = divmod(rest, _UNITS[unit])
        if count:
            parts.append(f"{count}{unit}")
    if rest:
        seconds = f"{rest / SECOND:.6f}".rstrip("0").rstrip(".")
        parts.append(f"{seconds}s")
    return "".join(parts)


@lru_cache(maxsize=1024)  # the few that policies name are asked for again and again
def _span_of_text(text: str, field: str) -> Span:
    if len(text) > MAX_SPAN_TEXT:
        raise Refused(f"a duration is at most {MAX_SPAN_TEXT} characters", field=field)
    if not _SPAN.fullmatch(text):
        raise Refused(f"{text!r} is not a duration such as 90s, 5m, 1h30m or 2d", field=field)
    span = sum(float(number) * _UNITS[unit] for number, unit in _PART.findall(text))
    return round(min(span, float(_MAX_SPAN) * 2))
