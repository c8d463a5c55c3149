"""``/v1/forecast``: expected fires of the coming days, peaks and who makes them, free minutes, and where a
schedule would fit.

The schedulers keep the forecast (`scheduler/forecaster.py`); here it is read, and remembered for a minute.
What creations say of it comes from a look that they share (`foresight`).
"""

from collections.abc import Sequence
from itertools import islice
from typing import Final

from tocsin.api.context import Context
from tocsin.api.endpoint import INSTANT, ApiCall, Endpoint, Parameter
from tocsin.api.loads import load_of as node_load
from tocsin.api.wire import forecast as wire
from tocsin.api.wire.scalars import time_of
from tocsin.domain.errors import Refused
from tocsin.domain.forecast import Group, Load, free, makers, peaks
from tocsin.domain.ids import job_text
from tocsin.domain.instant import DAY, LATEST, MINUTE, SECOND, Instant, format_instant, parse_span
from tocsin.domain.schedule import Schedule, fire_times, read_schedule, rule_of

_LONGEST: Final = 7 * DAY
_LAST_DAY: Final = LATEST - DAY
_MOST_BUCKETS: Final = 1_440
_MOST_FIRES_FITTED: Final = 500
_MINUTES: Final = DAY // MINUTE
_FRESH_S: Final = 60.0


