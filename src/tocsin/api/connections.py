"""``/v1/connections``: brokers under names that targets refer to."""

from operator import itemgetter
from typing import Any, Final

import msgspec

from tocsin.api.endpoint import ApiCall, Endpoint
from tocsin.api.listing import listing
from tocsin.api.wire import connections as wire
from tocsin.api.wire.actions import Nothing
from tocsin.domain.connection import Connection, check_connection, check_places
from tocsin.domain.errors import NotFound, Refused, Unavailable, Unreadable
from tocsin.domain.instant import format_instant
from tocsin.domain.job import check_name
from tocsin.domain.keys import Scope
from tocsin.domain.message_target import MessageTarget
from tocsin.domain.target import Target
from tocsin.store.connections import read_connection
from tocsin.targets.message.extras import is_installed, missing

_FIELDS: Final = Connection.__struct_fields__


async def create(call: ApiCall) -> wire.ConnectionView:
    """A new connection."""
    name, connection = call.body.name, await _checked(call)
    check_name(name, "name")
    row = await call.context.connections.create(call.asker.tenant_id, name, connection)
    call.note(f"connection:{name}", after=_noted(connection))
    return _view(row)


async def put(call: ApiCall) -> wire.ConnectionView:
    """Create a connection or replace it. Workers follow within seconds."""
    name = call.path["name"]
    check_name(name, "name")
    if call.body.name not in (None, name):
        raise Refused("the name in the body is not the one in the address", field="name")
    connection = await _checked(call)
    before = await _before(call)
    row = await call.context.connections.put(call.asker.tenant_id, name, connection)
    call.note(before=before, after=_noted(connection))
    return _view(row)


async def show(call: ApiCall) -> wire.ConnectionView:
    """One connection."""
    row = await call.context.connections.get(call.asker.tenant_id, call.path["name"])
    try:
        return _view(row)
    except Unreadable as error:
        raise Unavailable(f"{error.detail}; a newer version wrote it") from None


async def list_connections(call: ApiCall) -> wire.Connections:
    """All connections."""
    rows = await call.context.connections.list(call.asker.tenant_id)
    return listing(wire.Connections, rows, _view, itemgetter("name"))


async def delete(call: ApiCall) -> Nothing:
    """Remove a connection that no job and no alert channel names."""
    before = await _before(call)
    await call.context.connections.delete(call.asker.tenant_id, call.path["name"])
    call.note(before=before)
    return Nothing()


async def test(call: ApiCall) -> wire.ConnectionTest:
    """Connect to the broker now, from this process, and leave again. Nothing is sent."""
    row = await call.context.connections.get(call.asker.tenant_id, call.path["name"])
    connection = read_connection(row)
    if not is_installed(connection.kind):
        raise Refused(f"this API process cannot reach {missing(connection.kind)}", field="kind")
    tried = await call.context.brokers.try_out(call.asker.tenant_id, connection)
    return wire.ConnectionTest(tried.error is None, tried.took_ms, tried.error)


async def check_connection_of(target: Target, call: ApiCall) -> None:
    """Refuse a target that names a connection that is not there or is of another kind."""
    if not isinstance(target, MessageTarget):
        return
    kind = str(target.__struct_config__.tag)
    await _check_kind(call, kind, "target.kind")
    row = await call.context.connections.find(call.asker.tenant_id, target.connection)
    if row is None:
        raise Refused(f"no connection {target.connection!r}", field="target.connection")
    if row["kind"] != kind:
        words = f"the connection {target.connection!r} is of the kind {row['kind']}"
        raise Refused(words, field="target.connection")


async def _checked(call: ApiCall) -> Connection:
    connection = Connection(**{name: getattr(call.body, name) for name in _FIELDS})
    check_connection(connection)
    check_places(connection, call.context.policy)
    await _check_kind(call, connection.kind, "kind")
    return connection


async def _check_kind(call: ApiCall, kind: str, field: str) -> None:
    """Refuse a kind that nothing here can call: neither this process nor a live worker has what it takes."""
    if not is_installed(kind) and not await call.context.leases.serves(kind):
        raise Refused(f"this installation cannot call {missing(kind)}", field=field)


async def _before(call: ApiCall) -> dict[str, Any] | None:
    """The connection as it is, for the audit log."""
    try:
        row = await call.context.connections.get(call.asker.tenant_id, call.path["name"])
        return _noted(read_connection(row))
    except (NotFound, Unreadable):
        return None


def _noted(connection: Connection) -> dict[str, Any]:
    noted: dict[str, Any] = msgspec.to_builtins(connection)
    return noted


def _view(row: Any) -> wire.ConnectionView:
    connection = read_connection(row)
    return wire.ConnectionView(
        **{name: getattr(connection, name) for name in _FIELDS},
        name=row["name"],
        version=row["version"],
        created_at=format_instant(row["created_at"]),
        updated_at=format_instant(row["updated_at"]),
    )


_CONNECTION = "/v1/connections/{name}"
ENDPOINTS = (
    Endpoint(
        method="POST", path="/v1/connections", handler=create, body=wire.NewConnection, answer=wire.ConnectionView,
        status=201, scope=Scope.WRITE, refusals=(409,), summary="Create a connection to a broker",
    ),
    Endpoint(
        method="GET", path="/v1/connections", handler=list_connections, summary="All connections", answer=wire.Connections,
    ),
    Endpoint(
        method="PUT", path=_CONNECTION, handler=put, body=wire.ConnectionBody, answer=wire.ConnectionView,
        scope=Scope.WRITE, refusals=(409,),
        summary="Create a connection or replace it; workers follow within seconds",
    ),
    Endpoint(
        method="GET", path=_CONNECTION, handler=show, summary="Show a connection", answer=wire.ConnectionView,
        refusals=(404,),
    ),
    Endpoint(
        method="DELETE", path=_CONNECTION, handler=delete, summary="Delete a connection that nothing names",
        answer=Nothing, scope=Scope.WRITE, refusals=(404, 409),
    ),
    Endpoint(
        method="POST", path=f"{_CONNECTION}/test", handler=test, answer=wire.ConnectionTest, scope=Scope.WRITE,
        refusals=(404,), waits=True, summary="Connect to the broker now, from this process, and say whether it worked",
    ),
)  # fmt: skip
