"""``/v1/stats/…``, ``/v1/dead-letters/groups`` and ``/v1/upcoming``: how it stands, what went wrong, what comes next.

Answers are shared for a second by everybody who asks for the same tenant, so that ten open dashboards cost what one does.
"""

from typing import Any, Final

from tocsin.api.endpoint import INSTANT, LIMIT, Call, Endpoint, Parameter
from tocsin.api.needs import needs_of
from tocsin.api.wire import stats as wire
from tocsin.domain.errors import Refused
from tocsin.domain.ids import ExecutionKey, execution_text, job_text
from tocsin.domain.instant import DAY, EARLIEST, HOUR, MILLISECOND, SECOND, Instant, format_instant
from tocsin.store.stats import Load, dead_whole, series_whole

_MOST_BUCKETS: Final = 400
_STEPS: Final = tuple(
    s * SECOND for s in (1, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 21_600, 86_400)
)
_LONGEST_RANGE: Final = 31 * DAY


async def summary(call: Call) -> wire.Summary:
    """How the tenant's work stands."""
    context, caller = call.context, call.caller
    key, moment = ("summary", caller.tenant_id, caller.operator), context.clock.monotonic()
    found = context.fresh.find(key, moment)
    if found is None:
        now = context.clock.now()
        load = await context.stats.load(caller.tenant_id, now)
        nodes = await context.leases.nodes() if caller.operator else ()
        found = _summary(load, nodes, now)
        context.fresh.keep(key, moment, found)
    answer: wire.Summary = found
    return answer


async def series(call: Call) -> wire.Series:
    """How executions ended over time."""
    now = call.context.clock.now()
    until = _or(call.instant("to"), now)
    since = _or(call.instant("from"), max(EARLIEST, until - HOUR))
    if not 0 < until - since <= _LONGEST_RANGE:
        raise Refused("the range ends after it begins, and is at most 31 days", field="from")
    step = next(step for step in _STEPS if (until - since) / step <= _MOST_BUCKETS)
    since = max(EARLIEST, since - since % step)
    rows = await call.context.stats.series(call.caller.tenant_id, since, until, step)
    covers = since if series_whole(rows) else rows[0]["since"]
    return wire.Series(step // SECOND, format_instant(covers), [_bucket(row) for row in rows])


async def dead_letter_groups(call: Call) -> wire.ErrorGroups:
    """Dead letters by kind of error."""
    now = call.context.clock.now()
    since = _or(call.instant("from"), now - DAY)
    rows = await call.context.stats.dead_by_error(call.caller.tenant_id, since, now)
    return wire.ErrorGroups(not dead_whole(rows), [_group(row) for row in rows])


async def upcoming(call: Call) -> wire.ComingFires:
    """The next fires."""
    until = _or(call.instant("to"), call.context.clock.now() + DAY)
    fires = await call.context.stats.upcoming(call.caller.tenant_id, until, call.limit())
    return wire.ComingFires(
        [
            wire.ComingFire(
                format_instant(fire["at"]),
                job_text(fire["job_id"]),
                fire["name"],
                _execution(fire),
                fire["attempt"],
            )
            for fire in fires
        ]
    )


def _summary(load: Load, nodes: Any, now: Instant) -> wire.Summary:
    due, ended, jobs = load.due, load.ended, load.jobs
    oldest = None if due["oldest"] is None else max(0, now - due["oldest"]) / MILLISECOND
    judged = ended["started"] + ended["expired"]
    window = HOUR if load.ended_whole else now - ended["since"]
    dead = sum(row["number"] for row in load.dead)
    return wire.Summary(
        now=format_instant(now),
        running=wire.Count(load.running["number"], load.running["capped"]),
        due=wire.Due(due["number"], due["capped"], oldest),
        window_s=window // SECOND,
        ended=wire.Ended(*(ended[state] for state in wire.Ended.__struct_fields__)),
        late=wire.Lateness(ended["p50_ms"], ended["p99_ms"], ended["on_time"] / judged if judged else None),
        dead_24h=wire.Count(dead, not dead_whole(load.dead)),
        recurring_jobs=wire.Count(jobs["number"], not load.jobs_whole),
        paused_jobs=wire.Count(jobs["paused"], not load.jobs_whole),
        needs_you=needs_of(load, nodes),
    )


def _bucket(row: Any) -> wire.Bucket:
    return wire.Bucket(
        at=format_instant(row["at"]),
        succeeded=row["succeeded"],
        dead=row["dead"],
        skipped=row["skipped"],
        cancelled=row["cancelled"],
        expired=row["expired"],
        p50_ms=row["p50_ms"],
        p99_ms=row["p99_ms"],
    )


def _group(row: Any) -> wire.ErrorGroup:
    return wire.ErrorGroup(
        fingerprint=row["error_fingerprint"],
        status=row["status"],
        error=row["error"],
        count=row["number"],
        jobs=row["jobs"],
        last_hour=row["last_hour"],
        first_at=format_instant(row["first_at"]),
        last_at=format_instant(row["last_at"]),
        sample=execution_text(ExecutionKey(row["job_id"], row["fire_at"])),
    )


def _execution(fire: Any) -> str | None:
    return None if fire["fire_at"] is None else execution_text(ExecutionKey(fire["job_id"], fire["fire_at"]))


def _or(given: Instant | None, default: Instant) -> Instant:
    return default if given is None else given


ENDPOINTS = (
    Endpoint(
        method="GET", path="/v1/stats/summary", handler=summary, answer=wire.Summary,
        summary="How it stands: what runs, waits and ended, how late, and what needs a person",
    ),
    Endpoint(
        method="GET", path="/v1/stats/series", handler=series, answer=wire.Series,
        summary="How executions ended and how late they started, over time",
        parameters=(
            Parameter("from", "The range's begin; default an hour before its end", INSTANT),
            Parameter("to", "The range's end; default now", INSTANT),
        ),
    ),
    Endpoint(
        method="GET", path="/v1/dead-letters/groups", handler=dead_letter_groups, answer=wire.ErrorGroups,
        summary="Dead letters by kind of error, the most frequent first",
        parameters=(Parameter("from", "Only what ended since; default a day ago", INSTANT),),
    ),
    Endpoint(
        method="GET", path="/v1/upcoming", handler=upcoming, answer=wire.ComingFires,
        summary="The next fires of all jobs, soonest first",
        parameters=(LIMIT, Parameter("to", "Only fires before this instant; default in a day", INSTANT)),
    ),
)  # fmt: skip
