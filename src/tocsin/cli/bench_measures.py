"""What is measured of an installation, one function each.

Creations are timed here, by durations; firing is taken from what the installation recorded. Instants ahead
are counted from the server's own clock, which a preview of a schedule tells.
"""

import asyncio
import json
import math
import random
import time
from collections.abc import Callable, Sequence
from typing import Any, Final

import msgspec

from tocsin.cli.bench_api import Api, each
from tocsin.cli.bench_history import Fired, finished
from tocsin.cli.bench_jobs import MOST_IN_A_BATCH, BenchJobs
from tocsin.domain.instant import HOUR, MILLISECOND, SECOND, Instant, Span, parse_instant

MOST_SINGLES: Final = 2000
SPREAD_PER_SECOND: Final = 20
_LONGEST_SINGLES: Final = 10.0  # seconds; under a limit of requests it would take for ever
_PATIENCE: Final = 30.0
_PATIENCE_FOR_ONE: Final = 15.0
_AHEAD: Final = 4 * SECOND  # workers look two seconds ahead
_SLOWEST_BATCHES: Final = 500  # jobs per second that are counted on before any were seen
_SHORTEST_DRAIN: Final = (
    100 * MILLISECOND
)  # the write of the last batch, which no record shows, takes about 20
_NOW: Final = json.dumps({"schedule": {"now": True}, "limit": 1}).encode()
Tell = Callable[[int], None]


class Creation(msgspec.Struct, frozen=True):
    """Jobs created by one request each."""

    requests: int
    seconds: float
    per_second: float
    p50_ms: float
    p99_ms: float


class BatchCreation(msgspec.Struct, frozen=True):
    """Jobs created many to a request."""

    jobs: int
    seconds: float
    per_second: float


class Drain(msgspec.Struct, frozen=True):
    """Due executions run to their end: from the first start to the last finish, summed up over backlogs."""

    executions: int
    seconds: float
    per_second: float


class Lag(msgspec.Struct, frozen=True):
    """From due to started."""

    executions: int
    p50_ms: float
    p99_ms: float
    max_ms: float
    over_seconds: float
    """How far the instants are spread; 0 when all are one."""


class Bench:
    """The measurements of one run, over its jobs."""

    def __init__(self, api: Api, jobs: BenchJobs, at_once: int) -> None:
        self._api = api
        self._jobs = jobs
        self._at_once = at_once
        self._batch_rate = float(_SLOWEST_BATCHES)
        self.notes: list[str] = []
        """What a reader should know about the figures."""

    async def fire_one(self) -> None:
        """See that anything fires at all, before there is much to clean up."""
        at = await self._server_time()
        job_id, _ = await self._jobs.create(at)
        await finished(self._api, {job_id}, (at, at), patience=_PATIENCE_FOR_ONE)

    async def create(self, count: int, tell: Tell) -> Creation:
        """Jobs for later, each by its own request, some at a time."""
        later = await self._server_time() + HOUR
        took: list[float] = []

        async def one(_: int) -> None:
            if time.perf_counter() - began < _LONGEST_SINGLES:
                took.append((await self._jobs.create(later))[1])
                tell(len(took))

        began = time.perf_counter()
        await each(range(count), one, self._at_once)
        seconds = time.perf_counter() - began
        took.sort()
        milliseconds = [1000 * one for one in took]
        return Creation(
            len(took),
            seconds,
            len(took) / seconds,
            percentile(milliseconds, 50),
            percentile(milliseconds, 99),
        )

    async def drain(self, count: int, tell: Tell) -> Drain:
        """Backlogs of due executions. Each is one atomic batch, so that all of it is there from one moment
        on.

        The recorded finish of a no-op is when it was done, not when that was written: the rate leaves the
        last write out.
        """
        busy, done = 0, 0
        for size in _batches(count):
            at = await self._server_time()
            ids, took = await self._jobs.create_batch([at] * size, atomic=True)
            self._batch_rate = size / took
            fired = await self._finished(ids, (at, at), done, tell)
            busy += max(1, _busy(fired))
            done += size
        if busy < _SHORTEST_DRAIN:
            self.notes.append(
                f"the drain lasted {busy / MILLISECOND:.0f} ms, too short to rely on its rate; more --executions tell more"
            )
        return Drain(count, busy / SECOND, count * SECOND / busy)

    async def create_batch_and_herd(
        self, count: int, tell: Tell, tell_herd: Tell
    ) -> tuple[BatchCreation, Lag]:
        """Jobs in batches, all due at one instant ahead: how fast they come in, and how late they start."""
        at = await self._server_time() + _AHEAD + round(2 * count / self._batch_rate * SECOND)
        ids: set[str] = set()
        seconds = 0.0
        for size in _batches(count):
            made, took = await self._jobs.create_batch([at] * size)
            ids |= made
            seconds += took
            tell(len(ids))
        ahead = at - await self._server_time()
        if ahead < _AHEAD // 2:
            self.notes.append(
                "creation took so long that the herd was not there in time: its lag is longer than it would be"
            )
        tell_herd(0)
        await _sleep(ahead)
        fired = await self._finished(ids, (at, at), 0, tell_herd)
        return BatchCreation(count, seconds, count / seconds), _lag(fired, 0)

    async def spread(self, count: int, tell: Tell) -> Lag:
        """Instants spread over some seconds, with little to do between them."""
        over = max(SECOND, count * SECOND // SPREAD_PER_SECOND)
        first = await self._server_time() + _AHEAD
        instants = sorted(first + random.randrange(over) for _ in range(count))
        ids: set[str] = set()
        for size in _batches(count):
            made, _ = await self._jobs.create_batch(instants[len(ids) : len(ids) + size])
            ids |= made
        tell(0)
        await _sleep(first - await self._server_time())
        patience = _PATIENCE + over / SECOND
        fired = await finished(self._api, ids, (instants[0], instants[-1]), patience=patience, tell=tell)
        return _lag(fired, over)

    async def _finished(
        self, ids: set[str], within: tuple[Instant, Instant], before: int, tell: Tell
    ) -> list[Fired]:
        return await finished(self._api, ids, within, patience=_PATIENCE, tell=lambda now: tell(before + now))

    async def _server_time(self) -> Instant:
        answer, _ = await self._api.post("schedules", "preview", body=_NOW)
        return parse_instant(answer["fires"][0]["at"], "at")


def percentile(ordered: Sequence[float], percent: int) -> float:
    """The least value that `percent` per cent do not exceed."""
    return ordered[max(0, math.ceil(len(ordered) * percent / 100) - 1)]


def rounded(measure: msgspec.Struct) -> dict[str, Any]:
    """A measure as plain data, without digits that mean nothing."""
    values = msgspec.structs.asdict(measure)
    return {name: round(value, 6) if isinstance(value, float) else value for name, value in values.items()}


def _batches(count: int) -> list[int]:
    return [min(MOST_IN_A_BATCH, count - start) for start in range(0, count, MOST_IN_A_BATCH)]


def _busy(fired: Sequence[Fired]) -> Span:
    return max(one.finished_at for one in fired) - min(one.started_at for one in fired)


def _lag(fired: Sequence[Fired], over: Span) -> Lag:
    lags = sorted(one.lag_ms for one in fired)
    return Lag(len(lags), percentile(lags, 50), percentile(lags, 99), lags[-1], over / SECOND)


async def _sleep(span: Span) -> None:
    await asyncio.sleep(max(0, span) / SECOND)
