"""``/v1/calendars``: ranges in which jobs that name them do not fire."""

from operator import itemgetter

import msgspec

from tocsin.api.endpoint import ApiCall, Endpoint
from tocsin.api.listing import listing
from tocsin.api.wire import calendars as wire
from tocsin.api.wire.actions import Nothing
from tocsin.domain.blackout import CalendarRange
from tocsin.domain.errors import NotFound
from tocsin.domain.instant import format_instant
from tocsin.domain.job import check_name
from tocsin.domain.keys import Scope


async def put(call: ApiCall) -> wire.Calendar:
    """Create a calendar or replace its ranges."""
    name = call.path["name"]
    check_name(name, "name")
    before = await _ranges(call)
    await call.context.calendars.put(call.asker.tenant_id, name, call.body.ranges)
    call.note(before=before, after={"ranges": call.body.ranges})
    return await show(call)


async def show(call: ApiCall) -> wire.Calendar:
    """One calendar."""
    return _view(await call.context.calendars.get(call.asker.tenant_id, call.path["name"]))


async def list_calendars(call: ApiCall) -> wire.Calendars:
    """All calendars."""
    rows = await call.context.calendars.list(call.asker.tenant_id)
    return listing(wire.Calendars, rows, _view, itemgetter("name"))


async def delete(call: ApiCall) -> Nothing:
    """Remove a calendar that no job names."""
    before = await _ranges(call)
    await call.context.calendars.delete(call.asker.tenant_id, call.path["name"])
    call.note(before=before)
    return Nothing()


async def _ranges(call: ApiCall) -> dict[str, list[CalendarRange]] | None:
    """The calendar as it is, for the audit log."""
    try:
        return {"ranges": (await show(call)).ranges}
    except NotFound:
        return None


def _view(row: object) -> wire.Calendar:
    ranges = msgspec.json.decode(row["ranges"], type=list[CalendarRange])  # type: ignore[index]
    return wire.Calendar(row["name"], ranges, format_instant(row["updated_at"]))  # type: ignore[index]


_CALENDAR = "/v1/calendars/{name}"
ENDPOINTS = (
    Endpoint(
        method="GET", path="/v1/calendars", handler=list_calendars, summary="All calendars", answer=wire.Calendars,
    ),
    Endpoint(
        method="PUT", path=_CALENDAR, handler=put, body=wire.CalendarRanges, answer=wire.Calendar, scope=Scope.WRITE,
        summary="Create a calendar or replace its ranges; jobs follow from their next planning on",
    ),
    Endpoint(
        method="GET", path=_CALENDAR, handler=show, summary="Show a calendar", answer=wire.Calendar, refusals=(404,),
    ),
    Endpoint(
        method="DELETE", path=_CALENDAR, handler=delete, summary="Delete a calendar that no job names",
        answer=Nothing, scope=Scope.WRITE, refusals=(404, 409),
    ),
)  # fmt: skip
