"""Calendars: ranges under a name."""

from typing import Annotated

import msgspec
from msgspec import Meta

from tocsin.api.wire.pages import Listing
from tocsin.api.wire.scalars import Time
from tocsin.domain.blackout import MAX_RANGES, CalendarRange


class CalendarRanges(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The ranges of a calendar."""

    ranges: Annotated[list[CalendarRange], Meta(max_length=MAX_RANGES)]


class Calendar(msgspec.Struct, frozen=True):
    """A named calendar."""

    name: str
    ranges: list[CalendarRange]
    updated_at: Time


class Calendars(Listing, frozen=True, kw_only=True):
    """All calendars of a tenant."""

    items: list[Calendar]
