"""Histograms of lateness add up, and tell percentiles; a worker counts its batches without looking at each
claim twice."""

import asyncio
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tocsin.clock import VirtualClock
from tocsin.domain.instant import HOUR, MILLISECOND, MINUTE, SECOND
from tocsin.domain.tally import BINS, BOUNDS_MS, added, histogram, percentile_ms, trimmed, within
from tocsin.queue.claims import Claim
from tocsin.store.tallies import Tally
from tocsin.worker.tallies import Tallies

NOON = 1_700_000_000 * SECOND // HOUR * HOUR
spans = st.lists(st.integers(-SECOND, 2 * HOUR))


@given(spans)
def test_every_span_is_in_the_bin_whose_bounds_enclose_it(some: list[int]) -> None:
    counts = histogram(list(some))
    bounds = [ms * MILLISECOND for ms in BOUNDS_MS]
    naive = [0] * BINS
    for span in some:
        naive[sum(span > bound for bound in bounds)] += 1
    assert counts == naive


@given(spans, spans)
def test_added_histograms_are_the_histogram_of_both(some: list[int], others: list[int]) -> None:
    one, other = trimmed(histogram(list(some))), histogram(list(others))
    assert trimmed(added(one, other)) == trimmed(added(other, one)) == trimmed(histogram([*some, *others]))


@given(st.lists(st.integers(0, HOUR), min_size=1), st.floats(0.01, 1))
def test_a_percentile_lies_between_the_bounds_around_the_true_one(some: list[int], share: float) -> None:
    told = percentile_ms(histogram(list(some)), share)
    assert told is not None
    true = sorted(some)[max(0, -(-int(share * len(some) * 1e6) // 1_000_000) - 1)] / MILLISECOND
    bounds = [0.0, *map(float, BOUNDS_MS)]
    place = next(n for n, bound in enumerate(bounds) if true <= bound)
    assert bounds[max(0, place - 1)] <= told <= bounds[min(place + 1, len(bounds) - 1)]


def test_nothing_has_no_percentile_and_what_is_beyond_all_bounds_is_told_as_the_last() -> None:
    assert percentile_ms([], 0.99) is None
    assert percentile_ms([0] * BINS, 0.5) is None
    assert percentile_ms(histogram([5 * HOUR]), 0.5) == 3_600_000
    assert within(histogram([SECOND, SECOND + 1, 3 * MILLISECOND]), 1000) == 2


class Written:
    """A store that keeps what it is told to write, and may be away."""

    def __init__(self) -> None:
        self.rows: dict[tuple[object, ...], int] = {}
        self.away = False

    async def write(self, tallies: list[Tally]) -> None:
        if self.away:
            raise ConnectionError
        for tally in tallies:
            self.rows[tally.tenant_id, tally.step // SECOND, tally.bucket, tally.queue] = tally.count


def claim(tenant_id: int = 1, queue: str = "default", *, lag: int = 0, attempt: int = 1) -> Claim:
    nothing = dict.fromkeys(
        (
            "start_by",
            "overlap",
            "limit_key",
            "waits_for",
            "origin_fire_at",
            "missed_after",
            "target",
            "policies",
            "version",
        )
    )
    return Claim(
        job_id=UUID(int=1), fire_at=NOON, tenant_id=tenant_id, queue=queue, priority=5, route="noop", due_at=NOON - lag, run_at=NOON,
        deadline_at=NOON, started_at=NOON, attempt=attempt, earlier_attempts=0, token=7, **nothing,
    )  # fmt: skip


def tallies() -> tuple[Tallies, Written]:
    store = Written()
    return Tallies(store, VirtualClock(NOON)), store  # type: ignore[arg-type]


def test_a_batch_is_counted_by_tenant_and_queue_and_once_for_the_fleet() -> None:
    counted, store = tallies()
    counted.succeeded([claim(1), claim(2), claim(2, "other"), claim(2)], [NOON] * 4)
    asyncio.run(counted.run_once(NOON))
    assert store.rows == {
        (1, 60, NOON, "default"): 1, (1, 3600, NOON, "default"): 1,
        (2, 60, NOON, "default"): 2, (2, 3600, NOON, "default"): 2,
        (2, 60, NOON, "other"): 1, (2, 3600, NOON, "other"): 1,
        (0, 10, NOON, "default"): 3, (0, 10, NOON, "other"): 1,
        (0, 3600, NOON, "default"): 3, (0, 3600, NOON, "other"): 1,
    }  # fmt: skip


def test_a_write_that_failed_is_repeated_whole_and_counts_nothing_twice() -> None:
    counted, store = tallies()
    counted.succeeded([claim()], [NOON])
    store.away = True
    with pytest.raises(ConnectionError):
        asyncio.run(counted.run_once(NOON))
    store.away = False
    counted.succeeded([claim()], [NOON + SECOND])
    asyncio.run(counted.run_once(NOON + 2 * SECOND))
    assert store.rows[1, 60, NOON, "default"] == 2


def test_what_is_written_late_never_replaces_a_bucket_that_was_closed() -> None:
    counted, store = tallies()
    counted.succeeded([claim(), claim()], [NOON] * 2)
    asyncio.run(counted.run_once(NOON + 2 * MINUTE))
    counted.succeeded([claim()], [NOON])  # the database was away between its end and its writing
    asyncio.run(counted.run_once(NOON + 2 * MINUTE + 5 * SECOND))
    assert store.rows[1, 60, NOON, "default"] == 2
    assert store.rows[1, 60, NOON + MINUTE, "default"] == 1


def test_a_month_of_work_leaves_only_open_buckets_in_memory() -> None:
    counted, _ = tallies()
    for minute in range(30):
        at = NOON + minute * MINUTE
        counted.succeeded([claim()], [at])
        asyncio.run(counted.run_once(at))
    assert len(counted._open) <= 8


def test_a_drain_of_small_batches_of_many_tenants_keeps_histograms_and_no_endless_lists() -> None:
    counted, store = tallies()
    for _ in range(100):
        batch = [claim(tenant) for tenant in (1, 2) for _ in range(100)]
        counted.succeeded(batch, [NOON] * len(batch))
    assert all(len(gathered.runs) <= 4096 + 100 for gathered in counted._gathered.values())
    asyncio.run(counted.run_once(NOON))
    assert store.rows[0, 10, NOON, "default"] == 20_000
    assert sum(counted._open[2, MINUTE, NOON, "default"].lag) == 10_000


def test_a_further_attempt_says_nothing_about_lateness() -> None:
    counted, _ = tallies()
    counted.succeeded([claim(lag=MINUTE, attempt=2), claim(lag=MILLISECOND)], [NOON] * 2)
    asyncio.run(counted.run_once(NOON))
    [tally] = [tally for key, tally in counted._open.items() if key[1] == MINUTE]
    assert (tally.count, sum(tally.lag), tally.lag[0], sum(tally.run)) == (2, 1, 1, 2)


def test_of_a_large_batch_all_are_counted_and_some_tell_how_late_all_were() -> None:
    counted, _ = tallies()
    counted.succeeded([claim(lag=MILLISECOND if n % 2 else MINUTE) for n in range(1000)], [NOON] * 1000)
    asyncio.run(counted.run_once(NOON))
    [tally] = [tally for key, tally in counted._open.items() if key[1] == MINUTE]
    assert tally.count == 1000
    assert abs(sum(tally.lag) - 1000) < 20
    assert {place for place, number in enumerate(tally.lag) if number} <= {0, BOUNDS_MS.index(60_000)}
