"""Schedules as users write them, and what a preview asks. What a preview answers is `domain.preview`'s
own."""

from typing import Annotated

import msgspec
from msgspec import Meta

from tocsin.api.wire.scalars import Time
from tocsin.domain.schedule import MAX_RULES, Schedule
from tocsin.domain.written import at_most, described

BareSchedule = Annotated[
    str, described(format="schedule", examples=["2030-01-31T09:00:00Z", "0 9 * * MON-FRI"])
]
WrittenSchedule = (
    Schedule | BareSchedule | Annotated[list[Schedule | BareSchedule], at_most(MAX_RULES, minItems=1)]
)


class PreviewRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A schedule to look at before it is saved."""

    schedule: WrittenSchedule
    after: Time | None = None
    limit: Annotated[int, Meta(ge=1, le=1000)] = 10
