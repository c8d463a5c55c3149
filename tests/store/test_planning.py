"""Plans, fact by fact: written under a lease that is held, from the cursor that was read, or not at all."""

import asyncio
from uuid import UUID

import msgspec
import pytest

from tests.simulation.workshop import LEASE_TTL, SHARDS, TENANT, Workshop, play
from tocsin.domain.errors import OwnershipLost
from tocsin.domain.ids import ExecutionKey
from tocsin.domain.instant import MINUTE, SECOND, Instant
from tocsin.domain.lifecycle import CancelResult
from tocsin.domain.planning import Plan, plan, terms_of
from tocsin.domain.policy import Misfire, MisfirePolicy, Policies
from tocsin.domain.schedule import rule_of
from tocsin.failpoints import Failpoints
from tocsin.scheduler.leaser import Leases
from tocsin.scheduler.planner import Planner
from tocsin.store.plans import DueJob, PlanStore, Written
from tocsin.telemetry import Telemetry

TTL = round(LEASE_TTL * SECOND)
HORIZON = 30 * SECOND
FIRE_ALL = Policies(misfire=Misfire(MisfirePolicy.FIRE_ALL))


async def lease_all(shop: Workshop) -> tuple[int, dict[int, int]]:
    """A node that holds every shard."""
    node = await shop.leases.register("node", ("scheduler",), "test")
    return node, await shop.leases.take(node, SHARDS)


async def decide(shop: Workshop, node: int) -> list[tuple[DueJob, Plan]]:
    """What a planner would write now."""
    now = shop.time.now()
    due = await shop.planner(node).due(range(SHARDS), now + HORIZON, 100)
    return [
        (
            job,
            plan(
                rule_of(job.schedule),
                job.cursor,
                terms_of(job.schedule, job.policies, job.id, job.fire_count),
                now=now,
                until=now + HORIZON,
            ),
        )
        for job in due
    ]


async def job_row(shop: Workshop, job_id: UUID):
    return await shop.plain.one(
        "SELECT next_fire_at, fire_count, state, version FROM jobs WHERE id = $1", job_id
    )


async def fires(shop: Workshop, job_id: UUID) -> list[Instant]:
    rows = await shop.plain.fetch("SELECT fire_at FROM executions WHERE job_id = $1 ORDER BY fire_at", job_id)
    return [row["fire_at"] for row in rows]


def test_jobs_that_are_late_come_last_and_only_if_they_are_asked_for(url: str) -> None:
    async def story(shop: Workshop) -> None:
        node, _ = await lease_all(shop)
        late = await shop.recurring(MINUTE)
        await shop.time.advance(10 * MINUTE)
        timely = await shop.recurring(10 * SECOND)
        now = shop.time.now()
        planner = shop.planner(node)
        found = await planner.due(range(SHARDS), now + HORIZON, 100, now - MINUTE)
        assert [job.id for job in found] == [timely, late]
        found = await planner.due(range(SHARDS), now + HORIZON, 100, now - MINUTE, late=False)
        assert [job.id for job in found] == [timely]

    play(url, story)


def test_a_plan_under_a_held_lease_moves_the_cursor_and_makes_the_executions(url: str) -> None:
    async def story(shop: Workshop) -> None:
        job_id = await shop.recurring(10 * SECOND)
        node, leases = await lease_all(shop)
        plans = await decide(shop, node)
        written = await shop.planner(node).write(leases, plans, wake=False)
        assert written == Written(own=1, moved=1, planned=3)
        start = shop.time.now()
        assert await fires(shop, job_id) == [start + n * 10 * SECOND for n in (1, 2, 3)]
        row = await job_row(shop, job_id)
        assert (row["next_fire_at"], row["fire_count"]) == (start + 40 * SECOND, 3)

    play(url, story)


