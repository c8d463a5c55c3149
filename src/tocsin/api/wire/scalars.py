"""Instants and names, as the bodies of many resources write them."""

from typing import Annotated

from tocsin.domain.instant import Instant, format_instant
from tocsin.domain.job import MAX_NAME
from tocsin.domain.written import WrittenInstant, line

Time = WrittenInstant
Name = Annotated[str, line(MAX_NAME)]


def time_of(instant: Instant | None) -> str | None:
    """An instant as text, if there is one."""
    return None if instant is None else format_instant(instant)
