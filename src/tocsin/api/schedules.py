"""``/v1/schedules/preview`` and ``/v1/jobs/{job_id}/upcoming``: what will fire, before it does."""

from uuid import UUID

import msgspec

from tocsin.api.endpoint import INSTANT, LIMIT, ApiCall, Endpoint, Parameter
from tocsin.api.jobs import job_id_of, view
from tocsin.api.wire.schedules import PreviewRequest
from tocsin.domain.errors import Refused
from tocsin.domain.instant import parse_instant
from tocsin.domain.planning import terms_of
from tocsin.domain.policy import Policies
from tocsin.domain.preview import Preview, preview
from tocsin.domain.schedule import Schedule, read_schedule
from tocsin.store.calendars import ranges_of

_MOST = 1000
_NO_JOB = UUID(int=0)


async def preview_schedule(call: ApiCall) -> Preview:
    """The fires of a schedule that is not saved."""
    now = call.context.clock.now()
    after = now if call.body.after is None else parse_instant(call.body.after, "after")
    if not 1 <= call.body.limit <= _MOST:
        raise Refused(f"limit is a number from 1 to {_MOST}", field="limit")
    schedule = read_schedule(call.body.schedule, now)
    # A one-off fires even if its instant has passed.
    start = after if schedule.recurring or call.body.after is not None else -(1 << 62)
    terms = terms_of(schedule, Policies(), _NO_JOB, 0, await _calendars(call, schedule))
    return preview(schedule, start, call.body.limit, msgspec.structs.replace(terms, offset=0))


async def upcoming(call: ApiCall) -> Preview:
    """The coming fires of a job, at its own jitter offset."""
    job_id = job_id_of(call)
    job = await view(call, job_id)
    asked = call.instant("after")
    after = call.context.clock.now() if asked is None else asked
    terms = terms_of(job.schedule, Policies(), job_id, job.fire_count, await _calendars(call, job.schedule))
    if job.kind == "once":
        return preview(job.schedule, after, call.limit(), terms)
    cursor, planned = await call.context.jobs.planned(call.asker.tenant_id, job_id, after)
    start = None if cursor is None else max(after, cursor - 1)
    return preview(job.schedule, start, call.limit(), terms, planned)


async def _calendars(call: ApiCall, schedule: Schedule) -> list[tuple[int, int]]:
    return await ranges_of(call.context.database, call.asker.tenant_id, schedule.calendars, must_exist=True)


ENDPOINTS = (
    Endpoint(
        method="POST", path="/v1/schedules/preview", handler=preview_schedule, body=PreviewRequest,
        answer=Preview, summary="The next fires of a schedule, explained, with warnings",
    ),
    Endpoint(
        method="GET", path="/v1/jobs/{job_id}/upcoming", handler=upcoming, answer=Preview, refusals=(404,),
        summary="The next fires of a job, explained, with warnings",
        parameters=(LIMIT, Parameter("after", "Fires after this instant; default now", INSTANT)),
    ),
)  # fmt: skip
