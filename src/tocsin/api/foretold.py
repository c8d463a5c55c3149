"""Coming fires of jobs, with the calendars that they name: a job that cannot be read is foretold nothing."""

from collections.abc import Sequence
from typing import Any
from uuid import UUID

import msgspec

from tocsin.api.endpoint import ApiCall
from tocsin.domain.errors import Refused
from tocsin.domain.expected import expected
from tocsin.domain.instant import Instant
from tocsin.domain.stored_job import read_schedule
from tocsin.store.calendars import ranges_of


class Foretold(msgspec.Struct, frozen=True):
    """Fire times that are not planned yet, and up to which instant these are all."""

    fires: list[Instant]
    until: Instant


async def foretold(call: ApiCall, rows: Sequence[Any], until: Instant, most: int) -> dict[UUID, Foretold]:
    """The coming fires of active recurring jobs, `most` of each; none of others."""
    found = {row["id"]: Foretold([], until) for row in rows}
    for row in rows:
        if row["kind"] == "recurring" and row["state"] == "active" and row["unplanned_at"] is not None:
            try:
                found[row["id"]] = await _of_job(call, row, until, most)
            except Refused:
                continue
    return found


async def _of_job(call: ApiCall, row: Any, until: Instant, most: int) -> Foretold:
    schedule = read_schedule(row["schedule"])
    calendars = await ranges_of(
        call.context.database, call.asker.tenant_id, schedule.calendars, must_exist=False
    )
    fires, reached = expected(
        schedule, row["id"], row["fire_count"], row["unplanned_at"], until, most, calendars
    )
    return Foretold(fires, reached)
