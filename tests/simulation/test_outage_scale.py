"""Long absences: what they cost does not grow with their length, and what comes back does not push aside what
is due."""

import os
import tracemalloc
from collections.abc import Iterator
from itertools import count

import pytest

from tests.simulation.outage import TENANT, Engine, play, schedule
from tests.support.postgres import Cluster
from tocsin.domain.instant import DAY, HOUR, MINUTE, SECOND, parse_instant
from tocsin.domain.planning import DEFAULT_LIMIT
from tocsin.domain.policy import Misfire, MisfirePolicy, Policies
from tocsin.domain.schedule import Schedule
from tocsin.service import AGAIN_NOW

NOON = parse_instant("2031-05-05T12:00:00Z", "")


@pytest.fixture(scope="module")
def url(cluster: Cluster) -> Iterator[str]:
    url = cluster.new_database()
    yield url
    cluster.drop(url)


# A cron expression has to be walked through second by second; a month of them takes a while.
CRON_DAYS = int(os.environ.get("TOCSIN_OUTAGE_DAYS", "1"))
JOBS = int(os.environ.get("TOCSIN_OUTAGE_JOBS", "500"))
SECONDS = [
    pytest.param(schedule(every="1s"), 30, id="every"),
    pytest.param(schedule(every="1s", starts_at="2031-01-01T00:00:00Z", ends_at="2032-01-01T00:00:00Z"), 30, id="window"),
    pytest.param(schedule(cron="* * * * * *", time_zone="Europe/Berlin"), CRON_DAYS, id="cron"),
]  # fmt: skip


@pytest.mark.parametrize(("written", "days"), SECONDS)
def test_a_job_of_every_second_that_is_paused_for_long_leaves_one_row_and_little_memory(
    url: str, written: Schedule, days: int
) -> None:
    async def story(engine: Engine) -> None:
        job_id = await engine.define(written)
        await engine.pausing.pause(TENANT, job_id, "a month off")
        await engine.time.advance_to(NOON + days * DAY)
        tracemalloc.start()
        done = await engine.pausing.resume(TENANT, job_id, engine.time.now())
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert peak < 16 << 20, "memory is that of one step"
        missed = (
            days * DAY // SECOND - 61
        )  # what is within its grace, and the fire at this very instant, is live
        assert sum(skip.count for skip in done.skips) == missed - 1
        assert await engine.count("history") == len(done.skips) == 1
        assert await engine.count("executions", "cause = 'catch_up'") == 1

    play(url, NOON, story)


@pytest.mark.parametrize("policy", MisfirePolicy)
def test_a_hundred_thousand_missed_fire_times_are_worked_off_in_bounded_steps_without_a_pause_between(
    url: str, policy: MisfirePolicy
) -> None:
    async def story(engine: Engine) -> None:
        missed = 100_000
        await engine.define(
            schedule(cron="* * * * * *"), Policies(misfire=Misfire(policy, lookback="20h", max=1000))
        )
        await engine.time.advance_to(NOON + missed * SECOND + MINUTE)
        for steps in count(1):  # noqa: B007 - counted up to the break
            before = await engine.count("history")
            report = await engine.planner.run_once(engine.time.now())
            assert await engine.count("history") <= before + 2, "a step leaves a row per reason"
            if report.again_at != AGAIN_NOW:
                break
        # What later ones may push out is looked at twice.
        assert steps <= missed // (DEFAULT_LIMIT - 1000) + 2
        row = await engine.database.one("SELECT sum(fire_count)::integer AS skipped FROM history")
        late = await engine.count("executions", "cause = 'catch_up'")
        assert late == {"fire_once": 1, "fire_all": 1000, "skip": 0}[policy]
        assert row["skipped"] + late == missed - 1
        assert await engine.count("executions", "cause = 'schedule'") == 60 + 31

    play(url, NOON, story)


def test_a_herd_that_was_down_for_hours_fires_once_each_while_live_fires_keep_their_time(url: str) -> None:
    call = 2 * SECOND

    async def story(engine: Engine) -> None:
        engine.calls.lasts = lambda _: call
        for _ in range(JOBS):
            await engine.define(schedule(cron="* * * * *"), queue="herd")
        await engine.run_until(NOON + 20 * SECOND)
        await engine.crash()
        back = NOON + 3 * HOUR + 2 * SECOND
        await engine.time.advance_to(back)
        await engine.start()
        for _ in range(10):
            await engine.define(schedule(every="1s"), queue="live")
        await engine.run_until(back + 40 * SECOND)
        late = await engine.database.fetch("SELECT job_id, fire_at FROM history WHERE cause = 'catch_up'")
        assert len(late) == len({row["job_id"] for row in late}) == JOBS
        assert {row["fire_at"] for row in late} == {NOON + 3 * HOUR - MINUTE}, "the latest that was missed"
        lags = await engine.database.fetch(
            "SELECT extract(epoch FROM max(started_at - due_at))::float8 AS lag, count(*) AS n FROM history"
            " WHERE queue = 'live'"
        )
        assert lags[0]["n"] > 300
        assert lags[0]["lag"] <= call / SECOND, "at worst a live fire waits for one call to end"

    play(url, NOON, story, concurrency=100)
