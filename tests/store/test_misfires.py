"""Deciding about missed executions: once for each job, whoever asks, and together with whatever else was
missed."""

import asyncio
from uuid import UUID

import pytest

from tests.simulation.workshop import SHARDS, TENANT, Workshop, play
from tocsin.domain.instant import HOUR, MINUTE, SECOND, Instant
from tocsin.domain.job import Definition
from tocsin.domain.policy import Misfire, MisfirePolicy, Overlap, Policies
from tocsin.domain.schedule import Schedule
from tocsin.domain.target import NoopTarget
from tocsin.failpoints import Failpoints
from tocsin.scheduler.leaser import Leases
from tocsin.scheduler.planner import Planner
from tocsin.store.control.changing import Changing
from tocsin.store.misfires import Decided, MisfireStore
from tocsin.telemetry import Telemetry

GAP = 30 * SECOND


def planner(shop: Workshop, node: int, held: dict[int, int]) -> Planner:
    leases = Leases(shop.time.clock, 3600)
    leases.renewed(held, shop.time.clock.monotonic())
    return Planner(
        shop.planner(node), leases, horizon=45.0, wake_within=2.0, telemetry=Telemetry(), failpoints=Failpoints()
    )  # fmt: skip


async def plan_for(shop: Workshop, minutes: int) -> None:
    """Schedulers work and workers do not."""
    await shop.plain.execute("UPDATE shards SET owner = NULL, expires_at = '-infinity'")
    node = await shop.leases.register("node", ("scheduler",), "test")
    held = await shop.leases.take(node, SHARDS)
    for _ in range(2 * minutes):
        await shop.plain.execute("UPDATE shards SET expires_at = tocsin_now() + interval '1 hour'")
        await planner(shop, node, held).run_once(shop.time.now())
        await shop.time.advance(30 * SECOND)
    await planner(shop, node, held).run_once(shop.time.now())


async def states(shop: Workshop, job_id: UUID) -> list[tuple[Instant, str]]:
    """Each fire time that was missed, and what became of it."""
    rows = await shop.plain.fetch(
        "SELECT fire_at, reason AS state FROM history WHERE job_id = $1"
        " UNION ALL SELECT fire_at, cause FROM executions WHERE job_id = $1 AND due_at <= tocsin_now() ORDER BY 1",
        job_id,
    )
    return [(row["fire_at"], row["state"]) for row in rows]


def test_many_workers_that_decide_at_once_decide_each_job_once(url: str) -> None:
    async def story(shop: Workshop) -> None:
        jobs = [await shop.recurring(GAP, Policies(misfire=Misfire(grace=1))) for _ in range(20)]
        await plan_for(shop, 4)
        asked, now = [(TENANT, job) for job in jobs], shop.time.now()
        done: list[Decided] = []
        while sum(one.late for one in done) < len(jobs):
            stores = [MisfireStore(shop.database) for _ in range(4)]
            done += await asyncio.gather(*(store.decide(asked, now) for store in stores))
        assert sum(one.late for one in done) == len(jobs)
        for job in jobs:
            missed = [state for at, state in await states(shop, job) if at < now - SECOND]
            assert missed[-1] == "catch_up"
            assert set(missed[:-1]) == {"misfire_superseded"}

    play(url, story)


def test_a_job_that_the_planner_is_behind_with_is_left_to_it_and_it_takes_along_what_was_planned(
    url: str,
) -> None:
    async def story(shop: Workshop) -> None:
        job = await shop.recurring(GAP)
        await plan_for(shop, 1)
        planned = await shop.count("executions")
        await shop.time.advance(20 * MINUTE)
        decided = await MisfireStore(shop.database).decide([(TENANT, job)], shop.time.now())
        assert decided.behind == {job}
        assert await shop.count("executions") == planned
        await plan_for(shop, 0)
        late = [at for at, state in await states(shop, job) if state == "catch_up"]
        assert len(late) == 1
        assert shop.time.now() - 2 * MINUTE < late[0] < shop.time.now() - MINUTE
        row = await shop.plain.one(
            "SELECT sum(fire_count)::integer AS skipped, min(fire_at) AS first FROM history"
        )
        assert row["skipped"] == (late[0] - row["first"]) // GAP, "each of them once"
        assert not await shop.plain.fetch("SELECT FROM executions WHERE missed_after < tocsin_now()")

    play(url, story)


