"""Backfills: every fire time of a past range once more or for the first time, never twice, at the asked
pace."""

from collections import Counter
from collections.abc import Iterator
from itertools import pairwise
from typing import Any
from uuid import UUID

import msgspec
import pytest

from tests.simulation.outage import TARGET, TENANT, Engine, play, schedule
from tests.support.postgres import Cluster
from tocsin.domain.backfill import Mode, Order, fires_of
from tocsin.domain.errors import Conflict
from tocsin.domain.ids import ExecutionKey
from tocsin.domain.instant import DAY, HOUR, MINUTE, SECOND, Instant, parse_instant
from tocsin.domain.job import Definition
from tocsin.domain.policy import Misfire, MisfirePolicy, Overlap, Policies
from tocsin.domain.schedule import Schedule
from tocsin.store.backfills import NewBackfill
from tocsin.store.executions import ExecutionStore

NOON = parse_instant("2031-05-05T12:00:00Z", "")
HOURLY = schedule(every="1h", ends_at="2031-05-05T12:00:00Z")
SKIP = Policies(misfire=Misfire(MisfirePolicy.SKIP))


@pytest.fixture(scope="module")
def url(cluster: Cluster) -> Iterator[str]:
    url = cluster.new_database()
    yield url
    cluster.drop(url)


async def begin(engine: Engine, job_id: UUID, start: Instant, end: Instant, **how: Any) -> int:
    """A backfill as the API makes it."""
    job = await engine.jobs.get(TENANT, job_id)
    asked = {"mode": Mode.MISSING, "order": Order.OLDEST_FIRST, "pace": 0, "max_parallel": 10} | how
    new = NewBackfill(start, end, **asked)
    written = msgspec.json.decode(job["schedule"], type=Schedule)
    total = len(fires_of(written, start, end, asked["order"]))
    return await engine.backfills.define(TENANT, job_id, new, total)


async def half_a_day(engine: Engine, policies: Policies = SKIP, **fields: Any) -> UUID:
    """A job that ran at the first three hours of the morning, was down for the rest, and is over at noon."""
    await engine.time.advance_to(NOON - 12 * HOUR - MINUTE)
    job_id = await engine.define(HOURLY, policies, **fields)
    await engine.run_until(NOON - 10 * HOUR + MINUTE)
    await engine.time.advance_to(NOON + MINUTE)
    await engine.run_until_done()
    assert await engine.count("history", "state = 'succeeded' AND job_id = $1", job_id) == 3 + 1
    engine.calls.made.clear()
    return job_id


