"""The fires of a schedule, worked out on this machine: the same code as the server's, without a server.

Calendars are the server's own, so a schedule that names one is not for here.
"""

import time
from typing import Any
from uuid import UUID

import msgspec

from tocsin.domain.errors import Refused
from tocsin.domain.instant import SECOND, Instant, parse_instant
from tocsin.domain.planning import terms_of
from tocsin.domain.policy import Policies
from tocsin.domain.preview import preview
from tocsin.domain.schedule import Written, read_schedule

_NO_JOB = UUID(int=0)
_BEFORE_ALL: Instant = -(1 << 62)


def preview_of(schedule: Any, limit: int, after: str | None = None) -> dict[str, Any]:
    """The next fires of a schedule as the API takes it, its words and its warnings."""
    now = int(time.time() * SECOND)
    try:
        written = msgspec.convert(schedule, Written)
    except msgspec.ValidationError as error:
        raise Refused(str(error), field="schedule") from None
    read = read_schedule(written, now)
    if read.calendars:
        raise Refused("calendars are known to the server only", field="schedule.exclude.calendars")
    start = now if after is None else parse_instant(after, "after")
    if after is None and not read.recurring:
        start = _BEFORE_ALL  # a one-off fires even if its instant has passed
    terms = msgspec.structs.replace(terms_of(read, Policies(), _NO_JOB, 0, []), offset=0)
    shown: dict[str, Any] = msgspec.to_builtins(preview(read, start, limit, terms))
    return shown
