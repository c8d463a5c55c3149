"""``/v1/archives``: which files of the archive hold which days. For operators: a file holds all tenants."""

from datetime import date
from typing import Any, Final

from tocsin.api.endpoint import CURSOR, LIMIT, ApiCall, Endpoint, Parameter
from tocsin.api.listing import listing
from tocsin.api.wire import archives as wire
from tocsin.api.wire.pages import CursorNumber, decode_cursor, encode_cursor
from tocsin.archive.tables import TABLES
from tocsin.domain.errors import Refused
from tocsin.domain.instant import format_instant
from tocsin.domain.keys import Scope
from tocsin.store.archives import ArchiveFilter

_DAY: Final = {"type": "string", "format": "date"}


async def list_archives(call: ApiCall) -> wire.ArchivePage:
    """A page, the latest day first."""
    limit = call.limit()
    where = ArchiveFilter(call.choice("table", tuple(TABLES)), _day(call, "from"), _day(call, "to"))
    place = decode_cursor(call.query.get("cursor"), tuple[date, str, CursorNumber, CursorNumber])
    rows = await call.context.archives.files(where, place, limit)
    last = rows[-1] if len(rows) == limit else None
    cursor = None if last is None else encode_cursor((last["day"], last["name"], last["round"], last["part"]))
    return listing(wire.ArchivePage, rows, _shown, lambda row: str(row["object"]), next_cursor=cursor)


def _day(call: ApiCall, name: str) -> date | None:
    text = call.query.get(name)
    if text is None:
        return None
    try:
        return date.fromisoformat(text)
    except ValueError:
        raise Refused(f"{text[:20]!r} is not a day such as 2026-11-17", field=name) from None


def _shown(row: Any) -> wire.ArchiveView:
    return wire.ArchiveView(
        table=row["name"],
        day=str(row["day"]),
        round=row["round"],
        part=row["part"],
        state=row["state"],
        rows=row["rows"],
        bytes=row["bytes"],
        object=row["object"],
        sha256=row["sha256"],
        content=row["content"],
        edition=row["edition"],
        failures=row["failures"],
        trouble=row["trouble"],
        changed_at=format_instant(row["changed_at"]),
    )


ENDPOINTS = (
    Endpoint(
        method="GET", path="/v1/archives", handler=list_archives, answer=wire.ArchivePage, scope=Scope.ADMIN,
        summary="Which files of the archive hold which days, the latest day first",
        parameters=(
            LIMIT, CURSOR,
            Parameter("table", "Only days of this table", {"type": "string", "enum": [*TABLES]}),
            Parameter("from", "Only this day, in UTC, or later ones", _DAY),
            Parameter("to", "Only days before this one", _DAY),
        ),
    ),
)  # fmt: skip
