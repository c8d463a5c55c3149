"""``/v1/stats/…`` and ``/v1/upcoming``: how it stands, what comes next.

Answers are shared for a second by all who ask for the same tenant, so that ten open dashboards cost what one
does.
"""

from typing import Any, Final

from tocsin.api.endpoint import INSTANT, LIMIT, ApiCall, Endpoint, Parameter
from tocsin.api.loads import load_of
from tocsin.api.needs import KEY_ENDS, MOST_KINDS, HourEnded, ended_of, needs_of
from tocsin.api.wire import stats as wire
from tocsin.domain.errors import Refused, Unauthorized
from tocsin.domain.ids import ExecutionKey, execution_text, job_text, parse_job_text
from tocsin.domain.instant import (
    DAY,
    EARLIEST,
    HOUR,
    MILLISECOND,
    SECOND,
    Instant,
    format_instant,
    parse_span,
)
from tocsin.domain.tally import BINS, BOUNDS_MS, added, percentile_ms
from tocsin.store.series import BEHIND_S, MOST_BUCKETS, Asked, Line, Series, total
from tocsin.store.stats import ON_TIME_MS, Load, dead_whole

_LONGEST_RANGE: Final = 31 * DAY
_FIRST: Final = EARLIEST + 2 * DAY  # so that its bucket begins at an instant that exists
_GROUPS: Final = ("state", "queue", "tenant", "none")
_RANGE: Final = (
    Parameter("from", "The range's begin; default an hour before its end", INSTANT),
    Parameter("to", "The range's end; default now", INSTANT),
    Parameter(
        "step",
        "How long a bucket is, at least: `10s`, `5m`; default: the least that makes 400 buckets at most",
    ),
    Parameter("queue", "Only this queue"),
    Parameter("job", "Only this job, by fire times"),
    Parameter("of", "`fleet`: all tenants together, for operators", {"enum": ["tenant", "fleet"]}),
)


