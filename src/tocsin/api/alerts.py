"""``/v1/alerts``: what the alert rules of a tenant have found."""

from typing import Any, Final

import msgspec

from tocsin.api.endpoint import LIMIT, ApiCall, Endpoint, Parameter
from tocsin.api.listing import listing
from tocsin.api.wire import alerts as wire
from tocsin.api.wire.scalars import time_of
from tocsin.domain.instant import format_instant

_STATES: Final = ("pending", "firing", "resolved")


async def list_alerts(call: ApiCall) -> wire.Alerts:
    """Alerts, those that fire first."""
    state = call.choice("state", _STATES)
    rows = await call.context.alerts.alerts(
        call.asker.tenant_id, state, call.limit(), fleet=call.asker.operator
    )
    return listing(wire.Alerts, rows, _view, lambda row: f"{row['rule']}/{row['alert_group']}")


def _view(row: Any) -> wire.AlertView:
    return wire.AlertView(
        rule=row["rule"],
        group=row["alert_group"],
        state=row["state"],
        since=format_instant(row["since"]),
        seen_at=format_instant(row["seen_at"]),
        resolved_at=time_of(row["resolved_at"]),
        told=row["told"],
        told_at=time_of(row["told_at"]),
        summary=row["summary"],
        detail=msgspec.json.decode(row["detail"]),
    )


ENDPOINTS = (
    Endpoint(
        method="GET", path="/v1/alerts", handler=list_alerts, answer=wire.Alerts,
        summary="What alert rules have found: what fires first, then the latest",
        parameters=(LIMIT, Parameter("state", "Only alerts in this state", {"type": "string", "enum": list(_STATES)})),
    ),
)  # fmt: skip