async def show(call: ApiCall) -> wire.Forecast:
    """The load to come."""
    context, asker, now = call.context, call.asker, call.context.clock.now()
    begin = _or(call.instant("from"), now)
    since = begin - begin % MINUTE
    until = _or(call.instant("to"), since + DAY)
    if max(since, until) > _LAST_DAY:
        raise Refused("a forecast ends before the year 9999 does", field="to")
    text = call.query.get("step")
    step = MINUTE if text is None else parse_span(text, "step") // MINUTE * MINUTE
    if not (now - DAY <= since < until and until - since <= _LONGEST):
        raise Refused("a range begins today or later, ends after that, and is at most 7 days", field="from")
    if step < MINUTE or -(-(until - since) // step) > _MOST_BUCKETS:
        raise Refused("a step has whole minutes, and a forecast at most 1,440 steps", field="step")
    queue = call.query.get("queue")
    load = await _load(context, asker.tenant_id, since, -(-(until - since) // MINUTE), queue)
    high, age = peaks(load), await context.forecasts.age()
    groups = await context.forecasts.groups(asker.tenant_id, queue) if high else []
    one_offs = await context.forecasts.one_offs(asker.tenant_id, max(since, now + MINUTE), until, MINUTE)
    ahead = max(0, -(-(now - since) // MINUTE))  # a minute that is over, or under way, is not free
    buckets = -(-(until - since) // step)
    single = [0] * buckets
    for row in one_offs:
        if queue in (None, row["queue"]):
            single[min(buckets - 1, (row["at"] - since) // step)] += row["number"]
    each = step // MINUTE
    return wire.Forecast(
        step_s=step // SECOND,
        at=[format_instant(since + n * step) for n in range(buckets)],
        expected=[round(sum(load.minutes[n * each : (n + 1) * each]), 3) for n in range(buckets)],
        one_offs=single,
        capacity=await _capacity(call) if asker.operator else None,
        peaks=[_peak(load, place, groups) for place in high],
        free=[format_instant(since + place * MINUTE) for place in free(load, ahead)],
        capped=not age.whole,
        computed_at=time_of(age.computed_at),
        age_s=None if age.computed_at is None else max(0, now - age.computed_at) // SECOND,
    )


async def fit(call: ApiCall) -> wire.Fit:
    """How a schedule would fit into the coming day."""
    now = call.context.clock.now()
    schedule = read_schedule(call.body.schedule, now)
    since = now - now % MINUTE
    load = await _load(call.context, call.asker.tenant_id, since, _MINUTES, None)
    return fit_of(load, schedule, now)


def fit_of(load: Load, schedule: Schedule, now: Instant) -> wire.Fit:
    """The busiest minute that the schedule fires in, and free ones near it."""
    rule, until = rule_of(schedule), load.since + len(load.minutes) * MINUTE
    first = rule.next_fire(now)
    times = () if first is None else islice(fire_times(rule, first), _MOST_FIRES_FITTED)
    places = {place for at in times if at < until and (place := load.minute_of(at)) is not None}
    highest = round(max(load.minutes, default=0))
    if not places:
        return wire.Fit(peak=highest, at=None, joins=0, joins_peak=False, free_slots=[])
    busiest = max(places, key=lambda place: (load.minutes[place], -place))
    return wire.Fit(
        peak=highest,
        at=format_instant(load.since + busiest * MINUTE),
        joins=round(load.minutes[busiest]),
        joins_peak=busiest in peaks(load),
        free_slots=_free_near(load, busiest),
    )


async def note_of_peak(context: Context, tenant_id: int, schedule: Schedule, now: Instant) -> str | None:
    """What to tell a user who creates a recurring job that joins a peak of the coming day."""
    if not schedule.recurring:
        return None
    day, rule = await context.foresight.day(tenant_id), rule_of(schedule)
    for place in day.peaks:
        begin = day.load.since + place * MINUTE
        at = rule.next_fire(max(begin, now) - 1)
        if at is not None and at < begin + MINUTE:
            slots = _free_near(day.load, place)
            hint = f"; {slots[0]} is free" if slots else ""
            number = round(day.load.minutes[place])
            return f"it joins a peak of {number} fires at {format_instant(begin)}{hint}"
    return None


def _free_near(load: Load, busy: int) -> list[str]:
    """Minutes of the same hour with fewer fires."""
    hour = busy - (load.since // MINUTE + busy) % 60
    places = free(load, max(0, hour), hour + 60)
    near = [place for place in places if load.minutes[place] < load.minutes[busy]]
    return [format_instant(load.since + place * MINUTE) for place in near[:5]]


async def _load(context: Context, tenant_id: int, since: Instant, minutes: int, queue: str | None) -> Load:
    """A forecast, remembered for a minute."""
    key, moment = ("forecast", tenant_id, queue, minutes), context.clock.monotonic()
    found = context.fresh.find(key, moment)
    if found is None or found.since != since:
        found = await context.forecasts.load(tenant_id, since, minutes, queue)
        context.fresh.keep(key, moment, found, seconds=_FRESH_S)
    load: Load = found
    return load


async def _capacity(call: ApiCall) -> int:
    nodes = await call.context.leases.nodes()
    return sum(node_load(node["stats"]).capacity or 0 for node in nodes if node["alive"])


def _peak(load: Load, place: int, groups: Sequence[Group]) -> wire.Peak:
    at = load.since + place * MINUTE
    jobs = [
        wire.PeakJob(job_text(group.job_id), group.name, group.number, round(fires))
        for group, fires in makers(groups, at)
    ]
    return wire.Peak(format_instant(at), round(load.minutes[place]), jobs)


def _or(given: Instant | None, default: Instant) -> Instant:
    return default if given is None else given


ENDPOINTS = (
    Endpoint(
        method="GET", path="/v1/forecast", handler=show, answer=wire.Forecast,
        summary="Expected fires of the coming days, peaks and free minutes",
        parameters=(
            Parameter("from", "The range's begin; default now", INSTANT),
            Parameter("to", "The range's end; default a day after its begin; at most 7 days", INSTANT),
            Parameter("step", "How long a bucket is, in whole minutes; default `1m`"),
            Parameter("queue", "Only this queue"),
        ),
    ),
    Endpoint(
        method="POST", path="/v1/forecast:fit", handler=fit, body=wire.FitRequest, answer=wire.Fit,
        summary="Whether a schedule would join a peak, and which minutes near it are free",
    ),
)  # fmt: skip
