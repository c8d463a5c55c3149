"""Files of the archive."""

import msgspec

from tocsin.api.wire.pages import Page
from tocsin.api.wire.scalars import Time


class ArchiveView(msgspec.Struct, frozen=True, kw_only=True):
    """A part of a day, and its file: there is none where there are no rows, or not yet."""

    table: str
    day: str
    round: int
    part: int
    state: str
    rows: int | None
    bytes: int | None
    object: str | None
    sha256: str | None
    content: str | None
    edition: int
    failures: int
    trouble: str | None
    changed_at: Time


class ArchivePage(Page, frozen=True, kw_only=True):
    """Parts of days, the latest day first."""

    items: list[ArchiveView]
