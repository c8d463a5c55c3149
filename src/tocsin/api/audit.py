"""``/v1/audit``: who changed what, when, from where.

A key sees its tenant's entries. An operator who names no tenant sees those of all, and what the system did by
itself.
"""

from typing import Any

import msgspec

from tocsin.api.endpoint import CURSOR, INSTANT, LIMIT, ApiCall, Endpoint, Parameter
from tocsin.api.listing import listing
from tocsin.api.wire import audit as wire
from tocsin.api.wire.pages import CursorInstant, CursorNumber, decode_cursor, encode_cursor
from tocsin.domain.instant import format_instant
from tocsin.store.audit import AuditFilter, Place, shown_after, shown_object, stored_object


async def list_audit(call: ApiCall) -> wire.AuditPage:
    """A page, latest first."""
    limit, thing = call.limit(), call.query.get("object")
    where = AuditFilter(
        actor=call.query.get("actor"),
        action=call.query.get("action"),
        object=None if thing is None else stored_object(thing),
        at_from=call.instant("from"),
        at_to=call.instant("to"),
    )
    place = decode_cursor(call.query.get("cursor"), tuple[CursorInstant, CursorNumber])
    after = Place(*place) if place else None
    only = call.asker.only_tenant
    if only is None:
        page = await call.context.whole_audit.list(None, where, after, limit)
        owners = {row["tenant_id"] for row in page.rows if row["tenant_id"] is not None}
        names = await call.context.tenants.names(sorted(owners)) if owners else {}
    else:
        page = await call.context.audit.list(only, where, after, limit)
        names = {only: call.asker.tenant}
    cursor = encode_cursor((page.next.at, page.next.id)) if page.next else None
    return listing(
        wire.AuditPage,
        page.rows,
        lambda row: _shown(row, names),
        lambda row: str(row["id"]),
        next_cursor=cursor,
    )


def _shown(row: Any, names: dict[int, str]) -> wire.AuditEntry:
    return wire.AuditEntry(
        at=format_instant(row["at"]),
        tenant=names.get(row["tenant_id"]),
        actor=row["actor"],
        action=row["action"],
        object=shown_object(row["object"]),
        before=None if row["before"] is None else msgspec.json.decode(row["before"]),
        after=shown_after(row),
        request_id=row["request_id"],
        address=row["address"],
        via=row["via"],
    )


ENDPOINTS = (
    Endpoint(
        method="GET", path="/v1/audit", handler=list_audit, answer=wire.AuditPage,
        summary="Who changed what, latest first", refusals=(404,),
        parameters=(
            LIMIT, CURSOR,
            Parameter("actor", "Only what this key (by id) did, or `system`"),
            Parameter("action", "Only this action, for example job.pause"),
            Parameter("object", "Only what was done to this: an id, or a kind and a name such as tenant:acme"),
            Parameter("from", "Only entries of this instant or later", INSTANT),
            Parameter("to", "Only entries before this instant", INSTANT),
        ),
    ),
)  # fmt: skip
