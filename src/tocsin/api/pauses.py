"""When a pause should end by itself, as a caller has said it."""

from tocsin.api.endpoint import ApiCall
from tocsin.domain.errors import Refused
from tocsin.domain.instant import Instant, parse_instant


def end_of_pause(call: ApiCall) -> Instant | None:
    """The end of the pause that the body asks for, if it has one. It lies ahead."""
    if call.body is None or call.body.until is None:
        return None
    until = parse_instant(call.body.until, "until")
    if until <= call.context.clock.now():
        raise Refused("the end of the pause has passed already", field="until")
    return until
