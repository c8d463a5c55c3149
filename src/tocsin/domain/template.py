"""Places in a target that every attempt fills in anew: ``{fire_at}``, ``{execution}``, ``{attempt}``, …

A target asks for it with `template: true`; any other target keeps its braces as they are. ``{{`` and ``}}``
stand for braces. A template that does not parse is refused when the job is written, so filling in cannot
fail. A value is escaped by the place that it goes to, so that a job's name can neither end a JSON string nor
begin another query parameter.
"""

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final
from urllib.parse import quote

from tocsin.domain.errors import Refused

PLACES: Final = ("fire_at", "execution", "attempt", "job", "name")
MAX_PLACES: Final = 64
"""Of one target: a body of 256 KiB does not grow by more than a name in each of them."""
Escape = Callable[[str], str]
Values = Mapping[str, str]
_BRACES: Final = re.compile(r"\{\{|\}\}|\{([^{}]*)\}|[{}]")
_JSON_TYPE: Final = re.compile(r"application/([\w.+-]+\+)?json\b", re.IGNORECASE)
_FORM_TYPE: Final = re.compile(r"application/x-www-form-urlencoded\b", re.IGNORECASE)


def in_url(value: str) -> str:
    """A value as part of a path or a query: nothing in it separates anything."""
    return quote(value, safe="")


def in_json(value: str) -> str:
    """A value inside a JSON string that is text already."""
    return json.dumps(value, ensure_ascii=False)[1:-1]


def in_header(value: str) -> str:
    """A value as part of a header: printable ASCII as it is, whatever else as in a URL."""
    return quote(value, safe=" !\"#$&'()*+,/:;<=>?@[\\]^`{|}~")


def in_word(value: str) -> str:
    """A value as part of a subject or a routing key: no dot in it begins another word, and it is no
    wildcard."""
    return quote(value, safe=":@=+,").replace(".", "%2E")


def as_is(value: str) -> str:
    """A value where nothing separates anything, or where an encoder follows."""
    return value


def in_text(content_type: str | None) -> Escape:
    """How a body that is text is filled in: by what the text is said to be."""
    if content_type is not None and _JSON_TYPE.match(content_type):
        return in_json
    if content_type is not None and _FORM_TYPE.match(content_type):
        return in_url
    return as_is


def fill(text: str, values: Values, escape: Escape = as_is) -> str:
    """A text with its places filled in."""
    if "{" not in text and "}" not in text:
        return text
    return _BRACES.sub(lambda found: _filled(found, values, escape), text)


def fill_value(value: Any, values: Values) -> Any:
    """A JSON value with the places of its texts filled in; names of fields stay."""
    match value:
        case str():
            return fill(value, values)
        case list():
            return [fill_value(item, values) for item in value]
        case dict():
            return {name: fill_value(item, values) for name, item in value.items()}
        case _:
            return value


def places_of(parts: Mapping[str, Any]) -> list[str]:
    """The places in the named parts of a target, in order. Refuses what is none, naming the field."""
    found = [place for field, value in parts.items() for place in _places(value, field)]
    if len(found) > MAX_PLACES:
        raise Refused(f"a target has at most {MAX_PLACES} places to fill in", field=next(iter(parts)))
    return found


def check_places(parts: Mapping[str, Any], known: Sequence[str]) -> None:
    """Refuse places other than these, of what is filled in otherwise than for an attempt."""
    found = [place for field, value in parts.items() for place in _places(value, field, known)]
    if len(found) > MAX_PLACES:
        raise Refused(f"at most {MAX_PLACES} places are filled in", field=next(iter(parts)))


def wants_name(parts: Mapping[str, Any]) -> bool:
    """Whether a target that was checked needs the job's name."""
    return "name" in places_of(parts)


def _places(value: Any, field: str, known: Sequence[str] = PLACES) -> Iterator[str]:
    match value:
        case str():
            yield from _places_of_text(value, field, known)
        case list():
            for number, item in enumerate(value):
                yield from _places(item, f"{field}[{number}]", known)
        case dict():
            for name, item in value.items():
                yield from _places(item, f"{field}.{name[:64]}", known)


def _places_of_text(text: str, field: str, names: Sequence[str]) -> Iterator[str]:
    for found in _BRACES.finditer(text):
        if found[0] in ("{{", "}}"):
            continue
        if found[1] is None:
            raise Refused(
                f"a brace that stands alone: {found[0]!r}",
                field=field,
                hint="write {{ and }} for braces in a target with template: true",
            )
        if found[1] not in names:
            known = ", ".join(f"{{{name}}}" for name in names)
            raise Refused(
                f"there is no {{{found[1][:40]}}} to fill in; known are {known}",
                field=field,
                hint="write {{ and }} for braces in a target with template: true",
            )
        yield found[1]


def _filled(found: re.Match[str], values: Values, escape: Escape) -> str:
    if found[1] is None:
        return found[0][0]
    return escape(values.get(found[1], ""))
