"""What counts as missed and what does not: a recurring fire that could not start in time, and nothing
else."""

from collections import Counter
from collections.abc import Iterator
from uuid import UUID

import pytest

from tests.simulation.outage import TENANT, Engine, play, schedule
from tests.support.postgres import Cluster
from tocsin.domain.blackout import CalendarRange
from tocsin.domain.errors import Unavailable
from tocsin.domain.instant import HOUR, MINUTE, SECOND, Instant, format_instant, parse_instant
from tocsin.domain.outcome import Outcome, Verdict
from tocsin.domain.policy import Limit, Misfire, MisfirePolicy, Overlap, Policies, Retry
from tocsin.failpoints import Failpoints
from tocsin.store import misfires
from tocsin.store.calendars import CalendarStore

NOON = parse_instant("2031-05-05T12:00:00Z", "")
UNTIL = NOON + 2 * MINUTE
SKIP = Misfire(MisfirePolicy.SKIP, grace=10)
EVERY_TEN = schedule(every="10s", ends_at=format_instant(UNTIL))
TIMES = list(range(NOON + 10 * SECOND, UNTIL + 1, 10 * SECOND))


@pytest.fixture(scope="module")
def url(cluster: Cluster) -> Iterator[str]:
    url = cluster.new_database()
    yield url
    cluster.drop(url)


async def fates(engine: Engine, job_id: UUID, times: list[Instant] = TIMES) -> Counter[str]:
    """How often each end, with its reason, came."""
    rows = await engine.ledger(job_id, times)
    return Counter(row.reason or f"{row.state}:{row.cause}" for row in rows)


async def be_away(engine: Engine, until: Instant) -> None:
    """Workers are gone for a while; planning goes on."""
    engine.away = {"claimer"}
    await engine.run_until(until)
    engine.away = set()


@pytest.mark.parametrize(
    "policies",
    [
        Policies(misfire=SKIP, overlap=Overlap.QUEUE),
        Policies(misfire=SKIP, limit=Limit("key", max_parallel=1)),
        Policies(misfire=SKIP, limit=Limit("key", rate=1, per="1m")),
    ],
    ids=["its turn", "a slot", "a rate"],
)
def test_what_waits_because_its_own_policies_ask_for_that_is_not_missed_however_long_it_takes(
    url: str, policies: Policies
) -> None:
    async def story(engine: Engine) -> None:
        engine.calls.lasts = lambda _: 45 * SECOND
        job_id = await engine.define(EVERY_TEN, policies)
        await engine.run_until_done()
        assert await fates(engine, job_id) == {"succeeded:schedule": len(TIMES)}
        waits = [row.started_at - row.due_at for row in await engine.ledger(job_id, TIMES)]  # type: ignore[operator]
        assert max(waits) > 5 * MINUTE

    play(url, NOON, story)


def test_what_waits_for_its_turn_under_collapse_is_not_missed_however_short_its_grace(url: str) -> None:
    async def story(engine: Engine) -> None:
        engine.calls.lasts = lambda _: 45 * SECOND
        misfire = Misfire(MisfirePolicy.SKIP, grace=1)
        job_id = await engine.define(EVERY_TEN, Policies(misfire=misfire, overlap=Overlap.COLLAPSE))
        await engine.run_until_done()
        ran = [row for row in await engine.ledger(job_id, TIMES) if row.state == "succeeded"]
        assert [row.started_at - NOON for row in ran] == [10 * SECOND + n * 45 * SECOND for n in range(4)]  # type: ignore[operator]
        assert await fates(engine, job_id) == {"succeeded:schedule": 4, "overlap": len(TIMES) - 4}

    play(url, NOON, story)


