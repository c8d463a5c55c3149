"""``/v1/dead-letters``: executions that failed for good, one by one and by kind of error, and giving them up.

To replay or discard many at once is an operation: see `operations`.
"""

from typing import Any

from tocsin.api.endpoint import CURSOR, INSTANT, LIMIT, ApiCall, Endpoint, Parameter
from tocsin.api.executions import NARROWER, key_of, page, view
from tocsin.api.wire import dead_letters as wire
from tocsin.api.wire.actions import Reason
from tocsin.api.wire.executions import Execution, ExecutionPage
from tocsin.domain.errors import Refused
from tocsin.domain.ids import ExecutionKey, execution_text
from tocsin.domain.instant import DAY, format_instant
from tocsin.domain.keys import Scope
from tocsin.domain.lifecycle import State
from tocsin.store.dead_letters import MOST_READ


async def list_dead_letters(call: ApiCall) -> ExecutionPage:
    """Executions that failed for good, latest first, with every attempt."""
    return await page(call, State.DEAD, dead_letters=True)


async def groups(call: ApiCall) -> wire.ErrorGroups:
    """Dead letters by kind of error."""
    now = call.context.clock.now()
    until = call.instant("to") or now
    since = call.instant("from") or until - DAY
    if since >= until:
        raise Refused("the range ends after it begins", field="from")
    rows = await call.context.dead_letters.groups(call.asker.tenant_id, since, until, call.query.get("queue"))
    capped = bool(rows) and rows[0]["read"] >= MOST_READ
    return wire.ErrorGroups(capped, [_group(row, capped=capped) for row in rows])


async def discard(call: ApiCall) -> Execution:
    """Give a dead letter up."""
    key, reason = key_of(call), call.reason()
    await call.context.dead_letters.discard(call.asker.tenant_id, key)
    call.note(execution_text(key), after={"discarded": True} | ({"reason": reason} if reason else {}))
    return await view(call, key)


def _group(row: Any, *, capped: bool) -> wire.ErrorGroup:
    return wire.ErrorGroup(
        fingerprint=row["error_fingerprint"],
        status=row["status"],
        error=row["error"],
        count=row["number"],
        capped=capped,
        jobs=row["jobs"],
        last_hour=row["hourly"][-1],
        hourly=row["hourly"],
        first_at=format_instant(row["first_at"]),
        last_at=format_instant(row["last_at"]),
        sample=execution_text(ExecutionKey(row["job_id"], row["fire_at"])),
    )


ENDPOINTS = (
    Endpoint(
        method="GET", path="/v1/dead-letters", handler=list_dead_letters,
        summary="Executions that failed for good, latest first", answer=ExecutionPage,
        parameters=(LIMIT, CURSOR, *NARROWER),
    ),
    Endpoint(
        method="GET", path="/v1/dead-letters/groups", handler=groups, answer=wire.ErrorGroups,
        summary="Dead letters by kind of error, the most frequent first",
        parameters=(
            Parameter("from", "Only what ended since; default a day before the range's end", INSTANT),
            Parameter("to", "Only what ended before; default now", INSTANT),
            Parameter("queue", "Only executions of this queue"),
        ),
    ),
    Endpoint(
        method="POST", path="/v1/dead-letters/{execution_id}/discard", handler=discard, answer=Execution, body=Reason,
        body_required=False, scope=Scope.WRITE, refusals=(404, 409),
        summary="Give a dead letter up: it is not listed any more, and stays in history",
    ),
)  # fmt: skip
