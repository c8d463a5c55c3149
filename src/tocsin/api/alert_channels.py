"""``/v1/alert-channels``: where alerts are told."""

from operator import itemgetter
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from tocsin.api.connections import check_connection_of
from tocsin.api.definitions import check_callable, new_job
from tocsin.api.endpoint import ApiCall, Endpoint
from tocsin.api.listing import listing
from tocsin.api.wire import alerts as wire
from tocsin.api.wire.actions import Nothing
from tocsin.domain.alert_channel import TRIAL, AlertChannel, check_channel, target_of
from tocsin.domain.audit import Mask
from tocsin.domain.errors import NotFound, Refused, Unavailable, Unreadable
from tocsin.domain.ids import job_text
from tocsin.domain.instant import format_instant
from tocsin.domain.job import check_name
from tocsin.domain.keys import Scope
from tocsin.store.alert_courses import definition_of
from tocsin.store.alerts import read_channel

_FIELDS: Final = AlertChannel.__struct_fields__


async def put(call: ApiCall) -> wire.AlertChannelView:
    """Create a channel or replace it."""
    name, channel = call.path["name"], call.body
    check_name(name, "name")
    target = check_channel(channel)
    try:
        check_callable(target, call)
        await check_connection_of(target, call)
    except Refused as error:
        error.field = None if error.field is None else error.field.removeprefix("target.")
        raise
    before = await _before(call)
    row = await call.context.alerts.put_channel(call.asker.tenant_id, name, channel)
    mask = Mask()
    noted_before = None if before is None else mask.target(msgspec.to_builtins(before))
    call.note(before=noted_before, after=mask.target(msgspec.to_builtins(channel)))
    return _view(row)


async def show(call: ApiCall) -> wire.AlertChannelView:
    """One channel."""
    row = await call.context.alerts.channel(call.asker.tenant_id, call.path["name"])
    try:
        return _view(row)
    except Unreadable as error:
        raise Unavailable(f"{error.detail}; a newer version wrote it") from None


async def list_channels(call: ApiCall) -> wire.AlertChannels:
    """All channels."""
    rows = await call.context.alerts.channels(call.asker.tenant_id)
    return listing(wire.AlertChannels, rows, _view, itemgetter("name"))


async def delete(call: ApiCall) -> Nothing:
    """Remove a channel that no rule names."""
    await call.context.alerts.delete_channel(call.asker.tenant_id, call.path["name"])
    return Nothing()


async def test(call: ApiCall) -> wire.AlertChannelTest:
    """Send a test message, by a job like those that tell of alerts."""
    name, now = call.path["name"], call.context.clock.now()
    channel = read_channel(await call.context.alerts.channel(call.asker.tenant_id, name))
    message = replace(TRIAL, tenant=call.asker.tenant, at=format_instant(now))
    job = new_job(definition_of(message, name, target_of(channel, message), now), call, now)
    await call.context.intake.define(job)
    return wire.AlertChannelTest(job_text(job.id))


async def _before(call: ApiCall) -> AlertChannel | None:
    try:
        return read_channel(await call.context.alerts.channel(call.asker.tenant_id, call.path["name"]))
    except (NotFound, Unreadable):
        return None


def _view(row: Any) -> wire.AlertChannelView:
    channel = read_channel(row)
    return wire.AlertChannelView(
        **{name: getattr(channel, name) for name in _FIELDS},
        name=row["name"],
        version=row["version"],
        created_at=format_instant(row["created_at"]),
        updated_at=format_instant(row["updated_at"]),
    )


_CHANNEL: Final = "/v1/alert-channels/{name}"
ENDPOINTS = (
    Endpoint(
        method="GET", path="/v1/alert-channels", handler=list_channels, answer=wire.AlertChannels, summary="All alert channels",
    ),
    Endpoint(
        method="PUT", path=_CHANNEL, handler=put, body=AlertChannel, answer=wire.AlertChannelView, scope=Scope.WRITE, refusals=(409,),
        summary="Create an alert channel or replace it",
    ),
    Endpoint(
        method="GET", path=_CHANNEL, handler=show, answer=wire.AlertChannelView, refusals=(404,), summary="Show an alert channel",
    ),
    Endpoint(
        method="DELETE", path=_CHANNEL, handler=delete, answer=Nothing, scope=Scope.WRITE, refusals=(404, 409),
        summary="Delete an alert channel that no rule names",
    ),
    Endpoint(
        method="POST", path=f"{_CHANNEL}/test", handler=test, answer=wire.AlertChannelTest, status=202, scope=Scope.WRITE,
        refusals=(404,), summary="Send a test message to an alert channel, by a job",
    ),
)  # fmt: skip
