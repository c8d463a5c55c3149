"""``/v1/tenants/{tenant}/logins``: which logins of the database enqueue for a tenant. For operators."""

from operator import itemgetter
from typing import Any

from tocsin.api.endpoint import ApiCall, Endpoint
from tocsin.api.listing import listing
from tocsin.api.tenants import origin_of
from tocsin.api.wire import logins as wire
from tocsin.api.wire.actions import Nothing
from tocsin.domain.errors import Refused
from tocsin.domain.instant import format_instant
from tocsin.domain.keys import Scope
from tocsin.domain.tenant import Tenant
from tocsin.store.tenants import tenant_of


async def bind(call: ApiCall) -> wire.BoundLogin:
    """Let a login enqueue for a tenant."""
    tenant = await _tenant(call)
    row = await call.context.logins.bind(tenant, _login(call), origin_of(call))
    return _shown(tenant, row)


async def list_logins(call: ApiCall) -> wire.BoundLogins:
    """The logins of a tenant."""
    tenant = await _tenant(call)
    rows = await call.context.logins.list(tenant)
    return listing(wire.BoundLogins, rows, lambda row: _shown(tenant, row), itemgetter("login"))


async def unbind(call: ApiCall) -> Nothing:
    """Take a login's right to enqueue."""
    await call.context.logins.unbind(await _tenant(call), _login(call), origin_of(call))
    return Nothing()


def _login(call: ApiCall) -> str:
    """The login that the path names. PostgreSQL fails on a name that is too long."""
    login = call.path["login"]
    if not 1 <= len(login.encode()) <= wire.MAX_LOGIN or not login.isprintable():
        raise Refused(f"a login has 1 to {wire.MAX_LOGIN} bytes, and no control characters", field="login")
    return login


async def _tenant(call: ApiCall) -> Tenant:
    return tenant_of(await call.context.tenants.get(call.path["tenant"]))


def _shown(tenant: Tenant, row: Any) -> wire.BoundLogin:
    return wire.BoundLogin(row["login"], tenant.name, format_instant(row["created_at"]))


_LOGINS = "/v1/tenants/{tenant}/logins"
ENDPOINTS = (
    Endpoint(
        method="GET", path=_LOGINS, handler=list_logins, answer=wire.BoundLogins, scope=Scope.ADMIN, refusals=(404,),
        summary="Logins of the database that enqueue for a tenant",
    ),
    Endpoint(
        method="PUT", path=_LOGINS + "/{login}", handler=bind, body=Nothing, body_required=False, answer=wire.BoundLogin,
        scope=Scope.ADMIN, refusals=(404, 409),
        summary="Let a login of the database enqueue for a tenant in its own transactions",
    ),
    Endpoint(
        method="DELETE", path=_LOGINS + "/{login}", handler=unbind, answer=Nothing, scope=Scope.ADMIN,
        refusals=(404,), summary="Take a login's right to enqueue; what it enqueued stays",
    ),
)  # fmt: skip
