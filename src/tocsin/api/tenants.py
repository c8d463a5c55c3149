"""``/v1/tenants``: who shares the fleet, and how much of it each may use. For operators."""

from functools import partial
from operator import itemgetter
from typing import Any

import msgspec

from tocsin.api.endpoint import CURSOR, LIMIT, ApiCall, Endpoint
from tocsin.api.listing import listing
from tocsin.api.wire import tenants as wire
from tocsin.api.wire.actions import Nothing, Reason
from tocsin.api.wire.pages import decode_cursor, encode_cursor
from tocsin.domain.audit import Origin
from tocsin.domain.errors import Conflict, Refused
from tocsin.domain.instant import format_instant
from tocsin.domain.keys import Scope
from tocsin.domain.limits import TenantLimits, check_limits
from tocsin.domain.tenant import TenantState, check_tenant_name, check_weight
from tocsin.store.tenants import limits_of


async def create(call: ApiCall) -> wire.Tenant:
    """A new tenant."""
    new: wire.NewTenant = call.body
    check_tenant_name(new.name)
    check_weight(new.weight)
    limits = wire.limits_of(new.limits)
    _check_limits(call, limits)
    row = await call.context.tenants.create(new.name, new.weight, limits, origin_of(call))
    return _shown(call, row)


async def list_tenants(call: ApiCall) -> wire.TenantPage:
    """A page of tenants, by name."""
    limit = call.limit()
    after = decode_cursor(call.query.get("cursor"), str)
    rows = await call.context.tenants.list(after, limit)
    cursor = encode_cursor(rows[-1]["name"]) if len(rows) == limit else None
    return listing(wire.TenantPage, rows, partial(_shown, call), itemgetter("name"), next_cursor=cursor)


async def show(call: ApiCall) -> wire.Tenant:
    """One tenant."""
    return _shown(call, await call.context.tenants.get(call.path["tenant"]))


async def change(call: ApiCall) -> wire.Tenant:
    """Change weight and limits."""
    patch: wire.TenantPatch = call.body
    weight = None if patch.weight is msgspec.UNSET else patch.weight
    if weight is not None:
        check_weight(weight)
    limits = {} if patch.limits is msgspec.UNSET else msgspec.to_builtins(patch.limits)
    _check_limits(call, msgspec.convert(limits, TenantLimits))
    row = await call.context.tenants.change(call.path["tenant"], weight, limits, origin_of(call))
    call.context.authenticator.forget()
    return _shown(call, row)


async def suspend(call: ApiCall) -> wire.Tenant:
    """Refuse a tenant's keys and let its fires wait."""
    name, reason = call.path["tenant"], call.reason()
    row = await call.context.tenants.get(name)
    key = await call.context.keys.get(call.asker.key_id, None)
    if row["id"] == key["tenant_id"]:
        raise Conflict(
            "cannot suspend the tenant that this key belongs to: nobody could resume it with the key"
        )
    return await _set_state(call, TenantState.SUSPENDED, reason)


async def resume(call: ApiCall) -> wire.Tenant:
    """Let a tenant go on."""
    return await _set_state(call, TenantState.ACTIVE, None)


async def delete(call: ApiCall) -> wire.Tenant:
    """Remove a suspended tenant with everything that is its own."""
    row = await call.context.tenants.delete(call.path["tenant"], origin_of(call))
    call.context.authenticator.forget()
    return _shown(call, row)


def _check_limits(call: ApiCall, limits: TenantLimits) -> None:
    check_limits(limits)
    kept = call.context.authenticator.defaults.history_days
    if kept is not None and limits.history_days is not None and limits.history_days > kept:
        raise Refused(
            f"the installation keeps history for {kept} days (TOCSIN_HISTORY_DAYS)",
            field="limits.history_days",
        )


async def _set_state(call: ApiCall, state: TenantState, reason: str | None) -> wire.Tenant:
    row = await call.context.tenants.set_state(call.path["tenant"], state, reason, origin_of(call))
    call.context.authenticator.forget()
    return _shown(call, row)


def origin_of(call: ApiCall) -> Origin:
    """Who asks, for a store that notes its changes itself."""
    if call.trail is None:
        raise LookupError("a call that changes something has a trail")
    return call.trail.creates()


def _shown(call: ApiCall, row: Any) -> wire.Tenant:
    own = limits_of(row)
    in_force = own.over(call.context.authenticator.defaults)
    return wire.Tenant(
        row["name"],
        row["state"],
        row["state_reason"],
        row["weight"],
        wire.limits_view(own),
        wire.limits_view(in_force),
        format_instant(row["created_at"]),
        format_instant(row["updated_at"]),
        None if row["deleted_at"] is None else format_instant(row["deleted_at"]),
    )


_TENANT = "/v1/tenants/{tenant}"
ENDPOINTS = (
    Endpoint(
        method="POST", path="/v1/tenants", handler=create, summary="Create a tenant", body=wire.NewTenant,
        answer=wire.Tenant, status=201, scope=Scope.ADMIN, refusals=(409,),
    ),
    Endpoint(
        method="GET", path="/v1/tenants", handler=list_tenants, summary="List tenants, by name", answer=wire.TenantPage,
        parameters=(LIMIT, CURSOR), scope=Scope.ADMIN,
    ),
    Endpoint(
        method="GET", path=_TENANT, handler=show, summary="Show a tenant", answer=wire.Tenant, scope=Scope.ADMIN,
        refusals=(404,),
    ),
    Endpoint(
        method="PATCH", path=_TENANT, handler=change, body=wire.TenantPatch, answer=wire.Tenant, scope=Scope.ADMIN,
        summary="Change a tenant's weight and limits; within seconds the whole fleet keeps to them", refusals=(404, 409),
    ),
    Endpoint(
        method="POST", path=_TENANT + "/suspend", handler=suspend, body=Reason, body_required=False,
        answer=wire.Tenant, scope=Scope.ADMIN, refusals=(404, 409),
        summary="Suspend a tenant: its keys are refused, its fires wait, nothing is lost",
    ),
    Endpoint(
        method="POST", path=_TENANT + "/resume", handler=resume, body=Nothing, body_required=False,
        answer=wire.Tenant, scope=Scope.ADMIN, refusals=(404, 409), summary="Let a suspended tenant go on",
    ),
    Endpoint(
        method="DELETE", path=_TENANT, handler=delete, answer=wire.Tenant, status=202, scope=Scope.ADMIN,
        refusals=(404, 409), summary="Delete a suspended tenant with everything that is its own, for good",
    ),
)  # fmt: skip
