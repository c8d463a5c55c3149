"""What ended over time: how many, and how late they started, by bucket.

A tenant of which little ended in the range is read exactly, from history, down to the second and up to this
moment. Where more ended, the tallies tell it: by minutes, or hours where the range begins before minutes are
kept, and some seconds behind.
"""

from collections.abc import Sequence
from datetime import timedelta
from typing import Any, Final
from uuid import UUID

import msgspec

from tocsin.db.pool import Database, Record
from tocsin.db.statements import named
from tocsin.domain.cells import CELL
from tocsin.domain.instant import DAY, HOUR, SECOND, Instant, Span
from tocsin.domain.tally import BINS, FLEET, FLEET_STEP, LONG_STEP, TENANT_STEP, added
from tocsin.store.statements import sql

MOST_BUCKETS: Final = 400
BEHIND_S: Final = 10
"""The most seconds that tallies are behind while their writers are well."""
_OF_JOB = named("tocsin.store", "series_of_job")
_MOST_EXACT: Final = 5_000
_MOST_OF_JOB: Final = 20_000
_MOST_TENANTS: Final = 200
_MOST_SERIES: Final = 20
_MINUTES_KEPT: Final = 47 * HOUR
_SECONDS_KEPT: Final = 23 * HOUR
STEPS: Final = tuple(
    s * SECOND
    for s in (1, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10_800, 21_600, 43_200, 86_400)
)


class Asked(msgspec.Struct, frozen=True, kw_only=True):
    """Which series is wanted. Without a step the finest is taken that makes 400 buckets at most."""

    since: Instant
    until: Instant
    step: Span = 0
    group: str = "state"
    queue: str | None = None

    def stepping(self, least: Span) -> Span:
        """The size of a bucket: what was asked for, in whole multiples of what can be told."""
        wanted = max(self.step, least)
        if self.step and (self.until - self.since) / wanted <= MOST_BUCKETS:
            return -(-wanted // least) * least
        return next(s for s in STEPS if s >= least and (self.until - self.since) / s <= MOST_BUCKETS)


class Line(msgspec.Struct):
    """One series: its counts and its histograms of lateness, by bucket."""

    key: str
    fires: list[int]
    lag: list[list[int]]


class Series(msgspec.Struct, frozen=True):
    """Lines over common buckets. Before `covers_from` nothing was counted."""

    step: Span
    begins: list[Instant]
    lines: list[Line]
    covers_from: Instant
    exact: bool


class SeriesStore:
    """Looks of one tenant each, or of the fleet."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def of_tenant(self, tenant_id: int, asked: Asked, now: Instant) -> Series:
        """A tenant's series: exact where little ended."""
        kept = TENANT_STEP if now - asked.since <= _MINUTES_KEPT else LONG_STEP
        tallied = await self._tallied(tenant_id, kept, asked)
        if sum(sum(line.fires) for line in tallied.lines) > _MOST_EXACT:
            return tallied
        step = asked.stepping(SECOND)
        since = asked.since - asked.since % step
        rows = await self._database.fetch(
            sql("series_of_ended"), tenant_id, since, asked.until, _interval(step), _MOST_EXACT + 1, asked.group, asked.queue
        )  # fmt: skip
        if rows and rows[0]["rows"] > _MOST_EXACT:
            return tallied
        return _laid_out(rows, asked, step)

    async def of_fleet(self, asked: Asked, now: Instant) -> Series:
        """All tenants together."""
        kept = FLEET_STEP if now - asked.since <= _SECONDS_KEPT else LONG_STEP
        return await self._tallied(FLEET, kept, asked)

    async def by_tenant(self, asked: Asked, now: Instant) -> Series:
        """A line per tenant: those of which most ended, of the first tenants."""
        kept = TENANT_STEP if now - asked.since <= min(DAY, _MINUTES_KEPT) else LONG_STEP
        step = asked.stepping(kept)
        since = asked.since - asked.since % step
        rows = await self._database.fetch(
            sql("series_by_tenant"), kept // SECOND, since, asked.until, _interval(step), asked.queue, _MOST_TENANTS
        )  # fmt: skip
        series = _laid_out(rows, asked, step, exact=False)
        series.lines.sort(key=lambda line: -sum(line.fires))
        del series.lines[_MOST_SERIES:]
        return series

    async def of_job(self, tenant_id: int, job_id: UUID, asked: Asked) -> Series:
        """One job's fires by their fire times, the latest 20,000 at most."""
        step = asked.stepping(SECOND)
        since = asked.since - asked.since % step
        rows = await self._database.fetch(
            *_OF_JOB.given(
                cell=CELL,
                job_id=job_id,
                tenant_id=tenant_id,
                since=since,
                until=asked.until,
                step=_interval(step),
                most=_MOST_OF_JOB,
                group_by=asked.group,
            )
        )
        whole = not rows or rows[0]["rows"] < _MOST_OF_JOB
        return _laid_out(rows, asked, step, covers_from=None if whole else rows[0]["since"])

    async def _tallied(self, tenant_id: int, kept: Span, asked: Asked) -> Series:
        step = asked.stepping(kept)
        since = asked.since - asked.since % step
        rows = await self._database.fetch(
            sql("series_of_tallies"),
            tenant_id,
            kept // SECOND,
            since,
            asked.until,
            _interval(step),
            asked.group,
            asked.queue,
        )
        return _laid_out(rows, asked, step, exact=False)


def total(series: Series) -> Line:
    """All lines as one."""
    width = len(series.begins)
    whole = Line("", [0] * width, [[] for _ in range(width)])
    for line in series.lines:
        whole.fires = [a + b for a, b in zip(whole.fires, line.fires, strict=True)]
        whole.lag = [added(a, b) for a, b in zip(whole.lag, line.lag, strict=True)]
    return whole


def _laid_out(
    rows: Sequence[Record],
    asked: Asked,
    step: Span,
    *,
    exact: bool = True,
    covers_from: Instant | None = None,
) -> Series:
    since = asked.since - asked.since % step
    begins = list(range(since, asked.until, step))
    lines: dict[str, Line] = {}
    for row in rows:
        line = lines.get(row["key"])
        if line is None:
            lines[row["key"]] = line = Line(row["key"], [0] * len(begins), [[] for _ in begins])
        place = (row["at"] - since) // step
        line.fires[place], line.lag[place] = row["fires"], _bins(row["lag"])
    ordered = [lines[key] for key in sorted(lines)]
    return Series(step, begins, ordered, since if covers_from is None else covers_from, exact)


def _bins(counts: Sequence[Any] | None) -> list[int]:
    return [int(count or 0) for count in counts or ()][:BINS]


def _interval(step: Span) -> timedelta:
    return timedelta(microseconds=step)