@pytest.mark.parametrize("stale", ["epoch", "owner", "expired"])
def test_a_plan_under_a_lease_that_passed_on_writes_nothing(url: str, stale: str) -> None:
    async def story(shop: Workshop) -> None:
        job_id = await shop.recurring(10 * SECOND)
        node, leases = await lease_all(shop)
        plans = await decide(shop, node)
        before = await job_row(shop, job_id)
        await shop.time.advance(TTL)
        if stale == "owner":
            await lease_all(shop)
        elif stale == "epoch":
            assert await shop.leases.take(node, SHARDS) != leases  # its own again, but another term
        written = await shop.planner(node).write(leases, plans, wake=True)
        assert written == Written(own=0, moved=0, planned=0)
        assert await job_row(shop, job_id) == before
        assert await fires(shop, job_id) == []

    play(url, story)


def test_of_a_plan_over_several_shards_only_the_held_ones_take_effect(url: str) -> None:
    async def story(shop: Workshop) -> None:
        jobs = [await shop.recurring(10 * SECOND) for _ in range(12)]
        node, leases = await lease_all(shop)
        plans = await decide(shop, node)
        lost = {job.shard for job, _ in plans[:6]}
        await shop.leases.give(node, list(lost))
        written = await shop.planner(node).write(leases, plans, wake=False)
        assert written.own == len({job.shard for job, _ in plans} - lost)
        for job, _ in plans:
            assert bool(await fires(shop, job.id)) == (job.shard not in lost)
        assert len(jobs) == len(plans)

    play(url, story)


def test_a_plan_from_an_old_cursor_writes_nothing(url: str) -> None:
    async def story(shop: Workshop) -> None:
        job_id = await shop.recurring(10 * SECOND)
        node, leases = await lease_all(shop)
        plans = await decide(shop, node)
        store = shop.planner(node)
        await store.write(leases, plans, wake=False)
        worker = shop.worker(node)
        await shop.time.advance(30 * SECOND)
        claims = await shop.claim(worker)
        assert await worker.settling.succeed(claims, shop.time.now()) == []
        leases = await shop.leases.take(node, SHARDS)
        before = await job_row(shop, job_id)
        assert await store.write(leases, plans, wake=False) == Written(own=1, moved=0, planned=0)
        assert await job_row(shop, job_id) == before
        assert await fires(shop, job_id) == []

    play(url, story)


def test_two_planners_with_the_same_plan_write_it_once(url: str) -> None:
    async def story(shop: Workshop) -> None:
        job_id = await shop.recurring(10 * SECOND)
        node, leases = await lease_all(shop)
        plans = await decide(shop, node)
        both = (shop.planner(node).write(leases, plans, wake=False) for _ in range(2))
        written = await asyncio.gather(*both)
        assert sorted(w.moved for w in written) == [0, 1]
        assert len(await fires(shop, job_id)) == 3

    play(url, story)


@pytest.mark.parametrize("change", ["pause", "cancel", "pause and resume"])
def test_a_plan_of_a_job_that_changed_meanwhile_writes_nothing_of_it(url: str, change: str) -> None:
    async def story(shop: Workshop) -> None:
        job_id = await shop.recurring(40 * SECOND)
        other = await shop.recurring(20 * SECOND)
        node, leases = await lease_all(shop)
        plans = await decide(shop, node)
        if change == "cancel":
            await shop.cancelling.cancel(TENANT, job_id, "enough")
        else:
            await shop.pausing.pause(TENANT, job_id, "a break")
        if change == "pause and resume":
            await shop.pausing.resume(TENANT, job_id, shop.time.now())
        before, planned = await job_row(shop, job_id), await fires(shop, job_id)
        written = await shop.planner(node).write(leases, plans, wake=False)
        assert written.moved == 1
        assert await job_row(shop, job_id) == before
        assert await fires(shop, job_id) == planned
        assert await fires(shop, other)

    play(url, story)


