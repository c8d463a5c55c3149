"""Counts what succeeded, in memory, batch by batch; every few seconds the counts are written down.

What enters: the claims of each batch that the settler wrote. What leaves: the rows of the buckets that
changed, whole, so that a write whose answer was lost is repeated without harm. What may be lost: the counts
of the last seconds before a crash; they are for plots, and `tocsin tallies rebuild` takes them from history.
Other executions are counted from history by `scheduler/tally_keeper.py`: they are rare, and end in many
places.

A drain settles tens of thousands a second, so claims are counted without looking at each: lateness and run
time of a batch are those of up to 64 of its claims.
"""

import asyncio
from collections.abc import Sequence
from operator import attrgetter
from typing import Final

from tocsin.clock import Clock
from tocsin.domain.instant import SECOND, Instant, Span
from tocsin.domain.lifecycle import State
from tocsin.domain.tally import FLEET, FLEET_STEP, LONG_STEP, TENANT_STEP, added, histogram
from tocsin.queue.claims import Claim
from tocsin.service import Report
from tocsin.store.tallies import Tally, TallyStore
from tocsin.telemetry import Telemetry

_RESTS: Final = (
    19  # times as long as a write took: tallies of ten thousand tenants take their time, and no more
)
_KEPT_OPEN: Final[Span] = 30 * SECOND  # after a bucket's end, for what settles late
_HOURS_WRITTEN_EVERY: Final[Span] = 60 * SECOND
_MOST_LOOKED_AT: Final = 64
"""Claims of a batch of one kind whose lateness is looked at: a drain settles a thousand at a time."""
_MOST_KEPT: Final = 4096
"""Spans that are kept one by one before they become a histogram."""
_FOLDED_PER_TURN: Final = 200
_Key = tuple[int, Span, Instant, str]
_Kind = tuple[int, str]
_kind = attrgetter("tenant_id", "queue")