def test_what_a_calendar_holds_is_not_missed_while_it_does_but_afterwards_it_may_be(url: str) -> None:
    ten_minutes = schedule(
        every="10m",
        ends_at=format_instant(NOON + 50 * MINUTE),
        exclude={"calendars": ["shut"], "policy": "hold"},
    )
    times = [NOON + n * 10 * MINUTE for n in range(1, 6)]

    async def story(engine: Engine) -> None:
        shut = [(NOON + 5 * MINUTE, NOON + 19 * MINUTE), (NOON + 25 * MINUTE, NOON + 39 * MINUTE)]
        await CalendarStore(engine.database).put(
            TENANT, "shut", [CalendarRange(format_instant(start), format_instant(end)) for start, end in shut]
        )
        job_id = await engine.define(ten_minutes, Policies(misfire=SKIP))
        await engine.run_until(NOON + 38 * MINUTE)
        held = (await engine.ledger(job_id, times))[0]
        assert (held.state, held.started_at) == ("succeeded", NOON + 19 * MINUTE)
        await be_away(engine, NOON + 39 * MINUTE + 11 * SECOND)
        await engine.run_until_done()
        rows = await engine.ledger(job_id, times)
        assert [row.reason or row.state for row in rows] == [
            *("succeeded", "succeeded", "misfire_skipped", "succeeded", "succeeded")
        ]

    play(url, NOON, story)


def test_what_waited_for_its_turn_when_the_fleet_went_away_still_runs(url: str) -> None:
    async def story(engine: Engine) -> None:
        engine.calls.lasts = lambda _: 35 * SECOND
        job_id = await engine.define(EVERY_TEN, Policies(misfire=SKIP, overlap=Overlap.QUEUE))
        await engine.run_until(NOON + 31 * SECOND)  # the first runs, two wait
        await engine.crash()
        await engine.time.advance_to(NOON + HOUR)
        await engine.start()
        await engine.run_until_done()
        assert await fates(engine, job_id) == {"succeeded:schedule": 3, "misfire_skipped": len(TIMES) - 3}

    play(url, NOON, story)


def test_a_further_attempt_is_never_missed(url: str) -> None:
    async def story(engine: Engine) -> None:
        engine.calls.answer = lambda claim: Outcome(
            Verdict.SUCCEEDED if claim.attempt == 3 else Verdict.FAILED, error="not yet"
        )
        retry = Retry(initial_backoff="90s", max_backoff="90s", jitter=0)
        job_id = await engine.define(EVERY_TEN, Policies(misfire=SKIP, retry=retry))
        await engine.run_until(UNTIL)
        await be_away(engine, UNTIL + HOUR)
        await engine.run_until_done()
        assert await fates(engine, job_id) == {"succeeded:schedule": len(TIMES)}

    play(url, NOON, story)


def test_a_further_attempt_that_an_older_build_left_marked_runs_all_the_same(url: str) -> None:
    async def story(engine: Engine) -> None:
        job_id = await engine.define(EVERY_TEN, Policies(misfire=SKIP))
        await engine.run_until(NOON + 5 * SECOND)
        await engine.database.execute(
            "UPDATE executions SET attempt = 2, missed_after = tocsin_now() WHERE fire_at = $1", TIMES[0]
        )
        await engine.run_until_done()
        assert await fates(engine, job_id) == {"succeeded:schedule": len(TIMES)}

    play(url, NOON, story)


def test_one_offs_runs_by_hand_and_backfills_are_never_missed(url: str) -> None:
    async def story(engine: Engine) -> None:
        once = await engine.define(
            schedule(at=format_instant(NOON + MINUTE)), Policies(misfire=Misfire(grace=1))
        )
        hourly = await engine.define(
            schedule(every="1h", ends_at=format_instant(NOON + HOUR)), Policies(misfire=SKIP)
        )
        engine.away = {"claimer"}
        await engine.firing.run(TENANT, hourly, engine.time.now())
        await be_away(engine, NOON + 30 * MINUTE)
        await engine.run_until_done()
        rows = await engine.database.fetch("SELECT job_id, state, cause FROM history")
        assert {(row["job_id"], row["state"], row["cause"]) for row in rows} == {
            (once, "succeeded", "schedule"),
            (hourly, "succeeded", "manual"),
            (hourly, "succeeded", "schedule"),
        }

    play(url, NOON, story)