def test_an_uncommitted_takeover_is_waited_for_and_then_refuses_the_plan(url: str) -> None:
    async def story(shop: Workshop) -> None:
        job_id = await shop.recurring(10 * SECOND)
        node, leases = await lease_all(shop)
        other = await shop.leases.register("other", ("scheduler",), "test")
        plans = await decide(shop, node)
        async with shop.plain.transaction() as session:
            await session.execute("UPDATE shards SET owner = $1, epoch = epoch + 1", other)
            writing = asyncio.create_task(shop.planner(node).write(leases, plans, wake=False))
            while not await _lock_waiters(session):
                await asyncio.sleep(0)
            assert not writing.done()
        assert await writing == Written(own=0, moved=0, planned=0)
        assert await fires(shop, job_id) == []

    play(url, story)


async def _lock_waiters(session) -> int:
    row = await session.fetchrow(
        "SELECT count(*) AS n FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()"
    )
    return int(row["n"])


def planner(shop: Workshop, node: int, leases: dict[int, int]) -> tuple[Planner, Leases, Telemetry]:
    held, telemetry = Leases(shop.time.clock, 10_000.0), Telemetry()
    held.renewed(leases, shop.time.clock.monotonic())
    part = Planner(
        PlanStore(shop.database, node),
        held,
        horizon=HORIZON / SECOND,
        wake_within=2.0,
        telemetry=telemetry,
        failpoints=Failpoints(),
    )
    return part, held, telemetry


def test_a_planner_whose_leases_passed_on_is_refused_counted_and_drops_its_memory(url: str) -> None:
    async def story(shop: Workshop) -> None:
        job_id = await shop.recurring(10 * SECOND)
        node, leases = await lease_all(shop)
        part, held, telemetry = planner(shop, node, leases)
        await shop.time.advance(TTL)
        with pytest.raises(OwnershipLost):
            await part.run_once(shop.time.now())
        assert held.trusted() == {}
        assert telemetry.stale_writes.labels("plan")._value.get() == 1
        assert await fires(shop, job_id) == []
        assert (await part.run_once(shop.time.now())).done == 0

    play(url, story)


def test_fires_that_a_cursor_set_back_plans_again_are_rejected_and_counted(url: str) -> None:
    async def story(shop: Workshop) -> None:
        node, leases = await lease_all(shop)
        job_id = await shop.recurring(10 * SECOND)
        part, _, telemetry = planner(shop, node, leases)
        cursor = (await job_row(shop, job_id))["next_fire_at"]
        await part.run_once(shop.time.now())
        planned = await fires(shop, job_id)
        await shop.plain.execute("UPDATE jobs SET next_fire_at = $1 WHERE id = $2", cursor, job_id)
        await part.run_once(shop.time.now())
        assert await fires(shop, job_id) == planned
        assert telemetry.duplicates_rejected._value.get() == len(planned) > 0
        assert telemetry.planned._value.get() == len(planned)

    play(url, story)


def test_a_planner_without_leases_asks_nothing(url: str) -> None:
    async def story(shop: Workshop) -> None:
        await shop.recurring(10 * SECOND)
        part, _, _ = planner(shop, 1, {})
        assert (await part.run_once(shop.time.now())).done == 0
        assert await shop.count("executions") == 0

    play(url, story)


def test_a_long_outage_is_caught_up_by_policy_without_losing_or_doubling_a_fire_time(url: str) -> None:
    async def story(shop: Workshop) -> None:
        ends = "2030-07-01T01:00:00Z"
        every = {policy: Policies(misfire=Misfire(policy, max=1000)) for policy in MisfirePolicy}
        jobs = {
            policy: await shop.recurring(7 * SECOND, terms, ends_at=ends) for policy, terms in every.items()
        }
        start = shop.time.now()
        await shop.time.advance(50 * MINUTE)
        node, leases = await lease_all(shop)
        part, _, _ = planner(shop, node, leases)
        await part.run_once(shop.time.now())
        times = list(range(start - start % (7 * SECOND), shop.time.now() + HORIZON + 1, 7 * SECOND))[1:]
        live_from = shop.time.now() - MINUTE
        missed = [time for time in times if time < live_from]
        for policy, job_id in jobs.items():
            kept = {MisfirePolicy.SKIP: 0, MisfirePolicy.FIRE_ONCE: 1, MisfirePolicy.FIRE_ALL: len(missed)}[
                policy
            ]
            assert await fires(shop, job_id) == times[len(missed) - kept :]
            runs = await shop.plain.fetch(
                "SELECT fire_at, fire_until, fire_count FROM history WHERE job_id = $1", job_id
            )
            assert sum(run["fire_count"] for run in runs) == len(missed) - kept
            assert (await job_row(shop, job_id))["next_fire_at"] == times[-1] + 7 * SECOND

    play(url, story)


