"""``/v1/timeline``: past and coming fires of a page of jobs on one axis.

Lanes are a page of the jobs listing, under the same filters, so it works among millions. A lane with more
fires than can be told apart becomes bands; what is read for all lanes together is bounded, and each lane says
how far back it reaches.
"""

from collections import defaultdict
from collections.abc import Sequence
from typing import Any, Final
from uuid import UUID

from tocsin.api.endpoint import CURSOR, INSTANT, ApiCall, Endpoint, Parameter
from tocsin.api.foretold import Foretold, foretold
from tocsin.api.jobs import FILTERS, SORT, page_of_jobs
from tocsin.api.wire import timeline as wire
from tocsin.domain.errors import Refused
from tocsin.domain.ids import job_text
from tocsin.domain.instant import (
    DAY,
    EARLIEST,
    HOUR,
    LATEST,
    MILLISECOND,
    SECOND,
    Instant,
    Span,
    format_instant,
)
from tocsin.store.series import STEPS
from tocsin.store.timeline import MOST_FIRES, rows_of_a_band

_MOST_LANES: Final = 50
_DEFAULT_LANES: Final = 20
_MOST_BANDS: Final = 240
_LONGEST: Final = 31 * DAY
_MOST_FORETOLD: Final = 2_000
LIMIT: Final = Parameter(
    "limit", "Lanes", {"type": "integer", "minimum": 1, "maximum": _MOST_LANES, "default": _DEFAULT_LANES}
)


async def timeline(call: ApiCall) -> wire.Timeline:
    """Past and coming fires of a page of jobs."""
    context, tenant_id, now = call.context, call.asker.tenant_id, call.context.clock.now()
    since, until = _range(call, now)
    rows, cursor = await page_of_jobs(call, _limit(call))
    ids = [row["id"] for row in rows]
    step = next(s for s in STEPS if (until - since) / s <= _MOST_BANDS)
    past = _by_job(await context.timeline.fires(tenant_id, ids, since, until))
    live = _by_job(await context.timeline.live(tenant_id, ids, since, until))
    coming = await foretold(call, rows, until, _MOST_FORETOLD)
    dense = [one for one in ids if len(past[one]) + len(live[one]) + len(coming[one].fires) > MOST_FIRES]
    begin = since - since % step
    bands = _by_job(await context.timeline.bands(tenant_id, dense, begin, until, step))
    lanes = []
    for row in rows:
        of, told = row["id"], coming[row["id"]]
        lane_fires = [*_fires(past[of]), *_live(live[of]), *_expected(told, since)]
        read_from = since
        if of in dense and bands[of] and bands[of][0]["rows"] >= rows_of_a_band(len(dense)):
            read_from = bands[of][0]["since"]
        lanes.append(
            wire.Lane(
                job=job_text(of),
                name=row["name"],
                queue=row["queue"],
                tags=list(row["tags"]),
                fires=None if of in dense else sorted(lane_fires, key=lambda fire: fire.at),
                bands=_bands(bands[of], live[of], told, begin, step) if of in dense else None,
                covers_from=format_instant(read_from),
                expected_to=format_instant(told.until),
            )
        )
    return wire.Timeline(now=format_instant(now), step_s=step // SECOND, lanes=lanes, next_cursor=cursor)


def _fires(rows: Sequence[Any]) -> list[wire.LaneFire]:
    fires = []
    for row in rows:
        started, retried = row["started_at"], row["retried"]
        fires.append(
            wire.LaneFire(
                at=format_instant(row["fire_at"]),
                state=row["state"],
                late_ms=None if started is None or retried else (started - row["due_at"]) / MILLISECOND,
                run_ms=None if started is None else (row["finished_at"] - started) / MILLISECOND,
                reason=row["reason"],
                until=None if row["fire_until"] is None else format_instant(row["fire_until"]),
                count=row["fire_count"],
            )
        )
    return fires


def _live(rows: Sequence[Any]) -> list[wire.LaneFire]:
    return [
        wire.LaneFire(
            at=format_instant(row["fire_at"]),
            state=_live_state(row),
            late_ms=None if row["started_at"] is None else (row["started_at"] - row["due_at"]) / MILLISECOND,
        )
        for row in rows
    ]


def _live_state(row: Any) -> wire.FireState:
    return "queued" if row["started_at"] is None else "running"


def _expected(told: Foretold, since: Instant) -> list[wire.LaneFire]:
    return [wire.LaneFire(at=format_instant(at), state="expected") for at in told.fires if at >= since]


def _bands(
    rows: Sequence[Any], live: Sequence[Any], told: Foretold, begin: Instant, step: Span
) -> list[wire.Band]:
    counts: dict[Instant, dict[wire.FireState, int]] = defaultdict(dict)

    def add(at: Instant, state: wire.FireState, number: int = 1) -> None:
        bucket = counts[begin + (at - begin) // step * step]
        bucket[state] = bucket.get(state, 0) + number

    for row in rows:
        add(row["at"], row["state"], row["number"])
    for row in live:
        add(row["fire_at"], _live_state(row))
    for at in told.fires:
        if at >= begin:
            add(at, "expected")
    return [wire.Band(format_instant(at), counts[at]) for at in sorted(counts)]


def _range(call: ApiCall, now: Instant) -> tuple[Instant, Instant]:
    asked_from, asked_to = call.instant("from"), call.instant("to")
    since = max(EARLIEST + 2 * DAY, now - 6 * HOUR if asked_from is None else asked_from)
    until = min(LATEST - 2 * DAY, max(now, since) + 2 * HOUR if asked_to is None else asked_to)
    if not 0 < until - since <= _LONGEST:
        raise Refused("the range ends after it begins, and is at most 31 days", field="from")
    return since, until


def _limit(call: ApiCall) -> int:
    text = call.query.get("limit", str(_DEFAULT_LANES))
    if not (text.isascii() and text.isdigit() and len(text) < 10 and 1 <= int(text) <= _MOST_LANES):
        raise Refused(f"limit is a number from 1 to {_MOST_LANES}", field="limit")
    return int(text)


def _by_job(rows: Sequence[Any]) -> "defaultdict[UUID, list[Any]]":
    found: defaultdict[UUID, list[Any]] = defaultdict(list)
    for row in rows:
        found[row["job_id"]].append(row)
    return found


ENDPOINTS = (
    Endpoint(
        method="GET", path="/v1/timeline", handler=timeline, answer=wire.Timeline,
        summary="Past and coming fires of a page of jobs, on one axis",
        parameters=(
            LIMIT, CURSOR, *FILTERS, SORT,
            Parameter("from", "The range's begin; default six hours ago", INSTANT),
            Parameter("to", "The range's end; default in two hours", INSTANT),
        ),
    ),
)  # fmt: skip
