"""Creations under `unique` and `debounce`: one one-off is live under a key at a time."""

import msgspec

from tocsin.api.endpoint import ApiCall
from tocsin.api.wire import jobs as wire
from tocsin.domain.errors import Refused
from tocsin.domain.instant import Instant, format_instant, parse_span
from tocsin.domain.job import check_text
from tocsin.store.audit import job_object
from tocsin.store.jobs import NewJob
from tocsin.store.repeats import Once
from tocsin.store.unique_keys import Entered, UniqueKey


def unique_key(new: wire.NewJob, job: NewJob, now: Instant) -> UniqueKey | None:
    """The key that a job is created under, if it has one."""
    if new.debounce is None and new.max_wait is not None:
        raise Refused("max_wait goes with debounce", field="max_wait")
    if new.unique is not None and new.debounce is not None:
        raise Refused("give unique or debounce, not both", field="unique")
    text, field = (new.unique, "unique") if new.debounce is None else (new.debounce, "debounce")
    if text is None:
        return None
    check_text(text, field, wire.MAX_UNIQUE)
    if job.definition.kind == "recurring":
        raise Refused("only one-offs have unique keys; a recurring job has a unique name", field=field)
    longest = None if new.max_wait is None else parse_span(new.max_wait, "max_wait")
    if longest is not None and job.due_at - now > longest:
        raise Refused("max_wait is shorter than the delay", field="max_wait")
    return UniqueKey(text, debounce=new.debounce is not None, max_wait=longest)


async def enter(
    call: ApiCall, job: NewJob, answer: wire.Job, key: UniqueKey, once: Once | None
) -> tuple[wire.Job, int]:
    """Create a job, or find or push back the one that is live under the key. Returns it and the status of the
    answer. `Repeated` if the request's idempotency key was used meanwhile."""

    def told(entered: Entered) -> wire.Job:
        shown = answer if entered.row is None else wire.job_view(entered.row)
        return msgspec.structs.replace(shown, outcome=entered.outcome, due_at=format_instant(entered.due_at))

    now = call.context.clock.now()
    entered = await call.context.unique_keys.enter(
        job, key, now, once, lambda made: msgspec.json.encode(told(made)).decode()
    )
    match entered.outcome:
        case "created":
            call.context.telemetry.created.inc()
        case "moved" if call.trail is not None:
            moved = {"pushed_back_to": format_instant(entered.due_at)}
            call.trail.summarise(job_object(entered.execution.job_id), moved)
        case _:
            call.changed_nothing()
    return told(entered), 201 if entered.outcome == "created" else 200