@pytest.mark.parametrize("what", ["queue", "tenant"])
def test_what_a_paused_queue_or_a_suspended_tenant_held_back_is_missed(url: str, what: str) -> None:
    pause, resume = {
        "queue": (
            "INSERT INTO queues (tenant_id, name, paused_at) VALUES (1, 'default', tocsin_now())",
            "DELETE FROM queues",
        ),
        "tenant": ("UPDATE tenants SET state = 'suspended'", "UPDATE tenants SET state = 'active'"),
    }[what]

    async def story(engine: Engine) -> None:
        job_id = await engine.define(EVERY_TEN)
        await engine.database.execute(pause)
        await engine.run_until(NOON)
        await engine.worker.claimer.run_once(engine.time.now())
        await be_away(engine, NOON + 5 * MINUTE)
        assert not (await engine.worker.claimer.run_once(engine.time.now())).done
        await engine.database.execute(resume)
        await engine.run_until_done()
        assert await fates(engine, job_id) == {"misfire_superseded": 11, "succeeded:catch_up": 1}

    play(url, NOON, story)


def test_what_runs_late_and_is_missed_again_gives_way_to_what_was_missed_after_it(url: str) -> None:
    async def story(engine: Engine) -> None:
        job_id = await engine.define(EVERY_TEN)
        await be_away(engine, NOON + 75 * SECOND)  # the first fire is missed
        engine.away = {"claimer"}
        await engine.database.execute(
            "UPDATE executions SET priority = 10, cause = 'catch_up' WHERE fire_at = $1", TIMES[0]
        )
        await be_away(engine, NOON + HOUR)
        await engine.run_until_done()
        assert await fates(engine, job_id) == {"misfire_superseded": 11, "succeeded:catch_up": 1}
        (ran,) = [row.fire_at for row in await engine.ledger(job_id, TIMES) if row.state == "succeeded"]
        assert ran == TIMES[-1]

    play(url, NOON, story)


@pytest.mark.parametrize("grace", [1, 30])
def test_catching_up_keeps_its_pace_and_is_not_too_old_for_that(url: str, grace: int) -> None:
    """Nor is what waits for its pace missed once more: its grace begins when its wait is over."""
    misfire = Misfire(MisfirePolicy.FIRE_ALL, lookback="10m", max=5, pace="5m", grace=grace)

    async def story(engine: Engine) -> None:
        job_id = await engine.define(EVERY_TEN, Policies(misfire=misfire))
        back = NOON + 5 * MINUTE
        await be_away(engine, back)
        await engine.run_until_done()
        late = [row for row in await engine.ledger(job_id, TIMES) if row.cause == "catch_up"]
        assert [row.started_at for row in late] == [back + n * 5 * MINUTE for n in range(5)]
        assert [row.fire_at for row in late] == TIMES[-5:]

    play(url, NOON, story)


def test_a_job_that_missed_more_than_one_step_holds_keeps_the_latest(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(misfires, "MOST_AT_ONCE", 4)

    async def story(engine: Engine) -> None:
        job_id = await engine.define(EVERY_TEN)
        await be_away(engine, NOON + HOUR)
        await engine.run_until_done()
        assert await fates(engine, job_id) == {"misfire_superseded": 11, "succeeded:catch_up": 1}
        (ran,) = [row.fire_at for row in await engine.ledger(job_id, TIMES) if row.state == "succeeded"]
        assert ran == TIMES[-1]

    play(url, NOON, story)


def test_what_is_dropped_does_not_count_as_a_fire(url: str) -> None:
    async def story(engine: Engine) -> None:
        written = schedule(every="10s", max_fires=5)
        job_id = await engine.define(written, Policies(misfire=SKIP))
        await engine.run_until(NOON + 15 * SECOND)
        await engine.crash()
        await engine.time.advance_to(NOON + HOUR)
        await engine.start()
        await engine.run_until_done()
        assert await engine.count("history", "job_id = $1 AND state = 'succeeded'", job_id) == 5

    play(url, NOON, story)


@pytest.mark.parametrize("point", ["misfires.before", "misfires.decided"])
def test_a_worker_that_dies_while_it_decides_changes_nothing_about_what_runs(url: str, point: str) -> None:
    async def story(engine: Engine) -> None:
        job_id = await engine.define(EVERY_TEN)
        await be_away(engine, NOON + 10 * MINUTE)
        points = Failpoints()
        points.arm(point, _fail)
        engine.worker.misfires._failpoints = points
        with pytest.raises(Unavailable):
            await engine.run_until_done()
        await engine.crash()
        await engine.start()
        await engine.run_until_done()
        assert await fates(engine, job_id) == {"misfire_superseded": 11, "succeeded:catch_up": 1}

    play(url, NOON, story)


async def _fail() -> None:
    raise Unavailable("gone")