def test_a_job_that_somebody_has_locked_is_not_waited_for(url: str) -> None:
    async def story(shop: Workshop) -> None:
        job = await shop.recurring(GAP, Policies(misfire=Misfire(grace=1)))
        await plan_for(shop, 2)
        async with shop.plain.transaction() as session:
            await session.execute("SELECT FROM jobs FOR UPDATE")
            decided = await MisfireStore(shop.database).decide([(TENANT, job)], shop.time.now())
        assert decided == Decided()

    play(url, story)


def test_what_a_vanished_worker_held_is_decided_though_it_is_given_back_at_that_moment(url: str) -> None:
    async def story(shop: Workshop) -> None:
        job = await shop.recurring(GAP, Policies(misfire=Misfire(grace=1)))
        await plan_for(shop, 2)
        node = await shop.leases.register("worker", ("worker",), "test")
        assert await shop.claim(shop.worker(node))
        now = shop.time.now()
        async with shop.plain.transaction() as session:
            await session.execute(
                "UPDATE executions SET claim_token = NULL, node_id = NULL, deadline_at = NULL"
            )
            deciding = asyncio.create_task(MisfireStore(shop.database).decide([(TENANT, job)], now))
            while not await shop.plain.fetch("SELECT FROM pg_locks WHERE NOT granted"):
                assert not deciding.done(), "the decision did not meet what is given back"
        decided = await deciding
        missed = [state for at, state in await states(shop, job) if at < now - SECOND]
        assert missed == ["misfire_superseded"] * decided.dropped + ["catch_up"]
        assert decided.dropped > 0

    play(url, story)


def test_what_waited_behind_one_that_is_dropped_has_its_turn(url: str) -> None:
    async def story(shop: Workshop) -> None:
        policies = Policies(misfire=Misfire(MisfirePolicy.SKIP, grace=40), overlap=Overlap.QUEUE)
        job = await shop.recurring(GAP, policies)
        await plan_for(shop, 2)
        node = await shop.leases.register("worker", ("worker",), "test")
        worker, now = shop.worker(node), shop.time.now()
        claims = await shop.claim(worker)
        assert not [claim for claim in claims if claim.started_at is not None]
        live = [claim for claim in claims if claim.missed_after >= now and claim.run_at <= now]  # type: ignore[operator]
        assert live
        assert await worker.starting.start_gated(live, now) == [], "an earlier one has not started"
        parked = await shop.plain.one("SELECT min(run_at) AS run_at FROM executions WHERE waits_for = 'turn'")
        assert parked["run_at"] > now
        assert (await MisfireStore(shop.database).decide([(TENANT, job)], now)).dropped
        woken = await shop.plain.one("SELECT min(run_at) AS run_at FROM executions WHERE waits_for = 'turn'")
        assert woken["run_at"] == now

    play(url, story)


@pytest.mark.parametrize("policy", MisfirePolicy)
def test_a_change_of_the_schedule_decides_what_the_old_one_has_missed_planned_or_not(
    url: str, policy: MisfirePolicy
) -> None:
    async def story(shop: Workshop) -> None:
        policies = Policies(misfire=Misfire(policy))
        job = await shop.recurring(GAP, policies)
        await plan_for(shop, 1)
        await shop.time.advance(10 * MINUTE)
        now = shop.time.now()
        definition = Definition(Schedule(every=HOUR / SECOND), NoopTarget(), policies=policies)
        await Changing(shop.plain, 45.0).update(TENANT, job, definition, now, version=None)
        late = [at for at, state in await states(shop, job) if state == "catch_up"]
        missed = list(range(late[0], now - MINUTE, GAP)) if late else []
        assert (
            len(late)
            == {MisfirePolicy.SKIP: 0, MisfirePolicy.FIRE_ONCE: 1, MisfirePolicy.FIRE_ALL: len(missed)}[
                policy
            ]
        )
        assert not await shop.plain.fetch("SELECT FROM executions WHERE missed_after < tocsin_now()")

    play(url, story)
