"""``/v1/secrets``: values that targets name and only workers read. Written, listed by name, removed; never
shown."""

from operator import itemgetter
from typing import Annotated, Any

from msgspec import Meta

from tocsin.api.endpoint import CURSOR, LIMIT, ApiCall, Endpoint
from tocsin.api.listing import listing
from tocsin.api.wire import secrets as wire
from tocsin.api.wire.actions import Nothing
from tocsin.api.wire.pages import decode_cursor, encode_cursor
from tocsin.domain.instant import format_instant
from tocsin.domain.keys import Scope
from tocsin.domain.secrets import check_secret_name, check_secret_value
from tocsin.store.resealing import Place

_PLACE = Annotated[str, Meta(pattern="^[A-Za-z0-9_.-]{1,100}$")]


async def put(call: ApiCall) -> wire.Secret:
    """Create a secret or replace its value."""
    name = call.path["name"]
    check_secret_name(name, "name")
    check_secret_value(call.body.value)
    return _view(await call.context.secrets.put(call.asker.tenant_id, name, call.body.value))


async def list_secrets(call: ApiCall) -> wire.SecretPage:
    """A page of names."""
    limit = call.limit()
    after = decode_cursor(call.query.get("cursor"), _PLACE) or ""
    rows = await call.context.secrets.list(call.asker.tenant_id, after, limit)
    cursor = encode_cursor(rows[-1]["name"]) if len(rows) == limit else None
    return listing(wire.SecretPage, rows, _view, itemgetter("name"), next_cursor=cursor)


async def delete(call: ApiCall) -> Nothing:
    """Remove a secret."""
    await call.context.secrets.delete(call.asker.tenant_id, call.path["name"])
    return Nothing()


async def reseal(call: ApiCall) -> wire.ResealAnswer:
    """Encrypt a batch of secrets anew, under the key that encrypts now."""
    body: wire.Reseal = call.body or wire.Reseal()
    done = await call.context.resealing.batch(decode_cursor(body.cursor, Place), call.asker.only_tenant)
    if done.secrets or done.webhook_secrets:
        after = {"key_id": done.key_id, "secrets": done.secrets, "webhook_secrets": done.webhook_secrets}
        call.note("secrets", after=after)
    else:
        call.changed_nothing()
    return wire.ResealAnswer(
        key_id=done.key_id,
        secrets=done.secrets,
        webhook_secrets=done.webhook_secrets,
        unopened=[wire.UnopenedSecret(one.tenant, one.name, one.key_id, one.reason) for one in done.unopened],
        remaining=done.left,
        next_cursor=None if done.end is None else encode_cursor(done.end),
    )


def _view(row: Any) -> wire.Secret:
    return wire.Secret(row["name"], format_instant(row["updated_at"]))


_SECRET = "/v1/secrets/{name}"  # noqa: S105 - a path
ENDPOINTS = (
    Endpoint(
        method="GET", path="/v1/secrets", handler=list_secrets, summary="Names of secrets, in order",
        answer=wire.SecretPage, parameters=(LIMIT, CURSOR),
    ),
    Endpoint(
        method="PUT", path=_SECRET, handler=put, body=wire.SecretValue, answer=wire.Secret, scope=Scope.WRITE,
        summary="Create a secret or replace its value, which is never shown again", refusals=(409,),
    ),
    Endpoint(
        method="DELETE", path=_SECRET, handler=delete, summary="Delete a secret; calls that need it are rejected",
        answer=Nothing, scope=Scope.WRITE, refusals=(404,),
    ),
    Endpoint(
        method="POST", path="/v1/secrets:reseal", handler=reseal, body=wire.Reseal, body_required=False,
        answer=wire.ResealAnswer, scope=Scope.ADMIN, refusals=(409,),
        summary="Encrypt the next secrets and webhook secrets of all tenants anew, under the key that encrypts now",
    ),
)  # fmt: skip