class _Gathered:
    """What succeeded of one tenant and queue in one bucket since it was last added up."""

    __slots__ = ("count", "lag", "lags", "run", "run_sum", "runs")

    def __init__(self) -> None:
        self.count = 0
        self.lags: list[Span] = []
        """How late first attempts started: a further attempt is later by its wait."""
        self.runs: list[Span] = []
        self.lag: list[int] = []
        self.run: list[int] = []
        self.run_sum: Span = 0

    def note(self, claim: Claim, end: Instant) -> None:
        """One that succeeded."""
        self.count += 1
        start = claim.fired_at or claim.started_at or end
        self.runs.append(end - start)
        if claim.attempt == 1:
            self.lags.append(start - claim.due_at)

    def note_all(self, claims: Sequence[Claim], ends: Sequence[Instant]) -> None:
        """A batch. Of many, each that is looked at stands for several."""
        each = -(-len(claims) // _MOST_LOOKED_AT)
        if each == 1:
            for claim, end in zip(claims, ends, strict=True):
                self.note(claim, end)
            return
        looked_at = _Gathered()
        looked_at.note_all(claims[::each], ends[::each])
        looked_at.condense()
        self.count += len(claims)
        self.lag = added(self.lag, [each * number for number in looked_at.lag])
        self.run = added(self.run, [each * number for number in looked_at.run])
        self.run_sum += each * looked_at.run_sum

    def condense(self) -> None:
        """Make histograms of what is kept one by one."""
        self.run_sum += sum(self.runs)
        self.lag, self.run = added(self.lag, histogram(self.lags)), added(self.run, histogram(self.runs))
        self.lags, self.runs = [], []


class Tallies:
    """The counts of one worker."""

    name = "tallies"
    interval = 5.0

    def __init__(self, store: TallyStore, clock: Clock, telemetry: Telemetry | None = None) -> None:
        """`telemetry` hears how long what succeeded ran: it is added up here once for both."""
        self._telemetry = telemetry
        self._store = store
        self._clock = clock
        self._gathered: dict[tuple[_Kind, Instant], _Gathered] = {}
        """What was not added to tallies yet, by kind and by the shortest bucket."""
        self._open: dict[_Key, Tally] = {}
        self._changed: set[_Key] = set()
        self._hours_at: Instant = 0
        self._open_from: Instant = 0
        """Nothing is counted before: those buckets are written, and forgotten here."""

    def succeeded(self, claims: Sequence[Claim], ends: Sequence[Instant]) -> None:
        """A batch that succeeded and was written, and when each of it ended."""
        at = max(ends[-1], self._open_from)  # the database may have been away since it ended
        bucket = at - at % FLEET_STEP
        kinds: list[_Kind] = list(map(_kind, claims))
        if kinds.count(kinds[0]) == len(kinds):
            self._gather(kinds[0], bucket).note_all(claims, ends)
            return
        gathered: dict[_Kind, _Gathered] = {}
        for kind, claim, end in zip(kinds, claims, ends, strict=True):
            if kind not in gathered:
                gathered[kind] = self._gather(kind, bucket)
            gathered[kind].note(claim, end)

    async def run_once(self, now: Instant) -> Report:
        """Write what has changed. A node that serves very many tenants does so less often."""
        began = self._clock.monotonic()
        await self._add_up()
        keys = [key for key in self._changed if self._due(key, now)]
        await self._store.write([self._open[key] for key in keys])
        self._changed.difference_update(keys)
        if now - self._hours_at >= _HOURS_WRITTEN_EVERY:
            self._hours_at = now
        self._close_past(now)
        took = self._clock.monotonic() - began
        return Report(len(keys), again_at=now + round(max(self.interval, _RESTS * took) * SECOND))

    async def write_all(self) -> None:
        """Write everything, before the node leaves."""
        await self._add_up()
        await self._store.write([self._open[key] for key in self._changed])
        self._changed.clear()

    def _gather(self, kind: _Kind, bucket: Instant) -> _Gathered:
        gathered = self._gathered.get((kind, bucket))
        if gathered is None:
            gathered = self._gathered[kind, bucket] = _Gathered()
        elif len(gathered.runs) >= _MOST_KEPT:
            gathered.condense()
        return gathered

    async def _add_up(self) -> None:
        """Add what was gathered to the tallies that contain it. Others have their turn in between."""
        for number, key in enumerate(list(self._gathered)):
            if number % _FOLDED_PER_TURN == _FOLDED_PER_TURN - 1:
                await asyncio.sleep(0)
            (tenant_id, queue), bucket = key
            gathered = self._gathered.pop(key)
            gathered.condense()
            if self._telemetry is not None:
                self._telemetry.run.add(gathered.run, gathered.run_sum, queue)
            at = max(bucket, self._open_from)
            for of, step in (
                (tenant_id, TENANT_STEP),
                (tenant_id, LONG_STEP),
                (FLEET, FLEET_STEP),
                (FLEET, LONG_STEP),
            ):
                self._add((of, step, at - at % step, queue), gathered.count, gathered.lag, gathered.run)

    def _add(self, key: _Key, count: int, lag: list[int], run: list[int]) -> None:
        tally = self._open.get(key)
        if tally is None:
            self._open[key] = Tally(*key, State.SUCCEEDED, count, lag, run)
        else:
            tally.count += count
            tally.lag, tally.run = added(tally.lag, lag), added(tally.run, run)
        self._changed.add(key)

    def _due(self, key: _Key, now: Instant) -> bool:
        """Hours that go on are written once a minute."""
        _, step, bucket, _ = key
        return step != LONG_STEP or bucket + step <= now or now - self._hours_at >= _HOURS_WRITTEN_EVERY

    def _close_past(self, now: Instant) -> None:
        """Forget buckets that were over a while ago, and written."""
        self._open_from = max(self._open_from, now - _KEPT_OPEN)
        for key in [key for key in self._open if key[2] + key[1] <= self._open_from]:
            del self._open[key]
