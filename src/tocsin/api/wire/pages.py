"""Listings come in pages, and a cursor says where the next one begins.

A cursor is opaque to callers and self-contained for us: the place in the listing, of a type that the listing
names. What does not decode to that type is refused before it reaches the database.
"""

import base64
import binascii
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from tocsin.domain.errors import Refused
from tocsin.domain.instant import EARLIEST

# Cursors name instants. These bounds lie beyond the years that can be written, so that a broken row can end a
# page, and before PostgreSQL's own.
CursorInstant = Annotated[int, Meta(ge=EARLIEST, le=1 << 62)]
CursorNumber = Annotated[int, Meta(ge=0, le=(1 << 62))]


class Broken(msgspec.Struct, frozen=True):
    """Something that is there and cannot be shown: its row holds what this version cannot read."""

    id: str
    detail: str


class Listing(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What listings have in common: `items`, and what would be among them if it could be shown."""

    broken: list[Broken] = []


class Page(Listing, frozen=True, kw_only=True):
    """What pages have in common."""

    next_cursor: str | None


def encode_cursor(place: object) -> str:
    """A cursor: opaque to callers, self-contained for us."""
    return base64.urlsafe_b64encode(msgspec.json.encode(place)).decode().rstrip("=")


def decode_cursor(text: str | None, kind: Any) -> Any:
    """The place a cursor names, of the type `kind`."""
    if text is None:
        return None
    try:
        raw = base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
        return msgspec.json.decode(raw, type=kind)
    except (ValueError, binascii.Error, msgspec.DecodeError):
        raise Refused(
            "not a cursor of this listing; use next_cursor as it was given", field="cursor"
        ) from None
