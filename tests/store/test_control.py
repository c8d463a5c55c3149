"""What changes to a job do to its fire times: nothing is lost, nothing comes twice, the misfire policy
holds."""

from collections.abc import Iterator
from uuid import UUID

import msgspec
import pytest

from tests.simulation.outage import TARGET, TENANT, Engine, Row, play, schedule
from tests.support.postgres import Cluster
from tocsin.domain.errors import Conflict, Stale
from tocsin.domain.ids import ExecutionKey
from tocsin.domain.instant import DAY, HOUR, MINUTE, SECOND, Instant, parse_instant
from tocsin.domain.job import Definition
from tocsin.domain.outcome import Outcome, Verdict
from tocsin.domain.policy import Misfire, MisfirePolicy, Overlap, Policies, Retry
from tocsin.domain.schedule import Schedule
from tocsin.queue.claims import Claim
from tocsin.store.control.cancelling import Cancelled
from tocsin.store.executions import ExecutionStore

NOON = parse_instant("2031-05-05T12:00:00Z", "")
FIRE_ALL = Policies(misfire=Misfire(MisfirePolicy.FIRE_ALL, lookback="1d"))


@pytest.fixture(scope="module")
def url(cluster: Cluster) -> Iterator[str]:
    url = cluster.new_database()
    yield url
    cluster.drop(url)


def every(span: int, first: Instant, last: Instant) -> list[Instant]:
    return list(range(first, last + 1, span))


