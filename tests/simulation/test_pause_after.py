"""A job is paused when so many executions in a row failed for good: not one earlier, not one later, not by
what is past."""

from collections.abc import Callable, Iterator
from uuid import UUID

import pytest

from tests.simulation.outage import TENANT, Engine, play, schedule
from tests.support.postgres import Cluster
from tocsin.domain.errors import Unavailable
from tocsin.domain.ids import ExecutionKey
from tocsin.domain.instant import DAY, HOUR, MINUTE, SECOND, parse_instant
from tocsin.domain.outcome import SUCCEEDED, Outcome, Verdict
from tocsin.domain.policy import Policies, Retry
from tocsin.queue.claims import Claim

NOON = parse_instant("2031-05-05T12:00:00Z", "")
FAILED = Outcome(Verdict.FAILED, error="the target answered 503")
THREE = Policies(retry=Retry(max_attempts=1), pause_after=3)
EVERY_TEN = schedule(every="10s")


@pytest.fixture(scope="module")
def url(cluster: Cluster) -> Iterator[str]:
    url = cluster.new_database()
    yield url
    cluster.drop(url)


def answers(text: str) -> Callable[[Claim], Outcome]:
    """``x`` fails, anything else succeeds, by the number of the fire; after the last all fail."""
    return lambda claim: (
        SUCCEEDED if text[(claim.fire_at - NOON) // (10 * SECOND) - 1 :][:1] == "." else FAILED
    )


async def state(engine: Engine, job_id: UUID) -> tuple[str, str | None]:
    row = await engine.jobs.get(TENANT, job_id)
    return row["state"], row["state_reason"]


@pytest.mark.parametrize(("said", "calls"), [("xxx", 3), ("xx.xx.xxx", 9), (".xxx", 4)])
def test_three_in_a_row_pause_the_job_with_the_reason(url: str, said: str, calls: int) -> None:
    async def story(engine: Engine) -> None:
        engine.calls.answer = answers(said)
        job_id = await engine.define(EVERY_TEN, THREE)
        await engine.run_until(NOON + 5 * MINUTE)
        assert len(engine.calls.made) == calls
        assert await state(engine, job_id) == (
            "paused",
            "3 executions in a row failed: the target answered 503",
        )
        assert await engine.count("executions") == 0
        (entry,) = await engine.database.fetch("SELECT actor, action FROM audit WHERE action = 'job.pause'")
        assert tuple(entry) == ("system", "job.pause")

    play(url, NOON, story)


def test_after_a_resumption_the_count_begins_anew(url: str) -> None:
    async def story(engine: Engine) -> None:
        engine.calls.answer = answers("")
        job_id = await engine.define(EVERY_TEN, THREE)
        await engine.run_until(NOON + MINUTE)
        engine.calls.made.clear()
        await engine.pausing.resume(TENANT, job_id, engine.time.now())
        await engine.run_until(NOON + 10 * MINUTE)
        assert len(engine.calls.made) == 3
        assert (await state(engine, job_id))[0] == "paused"

    play(url, NOON, story)


def test_deaths_that_are_written_together_count_together(url: str) -> None:
    async def story(engine: Engine) -> None:
        engine.calls.answer = answers("")
        engine.calls.lasts = lambda claim: NOON + MINUTE - claim.fire_at  # all end at the same instant
        job_id = await engine.define(schedule(every="10s", max_fires=3), THREE)
        await engine.run_until(NOON + 2 * MINUTE)
        assert await engine.count("history", "state = 'dead'") == 3
        assert (await state(engine, job_id))[0] in ("paused", "completed")

        other = await engine.define(EVERY_TEN, THREE)
        await engine.run_until(engine.time.now() + 5 * MINUTE)
        assert (await state(engine, other))[0] == "paused"

    play(url, NOON, story)


def test_attempts_are_not_counted_and_a_job_without_the_policy_goes_on(url: str) -> None:
    async def story(engine: Engine) -> None:
        engine.calls.answer = answers("")
        retried = Policies(retry=Retry(3, "1s", "1s", jitter=0), pause_after=2)
        job_id = await engine.define(EVERY_TEN, retried)
        plain = await engine.define(EVERY_TEN, Policies(retry=Retry(max_attempts=1)))
        await engine.run_until(NOON + 2 * MINUTE)
        assert await engine.count("history", "state = 'dead' AND job_id = $1", job_id) == 2
        assert sum(made[0] == job_id for made in engine.calls.made) == 6
        assert (await state(engine, plain))[0] == "active"

    play(url, NOON, story)


def test_a_claim_that_was_lost_and_a_job_that_changed_meanwhile_pause_nothing(url: str) -> None:
    async def story(engine: Engine) -> None:
        job_id = await engine.define(EVERY_TEN, Policies(pause_after=1))
        engine.away = {"claimer"}
        await engine.run_until(NOON + 15 * SECOND)
        await engine.database.execute(
            "UPDATE executions SET claim_token = 7, node_id = 1, deadline_at = 'infinity' WHERE fire_at = $1",
            NOON + 10 * SECOND,
        )
        key, version = (
            ExecutionKey(job_id, NOON + 10 * SECOND),
            (await engine.jobs.get(TENANT, job_id))["version"],
        )
        pause = engine.pausing.pause_failing
        assert not await pause(TENANT, key, 8, version, 1, "lost")
        assert not await pause(TENANT, key, 7, version - 1, 1, "changed")
        assert not await pause(TENANT, key, 7, version, 0, "not yet")
        assert (await state(engine, job_id))[0] == "active"
        assert await pause(TENANT, key, 7, version, 1, "now")
        assert not await pause(TENANT, key, 7, version, 1, "again")

    play(url, NOON, story)


def test_a_success_that_comes_first_saves_the_job_and_skips_do_not_count(url: str) -> None:
    async def story(engine: Engine) -> None:
        engine.calls.answer = answers("xx")
        job_id = await engine.define(EVERY_TEN, THREE)
        await engine.run_until(NOON + 25 * SECOND)
        await engine.firing.skip_next(TENANT, job_id)
        engine.calls.answer = lambda _: SUCCEEDED
        await engine.firing.run(TENANT, job_id, engine.time.now())
        await engine.settle()
        engine.calls.answer = answers("")
        await engine.run_until(NOON + 55 * SECOND)
        assert (await state(engine, job_id))[0] == "active"
        await engine.run_until(NOON + 65 * SECOND)
        assert (await state(engine, job_id))[0] == "paused"

    play(url, NOON, story)


def test_executions_whose_worker_was_lost_count_too(url: str) -> None:
    async def story(engine: Engine) -> None:
        engine.calls.lasts = lambda _: DAY
        engine.away = {"heartbeat"}
        job_id = await engine.define(schedule(every="1h"), THREE)
        await engine.run_until(NOON + 3 * HOUR + 29 * MINUTE)
        assert await engine.count("history", "state = 'dead'") == 2
        assert (await state(engine, job_id))[0] == "active"
        await engine.run_until(NOON + 6 * HOUR)
        assert await engine.count("history", "state = 'dead'") == 3
        assert await state(engine, job_id) == (
            "paused",
            "3 executions in a row failed: the worker was lost: its claim passed the deadline",
        )

    play(url, NOON, story)


def test_a_reclaimer_that_dies_before_it_pauses_leaves_that_to_the_next_failure(url: str) -> None:
    async def story(engine: Engine) -> None:
        engine.calls.lasts = lambda _: DAY
        engine.away = {"heartbeat"}
        job_id = await engine.define(schedule(every="1h"), Policies(retry=Retry(1), pause_after=1))
        pause, engine.reclaimer._pause_lost = engine.reclaimer._pause_lost, _dies
        with pytest.raises(Unavailable):
            await engine.run_until(NOON + 2 * HOUR)
        assert await engine.count("history", "state = 'dead'") == 1
        assert (await state(engine, job_id))[0] == "active"
        engine.reclaimer._pause_lost = pause
        await engine.run_until(NOON + 6 * HOUR)
        assert await engine.count("history", "state = 'dead'") == 2
        assert (await state(engine, job_id))[0] == "paused"

    play(url, NOON, story)


async def _dies(*_: object) -> bool:
    raise Unavailable("killed here")