def hours(engine: Engine) -> list[int]:
    """The fire times that were called, in the order of calls, in hours before noon."""
    return [(NOON - fire) // HOUR for _, fire, _ in engine.calls.made]


@pytest.mark.parametrize("order", Order)
def test_missing_runs_what_never_ran_in_the_asked_order_under_its_own_identity(
    url: str, order: Order
) -> None:
    async def story(engine: Engine) -> None:
        job_id = await half_a_day(engine)
        backfill = await begin(engine, job_id, NOON - 12 * HOUR, NOON + 1, order=order, max_parallel=1)
        await engine.run_until_done()
        missing = list(range(9, 0, -1))
        assert hours(engine) == (missing if order is Order.OLDEST_FIRST else missing[::-1])
        row = await engine.backfills.get(TENANT, backfill)
        assert (row["state"], row["total"], row["planned"], row["left_out"], row["live"]) == (
            "completed",
            13,
            9,
            4,
            0,
        )
        twice = await engine.database.fetch(
            "SELECT fire_at FROM history WHERE state <> 'skipped' GROUP BY fire_at HAVING count(*) > 1"
        )
        assert twice == []

    play(url, NOON - 13 * HOUR, story)


def test_all_runs_each_fire_time_once_and_what_ran_before_keeps_its_identity(url: str) -> None:
    async def story(engine: Engine) -> None:
        job_id = await half_a_day(engine)
        backfill = await begin(engine, job_id, NOON - 12 * HOUR, NOON, mode=Mode.ALL)
        await engine.run_until_done()
        rows = await engine.database.fetch(
            "SELECT fire_at, origin_fire_at FROM history WHERE backfill_id = $1", backfill
        )
        meant = Counter((row["origin_fire_at"] or row["fire_at"]) for row in rows)
        assert meant == Counter(range(NOON - 12 * HOUR, NOON, HOUR))
        assert sum(row["origin_fire_at"] is not None for row in rows) == 3
        ran = await engine.database.fetch("SELECT job_id, fire_at FROM history WHERE state <> 'skipped'")
        assert len(ran) == len(set(ran)) == 4 + 12

    play(url, NOON - 13 * HOUR, story)


def test_the_pace_of_a_backfill_is_kept(url: str) -> None:
    async def story(engine: Engine) -> None:
        job_id = await half_a_day(engine)
        await begin(engine, job_id, NOON - 12 * HOUR, NOON, pace=7 * SECOND, mode=Mode.ALL)
        await engine.run_until_done()
        rows = await engine.database.fetch(
            "SELECT started_at FROM history WHERE backfill_id IS NOT NULL ORDER BY started_at"
        )
        starts = [row["started_at"] for row in rows]
        assert len(starts) == 12
        assert {after - before for before, after in pairwise(starts)} == {7 * SECOND}

    play(url, NOON - 13 * HOUR, story)


@pytest.mark.parametrize("most", [1, 3])
def test_never_more_executions_than_max_parallel_are_live(url: str, most: int) -> None:
    async def story(engine: Engine) -> None:
        seen: list[int] = []
        job_id = await half_a_day(engine)
        engine.calls.lasts = lambda claim: (claim.fire_at // HOUR % 3 * 5 + 2) * SECOND
        backfill = await begin(engine, job_id, NOON - 12 * HOUR, NOON, max_parallel=most, mode=Mode.ALL)
        while (upcoming := await engine.settle()) is not None:
            row = await engine.backfills.get(TENANT, backfill)
            seen.append(row["live"])
            assert row["live"] <= most
            assert row["position"] == row["planned"] + row["left_out"] <= row["total"] == 12
            await engine.time.advance_to(upcoming)
        assert max(seen) == most
        assert len(engine.calls.made) == 12

    play(url, NOON - 13 * HOUR, story)


def test_cancelling_a_backfill_calls_off_what_waits_and_lets_what_runs_end(url: str) -> None:
    async def story(engine: Engine) -> None:
        job_id = await half_a_day(
            engine, Policies(overlap=Overlap.QUEUE, misfire=Misfire(MisfirePolicy.SKIP))
        )
        engine.calls.lasts = lambda _: 20 * SECOND
        backfill = await begin(engine, job_id, NOON - 12 * HOUR, NOON, max_parallel=5)
        await engine.run_until(
            engine.time.now() + 30 * SECOND
        )  # one is over, one runs, the others take turns
        before = await engine.backfills.get(TENANT, backfill)
        assert await engine.backfills.cancel(TENANT, backfill) == before["live"] - 1
        await engine.run_until_done()
        assert len(engine.calls.made) == 2
        row = await engine.backfills.get(TENANT, backfill)
        assert (row["state"], row["live"]) == ("cancelled", 0)
        states = await engine.database.fetch(
            "SELECT state, count(*) AS n FROM history WHERE backfill_id = $1 GROUP BY 1 ORDER BY 1", backfill
        )
        assert [tuple(row) for row in states] == [("cancelled", before["live"] - 1), ("succeeded", 2)]
        with pytest.raises(Conflict):
            await engine.backfills.cancel(TENANT, backfill)

    play(url, NOON - 13 * HOUR, story)


@pytest.mark.parametrize("gone", ["cancel", "delete"])
def test_a_backfill_ends_with_its_job(url: str, gone: str) -> None:
    async def story(engine: Engine) -> None:
        await engine.time.advance_to(NOON)
        job_id = await engine.define(schedule(every="1h"), SKIP)
        await engine.run_until(NOON + MINUTE)
        engine.calls.lasts = lambda _: 10 * SECOND
        backfill = await begin(engine, job_id, NOON - DAY, NOON, max_parallel=2)
        await engine.run_until(engine.time.now() + 15 * SECOND)
        called = len(engine.calls.made)
        assert called == 4
        if gone == "cancel":
            await engine.cancelling.cancel(TENANT, job_id, "over")
        else:
            await engine.cancelling.delete(TENANT, job_id)
        await engine.run_until(NOON + HOUR + MINUTE)
        assert len(engine.calls.made) == called, "nothing of a job starts any more once it is cancelled"
        assert (await engine.backfills.get(TENANT, backfill))["state"] == "cancelled"

    play(url, NOON - HOUR, story)


@pytest.mark.parametrize("policy", ["skip", "queue", "collapse", "replace"])
def test_a_backfill_of_a_job_that_must_not_overlap_takes_turns_with_its_schedule(
    url: str, policy: str
) -> None:
    async def story(engine: Engine) -> None:
        job_id = await engine.define(
            schedule(every="1m", ends_at="2031-05-05T12:06:00Z"), Policies(overlap=Overlap(policy))
        )
        engine.calls.lasts = lambda _: 7 * SECOND
        await engine.run_until(NOON + 30 * SECOND)
        await begin(engine, job_id, NOON - HOUR, NOON, max_parallel=4)
        await engine.run_until_done()
        rows = await engine.database.fetch(
            "SELECT started_at, finished_at, state, cause FROM history WHERE started_at IS NOT NULL ORDER BY started_at"
        )
        for one, other in pairwise(rows):
            assert one["finished_at"] <= other["started_at"]
        filled = [row for row in rows if row["cause"] == "backfill"]
        assert len(filled) == 60, "a backfill is there to run"
        assert {row["state"] for row in filled} == {"succeeded"}
        assert await engine.count("history", "cause = 'schedule'") == 6

    play(url, NOON, story)


def test_two_backfills_of_one_range_run_each_fire_time_once(url: str) -> None:
    async def story(engine: Engine) -> None:
        job_id = await half_a_day(engine)
        engine.calls.lasts = lambda _: 3 * SECOND
        first = await begin(engine, job_id, NOON - 12 * HOUR, NOON, max_parallel=2)
        second = await begin(engine, job_id, NOON - 12 * HOUR, NOON, max_parallel=2, order=Order.NEWEST_FIRST)
        await engine.run_until_done()
        assert sorted(hours(engine)) == list(range(1, 10))
        one, other = await engine.backfills.get(TENANT, first), await engine.backfills.get(TENANT, second)
        assert one["planned"] + other["planned"] == 9
        assert (one["state"], other["state"]) == ("completed", "completed")

    play(url, NOON - 13 * HOUR, story)


def test_a_slow_backfill_does_not_hold_up_another_one(url: str) -> None:
    async def story(engine: Engine) -> None:
        slow, quick = await half_a_day(engine), await engine.define(schedule(every="1h"), SKIP)
        await engine.run_until(engine.time.now() + SECOND)
        await begin(engine, slow, NOON - 12 * HOUR, NOON, pace=30 * MINUTE)
        await begin(engine, quick, NOON - 12 * HOUR, NOON)
        begun = engine.time.now()
        # As the shared loop does: run when the last report asked for it.
        while len([made for made in engine.calls.made if made[0] == quick]) < 12:
            report = await engine.backfiller.run_once(engine.time.now())
            for part in (engine.worker.claimer, engine.worker.starter, engine.worker.settler):
                engine.worker.claimer.forget_look()
                await part.run_once(engine.time.now())
            await engine.time.advance(max(10_000, (report.again_at or 0) - engine.time.now()))
        assert engine.time.now() - begun < 10 * SECOND

    play(url, NOON - 13 * HOUR, story)


def test_a_backfill_whose_job_was_changed_ends_and_does_not_stop_the_others(url: str) -> None:
    async def story(engine: Engine) -> None:
        changed, other = (
            await engine.define(schedule(every="1h"), SKIP),
            await engine.define(schedule(every="1h"), SKIP),
        )
        await engine.run_until(NOON + MINUTE)
        one = await begin(engine, changed, NOON - 3 * DAY, NOON, max_parallel=5)
        two = await begin(engine, other, NOON - 3 * DAY, NOON, max_parallel=5)
        engine.calls.lasts = lambda _: 5 * SECOND
        await engine.run_until(engine.time.now() + 8 * SECOND)
        job = Definition(schedule(every="1s"), TARGET, policies=SKIP)
        await engine.changing.update(TENANT, changed, job, engine.time.now(), version=None)
        await engine.pausing.pause(TENANT, changed, "only the backfill matters")
        await engine.run_until(engine.time.now() + 10 * MINUTE)
        assert (await engine.backfills.get(TENANT, two))["state"] == "completed"
        assert (await engine.backfills.get(TENANT, one))["state"] != "running"

    play(url, NOON, story)


def test_a_fire_time_that_was_skipped_and_then_filled_shows_as_what_ran(url: str) -> None:
    async def story(engine: Engine) -> None:
        job_id = await engine.define(schedule(every="1h", ends_at="2031-05-05T14:00:00Z"))
        await engine.run_until(NOON + 59 * MINUTE + 45 * SECOND)
        skipped = await engine.firing.skip_next(TENANT, job_id)
        await engine.run_until_done()
        await begin(engine, job_id, NOON + 1, NOON + 2 * HOUR)
        await engine.run_until_done()
        store = ExecutionStore(engine.database)
        row = await store.get(TENANT, ExecutionKey(job_id, skipped))
        assert (row["state"], row["cause"]) == ("succeeded", "backfill")
        seen: list[tuple[Instant, str]] = []
        while page := await store.of_job(
            TENANT, job_id, (seen[-1][0], seen[-1][1] != "skipped") if seen else None, 1
        ):
            seen += [(row["fire_at"], row["state"]) for row in page]
        whole = await store.of_job(TENANT, job_id, None, 100)
        assert seen == [(row["fire_at"], row["state"]) for row in whole]

    play(url, NOON, story)