def test_a_job_whose_schedule_is_over_is_completed_with_its_last_plan(url: str) -> None:
    async def story(shop: Workshop) -> None:
        job_id = await shop.recurring(10 * SECOND, max_fires=2)
        node, leases = await lease_all(shop)
        part, _, _ = planner(shop, node, leases)
        await part.run_once(shop.time.now())
        row = await job_row(shop, job_id)
        assert (row["state"], row["next_fire_at"], row["fire_count"]) == ("completed", None, 2)
        assert len(await fires(shop, job_id)) == 2

    play(url, story)


def test_what_was_called_off_before_a_pause_does_not_come_back_when_it_ends(url: str) -> None:
    async def story(shop: Workshop) -> None:
        job_id = await shop.recurring(10 * SECOND, FIRE_ALL)
        node, leases = await lease_all(shop)
        part, _, _ = planner(shop, node, leases)
        await part.run_once(shop.time.now())
        first, second, third = await fires(shop, job_id)
        done = await shop.executions.cancel(TENANT, ExecutionKey(job_id, second), "not this one")
        assert done.answer is CancelResult.CANCELLED
        await shop.pausing.pause(TENANT, job_id, "a break")
        assert await fires(shop, job_id) == []
        await shop.pausing.resume(TENANT, job_id, shop.time.now())
        await shop.leases.renew(node, "{}")
        await part.run_once(shop.time.now())
        assert await fires(shop, job_id) == [first, third]

    play(url, story)


def test_what_ran_while_an_earlier_fire_was_stuck_does_not_run_again_after_a_pause(url: str) -> None:
    async def story(shop: Workshop) -> None:
        job_id = await shop.recurring(10 * SECOND, FIRE_ALL)
        node, leases = await lease_all(shop)
        part, _, _ = planner(shop, node, leases)
        await part.run_once(shop.time.now())
        first, second, third = await fires(shop, job_id)
        await shop.time.advance_to(first - SECOND)
        [stuck] = await shop.claim(shop.worker(1))  # and its worker is never heard of again
        assert stuck.fire_at == first
        await shop.time.advance_to(second)
        await shop.worker(2).settling.succeed(await shop.claim(shop.worker(2)), shop.time.now())
        await shop.pausing.pause(TENANT, job_id, "a break")
        done = await shop.pausing.resume(TENANT, job_id, shop.time.now())
        assert [fire.at for fire in done.fires] == [first]
        assert (await fires(shop, job_id))[:2] == [first, third]
        rows = await shop.past(ExecutionKey(job_id, second))
        assert [row["state"] for row in rows] == ["succeeded"]

    play(url, story)


def test_fires_taken_back_by_a_pause_do_not_use_up_max_fires(url: str) -> None:
    async def story(shop: Workshop) -> None:
        job_id = await shop.recurring(10 * SECOND, FIRE_ALL, max_fires=4)
        node, leases = await lease_all(shop)
        part, _, _ = planner(shop, node, leases)
        await part.run_once(shop.time.now())
        for _ in range(3):
            assert await shop.pausing.pause(TENANT, job_id, "a break") == 3
            await shop.pausing.resume(TENANT, job_id, shop.time.now())
        row = await job_row(shop, job_id)
        assert (row["fire_count"], len(await fires(shop, job_id))) == (3, 3)
        assert msgspec.json.encode(row["state"]) == b'"active"'

    play(url, story)
