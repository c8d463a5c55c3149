"""``/v1/keys``: make, list, rotate and revoke API keys. For operators.

The text of a key is in the answer that makes it, and nowhere else. An operator who names a tenant
(`Tocsin-Tenant`) sees that tenant's keys only; one who names none sees all.
"""

from operator import itemgetter
from typing import Any

from tocsin.api.endpoint import CURSOR, LIMIT, ApiCall, Endpoint
from tocsin.api.listing import listing
from tocsin.api.tenants import origin_of
from tocsin.api.wire import keys as wire
from tocsin.api.wire.actions import Nothing, Rotation
from tocsin.api.wire.pages import decode_cursor, encode_cursor
from tocsin.api.wire.scalars import time_of
from tocsin.domain.errors import Conflict, Refused
from tocsin.domain.instant import DAY, Instant, format_instant, parse_instant, parse_span
from tocsin.domain.job import MAX_NAME, check_text
from tocsin.domain.keys import PREFIX, Scope, new_key
from tocsin.store.keys import NewKey

_LONGEST_OVERLAP = 30 * DAY


async def create(call: ApiCall) -> wire.FreshKey:
    """A new key."""
    body: wire.NewKey = call.body
    check_text(body.name, "name", MAX_NAME)
    tenant_id = call.asker.tenant_id
    if body.tenant is not None:
        if call.asker.tenant_named and body.tenant != call.asker.tenant:
            raise Refused("the tenant in the body is not the one that is acted for", field="tenant")
        tenant_id = (await call.context.tenants.get(body.tenant))["id"]
    key_id, text = new_key()
    expires_at = _expiry(call, body)
    new = NewKey(key_id, text, tenant_id, body.name, frozenset(body.scopes), expires_at)
    return wire.FreshKey(_shown(await call.context.keys.create(new, origin_of(call))), text)


async def list_keys(call: ApiCall) -> wire.KeyPage:
    """A page of keys, by id."""
    limit = call.limit()
    after = decode_cursor(call.query.get("cursor"), str)
    rows = await call.context.keys.list(call.asker.only_tenant, after, limit)
    cursor = encode_cursor(rows[-1]["id"]) if len(rows) == limit else None
    return listing(wire.KeyPage, rows, _shown, itemgetter("id"), next_cursor=cursor)


async def show(call: ApiCall) -> wire.Key:
    """One key, without its secret."""
    return _shown(await call.context.keys.get(call.path["key_id"], call.asker.only_tenant))


async def rotate(call: ApiCall) -> wire.FreshKey:
    """A new key in the place of an old one, which stays valid for a while."""
    overlap = parse_span(call.body.overlap if call.body is not None else "1d", "overlap")
    if overlap > _LONGEST_OVERLAP:
        raise Refused("the overlap is at most 30 days", field="overlap")
    old = await call.context.keys.get(call.path["key_id"], call.asker.only_tenant)
    key_id, text = new_key()
    new = NewKey(key_id, text, old["tenant_id"], old["name"], frozenset(map(Scope, old["scopes"])))
    row = await call.context.keys.rotate(old["id"], call.asker.only_tenant, new, overlap, origin_of(call))
    call.context.authenticator.forget()
    return wire.FreshKey(_shown(row), text)


async def revoke(call: ApiCall) -> wire.Key:
    """End a key now."""
    key_id = call.path["key_id"]
    if key_id == call.asker.key_id:
        raise Conflict("cannot revoke the key that asks", hint="use another key, or rotate this one")
    row = await call.context.keys.revoke(key_id, call.asker.only_tenant, origin_of(call))
    call.context.authenticator.forget()
    return _shown(row)


def _expiry(call: ApiCall, body: wire.NewKey) -> Instant | None:
    now = call.context.clock.now()
    if body.expires_in is not None and body.expires_at is not None:
        raise Refused("give expires_at or expires_in, not both", field="expires_in")
    if body.expires_in is not None:
        return now + parse_span(body.expires_in, "expires_in")
    if body.expires_at is None:
        return None
    expires_at = parse_instant(body.expires_at, "expires_at")
    if expires_at <= now:
        raise Refused("the instant has passed already", field="expires_at")
    return expires_at


def _shown(row: Any) -> wire.Key:
    return wire.Key(
        id=row["id"],
        prefix=f"{PREFIX}_{row['id']}_",
        name=row["name"],
        tenant=row["tenant"],
        scopes=[Scope(scope) for scope in row["scopes"]],
        valid=row["valid"],
        created_at=format_instant(row["created_at"]),
        expires_at=time_of(row["expires_at"]),
        last_used_at=time_of(row["last_used_at"]),
        revoked_at=time_of(row["revoked_at"]),
        replaced_by=row["replaced_by"],
    )


_KEY = "/v1/keys/{key_id}"
ENDPOINTS = (
    Endpoint(
        method="POST", path="/v1/keys", handler=create, body=wire.NewKey, answer=wire.FreshKey, status=201,
        summary="Make a key; its text is in this answer only", scope=Scope.ADMIN, shown_once=True, refusals=(404,),
    ),
    Endpoint(
        method="GET", path="/v1/keys", handler=list_keys, summary="List keys, by id", answer=wire.KeyPage,
        parameters=(LIMIT, CURSOR), scope=Scope.ADMIN,
    ),
    Endpoint(
        method="GET", path=_KEY, handler=show, summary="Show a key, without its secret", answer=wire.Key,
        scope=Scope.ADMIN, refusals=(404,),
    ),
    Endpoint(
        method="POST", path=_KEY + "/rotate", handler=rotate, body=Rotation, body_required=False,
        answer=wire.FreshKey, status=201, scope=Scope.ADMIN, shown_once=True, refusals=(404, 409),
        summary="Make a key in the place of another, which stays valid for a chosen overlap",
    ),
    Endpoint(
        method="POST", path=_KEY + "/revoke", handler=revoke, body=Nothing, body_required=False, answer=wire.Key,
        summary="End a key at once", scope=Scope.ADMIN, refusals=(404, 409),
    ),
)  # fmt: skip
