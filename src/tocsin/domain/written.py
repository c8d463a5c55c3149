"""How values look in requests, as JSON schemas for their authors.

The decoder looks at types only. Bounds, lengths and patterns are checked by the domain, which says in words
what is wrong; the annotations here tell readers of the API's document beforehand what those checks let
through.
"""

from typing import Annotated, Any, Final

from msgspec import Meta

_BARRED: Final = "\\u0000-\\u001f\\u007f-\\u009f\\u2028\\u2029"  # what `check_text` does not let through
_DAY: Final = 86_400
PLAIN_NAME: Final = r"[a-z0-9][a-z0-9._-]{0,62}"
"""Names that stand in URLs and commands: queues, calendars, tenants."""

STATUS_TEXT: Final = "[2-5](xx|[0-9][0-9])"
MAX_SPAN_TEXT: Final = 64
SPAN_TEXT: Final = r" *([0-9]+(\.[0-9]+)? *(ms|s|m|h|d|w) *)+"


def described(**schema: Any) -> Meta:
    """A schema that is not checked while decoding."""
    return Meta(extra_json_schema=schema)


def between(low: float, high: float) -> Meta:
    """A number with bounds, both included."""
    return described(minimum=low, maximum=high)


def line(longest: int, *, without: str = "") -> Meta:
    """Words on one line, without the characters `without`."""
    return described(minLength=1, maxLength=longest, pattern=f"^[^{without}{_BARRED}]*$")


def lines(longest: int) -> Meta:
    """Words on several lines."""
    return described(minLength=1, maxLength=longest, pattern=f"^([^{_BARRED}]|[\\n\\t])*$")


def at_most(items: int, **more: Any) -> Meta:
    """A list with at most `items` items."""
    return described(maxItems=items, **more)


WrittenInstant = Annotated[str, described(format="date-time")]
WrittenDate = Annotated[str, described(format="date")]
WrittenCron = Annotated[str, described(format="cron", maxLength=256, examples=["0 9 * * MON-FRI", "@daily"])]
WrittenZone = Annotated[str, described(format="time-zone", examples=["Europe/Berlin"])]
WrittenUrl = Annotated[str, described(format="url", pattern="^[Hh][Tt][Tt][Pp][Ss]?://", maxLength=2048)]
WrittenName = Annotated[str, described(pattern=f"^{PLAIN_NAME}$")]
WrittenStatus = (
    Annotated[int, between(200, 599)]
    | Annotated[str, described(pattern=f"^{STATUS_TEXT}$", examples=["2xx"])]
)
SpanText = Annotated[
    str, described(pattern=f"^{SPAN_TEXT}$", maxLength=MAX_SPAN_TEXT, examples=["90s", "1h30m"])
]
# A duration is text with units, or seconds. Only of seconds can a schema say how many are possible.
WrittenSpan = SpanText | Annotated[float, between(0, 100 * 366 * _DAY)]
WrittenInterval = SpanText | Annotated[float, between(1, 3660 * _DAY)]
WrittenTimeout = SpanText | Annotated[float, between(0.1, _DAY)]
UpToAnHour = SpanText | Annotated[float, between(0, 3600)]
UpToADay = SpanText | Annotated[float, between(0, _DAY)]
UpToAMonth = SpanText | Annotated[float, between(0, 30 * _DAY)]
UpToAYear = SpanText | Annotated[float, between(0, 366 * _DAY)]