def told(rows: list[Row]) -> list[tuple[int, str]]:
    """Minutes after noon, and what became of that fire time."""
    return [((row.fire_at - NOON) // MINUTE, row.reason or row.state) for row in rows]


def test_a_pause_takes_back_what_was_planned_and_resuming_brings_each_fire_time_once(url: str) -> None:
    async def story(engine: Engine) -> None:
        job_id = await engine.define(schedule(every="1m", ends_at="2031-05-05T12:08:00Z"), FIRE_ALL)
        await engine.run_until(NOON + 2 * MINUTE + 40 * SECOND)  # 12:03 is planned already
        assert await engine.pausing.pause(TENANT, job_id, "a break") == 1
        await engine.run_until(NOON + 5 * MINUTE + 10 * SECOND)
        foretold = await engine.pausing.resume(TENANT, job_id, engine.time.now(), dry_run=True)
        assert await engine.count("executions") == 0
        done = await engine.pausing.resume(TENANT, job_id, engine.time.now())
        assert done == foretold
        assert [(fire.at - NOON) // MINUTE for fire in done.fires] == [3, 4, 5]
        await engine.run_until_done()
        rows = await engine.ledger(job_id, every(MINUTE, NOON, NOON + 8 * MINUTE))
        assert told(rows) == [(minute, "succeeded") for minute in range(1, 9)]
        # What fell into the last minute of the pause was not missed.
        assert [row.cause for row in rows] == ["schedule"] * 2 + ["catch_up"] * 2 + ["schedule"] * 4

    play(url, NOON, story)


def test_a_pause_with_an_end_is_over_at_that_instant(url: str) -> None:
    async def story(engine: Engine) -> None:
        end = NOON + 4 * MINUTE + 30 * SECOND
        job_id = await engine.define(schedule(every="1m", ends_at="2031-05-05T12:06:00Z"))
        await engine.run_until(NOON + 90 * SECOND)
        await engine.pausing.pause(TENANT, job_id, "until half past four", end)
        await engine.run_until_done()
        rows = await engine.ledger(job_id, every(MINUTE, NOON, NOON + 6 * MINUTE))
        assert told(rows) == [
            (1, "succeeded"), (2, "paused"), (3, "succeeded"), (4, "succeeded"), (5, "succeeded"), (6, "succeeded"),
        ]  # fmt: skip
        assert [(row.cause, row.started_at) for row in rows[2:4]] == [("catch_up", end), ("schedule", end)]

    play(url, NOON, story)


def test_pausing_again_before_what_was_missed_has_run_decides_it_only_once(url: str) -> None:
    async def story(engine: Engine) -> None:
        paced = Policies(misfire=Misfire(MisfirePolicy.FIRE_ALL, lookback="1d", pace="20s"))
        job_id = await engine.define(schedule(every="1m", ends_at="2031-05-05T12:12:00Z"), paced)
        await engine.run_until(NOON + 61 * SECOND)
        await engine.pausing.pause(TENANT, job_id, None)
        await engine.time.advance_to(NOON + 5 * MINUTE + SECOND)
        await engine.pausing.resume(TENANT, job_id, engine.time.now())
        await engine.run_until(engine.time.now() + 30 * SECOND)  # two of the three have run, the other waits
        assert await engine.pausing.pause(TENANT, job_id, None) == 2
        await engine.time.advance_to(NOON + 8 * MINUTE + SECOND)
        await engine.pausing.resume(TENANT, job_id, engine.time.now())
        await engine.run_until_done()
        rows = await engine.ledger(job_id, every(MINUTE, NOON, NOON + 12 * MINUTE))
        assert told(rows) == [(minute, "succeeded") for minute in range(1, 13)]

    play(url, NOON, story)


@pytest.mark.parametrize("policy", MisfirePolicy)
def test_a_change_after_an_outage_does_not_let_missed_fires_through(url: str, policy: MisfirePolicy) -> None:
    """The planner has not looked yet when somebody edits the job: its misfire policy holds all the same."""

    async def story(engine: Engine) -> None:
        written = schedule(every="1m", ends_at="2031-05-05T13:02:00Z")
        policies = Policies(misfire=Misfire(policy, max=2))
        job_id = await engine.define(written, policies)
        await engine.run_until(NOON + 61 * SECOND)
        await engine.time.advance_to(NOON + HOUR + SECOND)
        await update(engine, job_id, written, policies, description="edited")
        await engine.run_until_done()
        rows = await engine.ledger(job_id, every(MINUTE, NOON, NOON + 62 * MINUTE))
        late = {"fire_once": [59], "fire_all": [58, 59], "skip": []}[policy]
        ran = [minute for minute, what in told(rows) if what == "succeeded"]
        assert ran == [1, *late, 60, 61, 62]
        assert len(rows) == 62

    play(url, NOON, story)


@pytest.mark.parametrize("paused", [False, True])
def test_a_new_schedule_leaves_no_fire_time_of_the_old_one_unaccounted_for(url: str, paused: bool) -> None:
    async def story(engine: Engine) -> None:
        job_id = await engine.define(schedule(every="1m"), Policies(misfire=Misfire(MisfirePolicy.FIRE_ONCE)))
        await engine.run_until(NOON + 61 * SECOND)
        if paused:
            await engine.pausing.pause(TENANT, job_id, None)
        await engine.time.advance_to(NOON + 10 * MINUTE + SECOND)
        await update(engine, job_id, schedule(every="7m", ends_at="2031-05-05T12:30:00Z"), Policies())
        if paused:
            await engine.run_until(NOON + 15 * MINUTE)
            await engine.pausing.resume(TENANT, job_id, engine.time.now())
        await engine.run_until_done()
        seven = [time for time in range(0, NOON + 30 * MINUTE + 1, 7 * MINUTE) if time > NOON + 10 * MINUTE]
        rows = await engine.ledger(job_id, [*every(MINUTE, NOON, NOON + 10 * MINUTE), *seven])
        old = [what for minute, what in told(rows) if minute <= 10]
        if paused:
            assert old == ["succeeded"] + ["paused"] * 9
        else:  # 12:10 was a second ago: it fires, and 12:09 is the latest that was missed
            assert old == ["succeeded"] + ["misfire_superseded"] * 7 + ["succeeded"] * 2
        assert [row.fire_at for row in rows if row.fire_at > NOON + 10 * MINUTE] == seven

    play(url, NOON, story)


def test_what_was_planned_by_the_old_schedule_and_is_still_to_come_gives_way_to_the_new_one(url: str) -> None:
    async def story(engine: Engine) -> None:
        job_id = await engine.define(schedule(every="10s"))
        await engine.run_until(NOON + 5 * SECOND)
        assert await engine.count("executions") == 3
        await update(engine, job_id, schedule(every="15s", ends_at="2031-05-05T12:01:00Z"), Policies())
        await engine.run_until_done()
        times = [NOON + second * SECOND for second in (15, 30, 45, 60)]
        assert [row.fire_at for row in await engine.ledger(job_id, times)] == times
        job = await engine.jobs.get(TENANT, job_id)
        assert job["fire_count"] == 4

    play(url, NOON, story)


def test_of_two_changes_to_one_version_the_second_is_refused_and_changes_nothing(url: str) -> None:
    async def story(engine: Engine) -> None:
        job_id = await engine.define(schedule(every="1h"))
        version = (await engine.jobs.get(TENANT, job_id))["version"]
        await update(engine, job_id, schedule(every="2h"), Policies(), version=version)
        with pytest.raises(Stale):
            await update(engine, job_id, schedule(every="3h"), Policies(), version=version)
        job = await engine.jobs.get(TENANT, job_id)
        assert msgspec.json.decode(job["schedule"])["every"] == "2h"
        assert job["version"] == version + 1

    play(url, NOON, story)


@pytest.mark.parametrize("planned", [False, True])
def test_skip_next_leaves_out_exactly_the_next_fire(url: str, planned: bool) -> None:
    async def story(engine: Engine) -> None:
        job_id = await engine.define(schedule(every="1m", ends_at="2031-05-05T12:04:00Z"))
        await engine.run_until(NOON + (100 if planned else 65) * SECOND)
        assert await engine.firing.skip_next(TENANT, job_id) == NOON + 2 * MINUTE
        await engine.run_until_done()
        rows = await engine.ledger(job_id, every(MINUTE, NOON, NOON + 4 * MINUTE))
        assert told(rows) == [(1, "succeeded"), (2, "skip_next"), (3, "succeeded"), (4, "succeeded")]

    play(url, NOON, story)


@pytest.mark.parametrize("seconds", [1, 97])
def test_a_pause_after_a_change_of_schedule_brings_back_no_time_that_neither_schedule_named(
    url: str, seconds: int
) -> None:
    """Fires of the old schedule still wait for their turn when the job, which has a new one by now, is
    paused."""

    async def story(engine: Engine) -> None:
        engine.calls.lasts = lambda claim: 5 * MINUTE if claim.fire_at == NOON + MINUTE else 0
        misfire = Misfire(MisfirePolicy.FIRE_ALL, lookback="1d", max=1000)
        policies = Policies(overlap=Overlap.QUEUE, misfire=misfire)
        job_id = await engine.define(schedule(every="1m"), policies)
        await engine.run_until(NOON + 3 * MINUTE + 30 * SECOND)  # 12:01 runs, 12:02 and 12:03 wait
        changed, end = engine.time.now(), NOON + 8 * MINUTE
        written = schedule(every=f"{seconds}s", ends_at="2031-05-05T12:08:00Z")
        await update(engine, job_id, written, policies)
        await engine.run_until(changed + 10 * SECOND)
        await engine.pausing.pause(TENANT, job_id, None)
        await engine.run_until(changed + 20 * SECOND)
        await engine.pausing.resume(TENANT, job_id, engine.time.now())
        await engine.run_until_done()
        span = seconds * SECOND
        named = [NOON + minute * MINUTE for minute in (1, 2, 3)] + [
            time for time in every(span, NOON - NOON % span, end) if time > changed
        ]
        rows = await engine.ledger(job_id, named)
        assert [row.fire_at for row in rows] == named
        assert told(rows)[:3] == [(1, "succeeded"), (2, "paused"), (3, "paused")]

    play(url, NOON, story)


def test_a_fire_that_was_skipped_long_ahead_stays_skipped_when_the_schedule_changes(url: str) -> None:
    async def story(engine: Engine) -> None:
        end = "2031-05-05T16:00:00Z"
        job_id = await engine.define(schedule(every="2h", ends_at=end))
        await engine.run_until(NOON + MINUTE)
        assert await engine.firing.skip_next(TENANT, job_id) == NOON + 2 * HOUR
        await update(engine, job_id, schedule(every="1h", ends_at=end), Policies())
        await engine.run_until_done()
        rows = await engine.ledger(job_id, every(HOUR, NOON, NOON + 4 * HOUR))
        assert [(minute // 60, what) for minute, what in told(rows)] == [
            (1, "succeeded"), (2, "skip_next"), (3, "succeeded"), (4, "succeeded"),
        ]  # fmt: skip

    play(url, NOON, story)


def test_cancelling_a_job_whose_last_fire_is_planned_already_still_stops_that_fire(url: str) -> None:
    async def story(engine: Engine) -> None:
        job_id = await engine.define(schedule(every="1m", max_fires=1))
        await engine.run_until(NOON + 40 * SECOND)
        assert await engine.cancelling.cancel(TENANT, job_id, "changed our minds") == Cancelled(1, 0)
        await engine.run_until(NOON + 2 * MINUTE)
        assert engine.calls.made == []
        with pytest.raises(Conflict):
            await engine.cancelling.cancel(TENANT, job_id, "again")

    play(url, NOON, story)


def test_running_by_hand_waits_for_its_turn_unless_told_to_run_beside(url: str) -> None:
    async def story(engine: Engine) -> None:
        engine.calls.lasts = lambda _: 10 * MINUTE
        job_id = await engine.define(schedule(every="1h"), Policies(overlap=Overlap.QUEUE))
        first = await engine.firing.run(TENANT, job_id, engine.time.now())
        await engine.settle()
        second = await engine.firing.run(TENANT, job_id, engine.time.now() + SECOND)
        beside = await engine.firing.run(TENANT, job_id, engine.time.now() + 2 * SECOND, beside=True)
        await engine.run_until(NOON + MINUTE)
        assert [made[1] for made in engine.calls.made] == [first.fire_at, beside.fire_at]
        await engine.run_until(NOON + 11 * MINUTE)
        assert [made[1] for made in engine.calls.made] == [first.fire_at, beside.fire_at, second.fire_at]

    play(url, NOON, story)


def test_max_fires_counts_what_fired_and_not_what_was_taken_back(url: str) -> None:
    async def story(engine: Engine) -> None:
        job_id = await engine.define(schedule(every="20s", max_fires=5), FIRE_ALL)
        for _ in range(3):  # each pause takes back what is planned within the horizon
            await engine.run_until(engine.time.now() + 25 * SECOND)
            await engine.pausing.pause(TENANT, job_id, None)
            await engine.pausing.resume(TENANT, job_id, engine.time.now())
        await engine.run_until_done()
        rows = await engine.ledger(job_id, every(20 * SECOND, NOON, NOON + 10 * MINUTE))
        assert [row.fire_at for row in rows] == [NOON + place * 20 * SECOND for place in range(1, 6)]
        assert {row.state for row in rows} == {"succeeded"}
        job = await engine.jobs.get(TENANT, job_id)
        assert (job["state"], job["fire_count"]) == ("completed", 5)

    play(url, NOON, story)


def test_deleting_a_job_stops_what_runs_and_keeps_its_history(url: str) -> None:
    async def story(engine: Engine) -> None:
        engine.calls.lasts = lambda claim: HOUR if claim.fire_at > NOON + MINUTE else 0
        job_id = await engine.define(schedule(every="1m"))
        await engine.run_until(NOON + 2 * MINUTE + 40 * SECOND)
        assert await engine.cancelling.delete(TENANT, job_id) == Cancelled(1, 1)
        await engine.settle()
        rows = await engine.ledger(job_id, [])
        assert told(rows) == [(1, "succeeded"), (2, "job deleted"), (3, "job deleted")]
        assert [row.state for row in rows] == ["succeeded", "cancelled", "cancelled"]

    play(url, NOON, story)


def test_a_cancelled_execution_that_is_retried_runs_under_its_old_identity(url: str) -> None:
    async def story(engine: Engine) -> None:
        def answer(claim: Claim) -> Outcome:
            return Outcome(Verdict.FAILED, "no") if claim.attempt == 1 else Outcome(Verdict.SUCCEEDED)

        engine.calls.answer = answer
        policies = Policies(Retry(max_attempts=1))
        job_id = await engine.define(schedule(at="2031-05-05T12:00:10Z"), policies)
        await engine.run_until(NOON + MINUTE)
        key = ExecutionKey(job_id, NOON + 10 * SECOND)
        await ExecutionStore(engine.database).retry(TENANT, key)
        await engine.run_until(NOON + 2 * MINUTE)
        (row,) = await engine.ledger(job_id, [])
        assert (row.fire_at, row.state, row.attempt) == (key.fire_at, "succeeded", 2)

    play(url, NOON, story)


@pytest.mark.parametrize("cron", ["* * * * *", "0 * * * *"])
def test_a_month_of_pause_is_foretold_whole_and_recorded_as_paused(url: str, cron: str) -> None:
    async def story(engine: Engine) -> None:
        job_id = await engine.define(schedule(cron=cron, ends_at="2031-06-04T13:00:00Z"))
        await engine.pausing.pause(TENANT, job_id, "a long holiday")
        await engine.time.advance_to(NOON + 30 * DAY + 30 * SECOND)
        missed = 30 * (24 * 60 if cron == "* * * * *" else 24)
        done = await engine.pausing.resume(TENANT, job_id, engine.time.now())
        # The last one is within its grace; the one before, if it is not too old, is the latest that was
        # missed.
        run = [NOON + 30 * DAY - MINUTE, NOON + 30 * DAY] if cron == "* * * * *" else [NOON + 30 * DAY]
        assert [fire.at for fire in done.fires] == run
        assert sum(skip.count for skip in done.skips) == missed - len(run)
        await engine.run_until_done()
        reasons = await engine.database.fetch(
            "SELECT reason, sum(fire_count) AS n FROM history GROUP BY 1 ORDER BY 1"
        )
        assert reasons[0]["reason"] == "paused"
        assert reasons[0]["n"] == missed - len(run)
        assert await engine.count("history", "state = 'skipped'") == 1

    play(url, NOON, story)


async def update(
    engine: Engine,
    job_id: UUID,
    written: Schedule,
    policies: Policies,
    version: int | None = None,
    **fields: str,
) -> None:
    definition = Definition(written, TARGET, policies=policies, **fields)  # type: ignore[arg-type]
    await engine.changing.update(TENANT, job_id, definition, engine.time.now(), version=version)
