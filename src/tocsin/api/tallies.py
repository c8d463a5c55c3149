"""``/v1/tallies:rebuild``: counts an hour again from history, after crashes or for days from before there
were tallies."""

from typing import Final

from tocsin.api.endpoint import ApiCall, Endpoint
from tocsin.api.wire import tallies as wire
from tocsin.domain.errors import Refused
from tocsin.domain.instant import DAY, HOUR, MINUTE, Span, format_instant, parse_instant
from tocsin.domain.keys import Scope

_SETTLED: Final[Span] = 2 * MINUTE
"""After the end of an hour, until all that nodes counted in it is written."""
_OLDEST: Final[Span] = 4000 * DAY


async def rebuild(call: ApiCall) -> wire.RebuiltHour:
    """Count an hour that is over once more."""
    now = call.context.clock.now()
    at = parse_instant(call.body.hour, "hour")
    hour = at - at % HOUR
    if hour + HOUR + _SETTLED > now:
        raise Refused("the hour is not over: nodes still write what they count in it", field="hour")
    if hour < now - _OLDEST:
        raise Refused("no history reaches back that far", field="hour")
    await call.context.tallies.rebuild(hour)
    answer = wire.RebuiltHour(format_instant(hour))
    call.note(f"tallies:{answer.hour}")
    return answer


ENDPOINTS = (
    Endpoint(
        method="POST", path="/v1/tallies:rebuild", handler=rebuild, body=wire.TallyHour, answer=wire.RebuiltHour,
        summary="Count the executions of a past hour again, from history", scope=Scope.ADMIN,
    ),
)  # fmt: skip