async def summary(call: ApiCall) -> wire.Summary:
    """How the tenant's work stands."""
    context, asker = call.context, call.asker

    async def look() -> wire.Summary:
        now = context.clock.now()
        load = await context.stats.load(asker.tenant_id, now, operator=asker.operator)
        asked = Asked(since=now - HOUR, until=now, group="state", step=HOUR // MOST_BUCKETS)
        hour = await context.series.of_tenant(asker.tenant_id, asked, now)
        nodes: list[Any] = []
        keys: list[Any] = []
        if asker.operator:
            nodes = await context.leases.nodes()
            keys = await context.keys.ending(asker.tenant_id, now + KEY_ENDS, MOST_KINDS)
        needs = needs_of(load, ended_of(hour), nodes, keys)
        return _summary(load, ended_of(hour), nodes, needs, now, operator=asker.operator)

    return await context.fresh.shared(("summary", asker.tenant_id, asker.operator), context.clock, look)


async def series(call: ApiCall) -> wire.Series:
    """How executions ended over time."""
    group = call.choice("group", _GROUPS) or "state"
    asked = _asked(call, group)
    found = await _found(call, asked)
    lines = [_line(line) for line in found.lines]
    return wire.Series(
        step_s=found.step // SECOND,
        at=[format_instant(at) for at in found.begins],
        series=lines,
        total=_line(total(found)),
        behind_s=0 if found.exact else BEHIND_S,
        covers_from=format_instant(found.covers_from),
    )


async def lag(call: ApiCall) -> wire.LagMap:
    """How late executions started, over time."""
    found = await _found(call, _asked(call, "none"))
    return wire.LagMap(
        step_s=found.step // SECOND,
        bounds_ms=list(BOUNDS_MS),
        at=[format_instant(at) for at in found.begins],
        counts=[added(bins, [0] * BINS) for bins in total(found).lag],
        behind_s=0 if found.exact else BEHIND_S,
    )


async def _found(call: ApiCall, asked: Asked) -> Series:
    """The series that was asked for, if the asker may see it."""
    context, asker, now = call.context, call.asker, call.context.clock.now()
    job, fleet = call.query.get("job"), call.choice("of", ("tenant", "fleet")) == "fleet"
    if (fleet or asked.group == "tenant") and not asker.operator:
        raise Unauthorized("what is of all tenants is for operators; the key has no admin scope", status=403)
    if asked.group == "tenant":
        return await context.all_series.by_tenant(asked, now)
    if fleet:
        return await context.all_series.of_fleet(asked, now)
    if job is not None:
        return await context.series.of_job(asker.tenant_id, parse_job_text(job), asked)
    return await context.series.of_tenant(asker.tenant_id, asked, now)


def _asked(call: ApiCall, group: str) -> Asked:
    now = call.context.clock.now()
    until = _or(call.instant("to"), now)
    since = _or(call.instant("from"), max(EARLIEST, until - HOUR))
    if not 0 < until - since <= _LONGEST_RANGE:
        raise Refused("the range ends after it begins, and is at most 31 days", field="from")
    text = call.query.get("step")
    step = 0 if text is None else parse_span(text, "step")
    if text is not None and not SECOND <= step <= until - since + DAY:
        raise Refused("a step is at least a second, and at most as long as the range", field="step")
    step = -(-step // SECOND) * SECOND
    return Asked(since=max(since, _FIRST), until=until, step=step, group=group, queue=call.query.get("queue"))


def _line(line: Line) -> wire.SeriesLine:
    p50, p99 = ([percentile_ms(bins, share) for bins in line.lag] for share in (0.5, 0.99))
    return wire.SeriesLine(line.key, line.fires, p50, p99)


async def upcoming(call: ApiCall) -> wire.ComingFires:
    """The next fires."""
    context, tenant_id, until, limit = call.context, call.asker.tenant_id, call.instant("to"), call.limit()

    async def look() -> wire.ComingFires:
        now = context.clock.now()
        fires = await context.stats.upcoming(tenant_id, now, _or(until, now + DAY), limit)
        return wire.ComingFires([_coming(fire) for fire in fires])

    return await context.fresh.shared(("upcoming", tenant_id, until, limit), context.clock, look)


def _coming(fire: Any) -> wire.ComingFire:
    at, job = format_instant(fire["at"]), job_text(fire["job_id"])
    return wire.ComingFire(at, job, fire["name"], _execution(fire), fire["attempt"])


def _summary(
    load: Load, hour: HourEnded, nodes: Any, needs: list[wire.Need], now: Instant, *, operator: bool
) -> wire.Summary:
    due, jobs = load.due, load.jobs
    oldest = None if due["oldest"] is None else max(0, now - due["oldest"]) / MILLISECOND
    late = due["number"] if oldest is not None and oldest > ON_TIME_MS else 0
    judged = hour.started + hour.by_state.get("expired", 0) + late
    dead = sum(row["number"] for row in load.dead)
    loads = [load_of(node["stats"]) for node in nodes if node["alive"]]
    return wire.Summary(
        now=format_instant(now),
        running=wire.Count(load.running["number"], load.running["capped"]),
        held=sum(one.held or 0 for one in loads) if operator else None,
        capacity=sum(one.capacity or 0 for one in loads) if operator else None,
        due=wire.Due(due["number"], due["capped"], oldest),
        ended_1h=wire.Ended(*(hour.by_state.get(state, 0) for state in wire.Ended.__struct_fields__)),
        late_1h=wire.Lateness(hour.p50_ms, hour.p99_ms),
        on_time_1h=hour.on_time / judged if judged else None,
        dead_24h=wire.Count(dead, not dead_whole(load.dead)),
        recurring_jobs=wire.Count(jobs["active"] + jobs["paused"], not load.jobs_whole),
        paused=wire.Paused(wire.Count(jobs["paused"], not load.paused_whole), len(load.noticed("queue"))),
        needs_you=needs,
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
        method="GET", path="/v1/stats/series", handler=series, answer=wire.Series, refusals=(403,),
        summary="How executions ended and how late they started, over time",
        parameters=(
            *_RANGE,
            Parameter("group", "One series for each; `tenant` is for operators. Default `state`", {"enum": list(_GROUPS)}),
        ),
    ),
    Endpoint(
        method="GET", path="/v1/stats/lag", handler=lag, answer=wire.LagMap, refusals=(403,),
        summary="How many executions started how late, over time",
        parameters=_RANGE,
    ),
    Endpoint(
        method="GET", path="/v1/upcoming", handler=upcoming, answer=wire.ComingFires,
        summary="The next fires of all jobs, soonest first",
        parameters=(LIMIT, Parameter("to", "Only fires before this instant; default in a day", INSTANT)),
    ),
)  # fmt: skip
