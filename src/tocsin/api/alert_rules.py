"""``/v1/alert-rules``: what counts as trouble, and who is told. AlertRules over the whole fleet are for
operators."""

from operator import itemgetter
from typing import Any, Final

import msgspec

from tocsin.api.endpoint import ApiCall, Endpoint
from tocsin.api.listing import listing
from tocsin.api.wire import alerts as wire
from tocsin.api.wire.actions import Nothing
from tocsin.api.wire.scalars import time_of
from tocsin.domain.alert_rule import AlertRule, check_rule
from tocsin.domain.errors import NotFound, Refused, Unavailable, Unreadable
from tocsin.domain.instant import format_instant
from tocsin.domain.job import check_name
from tocsin.domain.keys import Scope
from tocsin.store.alerts import read_rule

_FIELDS: Final = AlertRule.__struct_fields__


async def put(call: ApiCall) -> wire.AlertRuleView:
    """Create a rule or replace it."""
    name, rule = call.path["name"], call.body
    check_name(name, "name")
    check_rule(rule)
    before = await _before(call)
    if "fleet" in (rule.scope, before and before.scope):
        _check_operator(call)
    row = await call.context.alerts.put_rule(call.asker.tenant_id, name, rule)
    call.note(before=None if before is None else msgspec.to_builtins(before), after=msgspec.to_builtins(rule))
    return _view(row)


async def show(call: ApiCall) -> wire.AlertRuleView:
    """One rule."""
    row = await call.context.alerts.rule(call.asker.tenant_id, call.path["name"], fleet=call.asker.operator)
    try:
        return _view(row)
    except Unreadable as error:
        raise Unavailable(f"{error.detail}; a newer version wrote it") from None


async def list_rules(call: ApiCall) -> wire.AlertRules:
    """All rules."""
    rows = await call.context.alerts.rules(call.asker.tenant_id, fleet=call.asker.operator)
    return listing(wire.AlertRules, rows, _view, itemgetter("name"))


async def delete(call: ApiCall) -> Nothing:
    """Remove a rule, and what it found."""
    before = await _before(call)
    if before is not None and before.scope == "fleet":
        _check_operator(call)
    await call.context.alerts.delete_rule(call.asker.tenant_id, call.path["name"])
    call.note(before=None if before is None else msgspec.to_builtins(before))
    return Nothing()


def _check_operator(call: ApiCall) -> None:
    """A rule of the fleet tells of all tenants, so it is kept where operators are at home."""
    if not call.asker.operator or call.asker.tenant_named:
        raise Refused(
            "rules of the fleet are an operator's own: they need a key with the scope admin, and no other tenant",
            field="scope",
        )


async def _before(call: ApiCall) -> AlertRule | None:
    try:
        row = await call.context.alerts.rule(call.asker.tenant_id, call.path["name"], fleet=True)
        return read_rule(row)
    except (NotFound, Unreadable):
        return None


def _view(row: Any) -> wire.AlertRuleView:
    rule = read_rule(row)
    return wire.AlertRuleView(
        **{name: getattr(rule, name) for name in _FIELDS},
        name=row["name"],
        version=row["version"],
        created_at=format_instant(row["created_at"]),
        updated_at=format_instant(row["updated_at"]),
        beat_at=time_of(row["beat_at"]),
        withheld=row["withheld"],
    )


_RULE: Final = "/v1/alert-rules/{name}"
ENDPOINTS = (
    Endpoint(method="GET", path="/v1/alert-rules", handler=list_rules, answer=wire.AlertRules, summary="All alert rules"),
    Endpoint(
        method="PUT", path=_RULE, handler=put, body=AlertRule, answer=wire.AlertRuleView, scope=Scope.WRITE, refusals=(409,),
        summary="Create an alert rule or replace it",
    ),
    Endpoint(method="GET", path=_RULE, handler=show, answer=wire.AlertRuleView, refusals=(404,), summary="Show an alert rule"),
    Endpoint(
        method="DELETE", path=_RULE, handler=delete, answer=Nothing, scope=Scope.WRITE, refusals=(404,),
        summary="Delete an alert rule and what it found",
    ),
)  # fmt: skip
