"""A value of an answer in words: no JSON, no Python, nothing that a terminal would act on."""

import re
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Any, Final

from tocsin.cli.tables import Cell

COLOURS: Final = {
    "active": "green", "succeeded": "green", "running": "cyan", "claimed": "cyan", "queued": "blue",
    "paused": "yellow", "skipped": "yellow", "expired": "yellow", "dead": "red", "cancelled": "magenta",
    "completed": "green", "draining": "yellow", "gone": "red", "suspended": "yellow",
}  # fmt: skip
_TIME_ENDINGS: Final = ("_at", "_until", "from", "to", "since")
_STATES: Final = ("state", "final_state", "verdict")
# What a target answered may hold anything; a terminal must not act on it. Line breaks are harmless.
_CONTROL: Final = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
_UNITS: Final = (("d", 86_400), ("h", 3600), ("m", 60), ("s", 1))


def cell(name: str, value: Any, now: datetime | None = None, *, brief: bool = False) -> Cell:
    """A value under the name of its field. With a `now`, times say how far off they are; brief ones leave out
    fractions, the zone and today's date."""
    if value is None:
        return Cell("–", "dim")
    if name in _STATES and isinstance(value, str):
        return Cell(harmless(value), COLOURS.get(value, ""))
    if name.endswith(_TIME_ENDINGS) and isinstance(value, str):
        return Cell(moment_text(value, now, brief=brief))
    return Cell(harmless(words(value)))


def words(value: Any) -> str:
    """A value in words: what is nested is listed."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, Mapping):
        return ", ".join(f"{name} {_inner(one)}" for name, one in value.items())
    if isinstance(value, list):
        return ", ".join(map(_inner, value))
    return "–" if value is None else str(value)


def flat(answer: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """The fields of an object with those of the objects in it, by their path; without what is empty."""
    for name, value in answer.items():
        if value in (None, [], {}):
            continue
        if isinstance(value, Mapping):
            yield from flat(value, f"{prefix}{name}.")
        elif isinstance(value, list) and any(isinstance(one, Mapping) for one in value):
            for number, one in enumerate(value, 1):
                inner = one if isinstance(one, Mapping) else {"": one}
                yield from flat(inner, f"{prefix}{name}.{number}.")
        else:
            yield prefix + name, value


def harmless(text: str) -> str:
    """The text with whatever a terminal would act on spelled out."""
    return _CONTROL.sub(lambda letter: ascii(letter[0])[1:-1], text)


def distance(moment: datetime, now: datetime) -> str:
    """How far off a moment is: `in 5m`, `3h ago`."""
    seconds = round((moment - now).total_seconds())
    unit, size = next(((unit, size) for unit, size in _UNITS if abs(seconds) >= size), ("s", 1))
    span = f"{abs(seconds) // size}{unit}"
    if seconds == 0:
        return "now"
    return f"in {span}" if seconds > 0 else f"{span} ago"


def _inner(value: Any) -> str:
    return f"({words(value)})" if isinstance(value, Mapping | list) and value else words(value)


def moment_text(text: str, now: datetime | None, *, brief: bool = False) -> str:
    """An instant in the zone of the terminal."""
    try:
        moment = datetime.fromisoformat(text)
        local = moment.astimezone()
    except (OverflowError, ValueError):
        return harmless(text)  # the year 1 or 9999, which a zone can push over the edge; or no instant
    shown = local.isoformat(sep=" ", timespec="milliseconds" if local.microsecond else "seconds")
    if now is None or moment.tzinfo is None:
        return shown
    if brief:
        shown = (
            f"{local:%H:%M:%S}" if local.date() == now.astimezone().date() else f"{local:%Y-%m-%d %H:%M:%S}"
        )
    return f"{shown} ({distance(moment.astimezone(UTC), now)})"
