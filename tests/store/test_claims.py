"""Claims, fact by fact: one holder at a time, refusals as values, and no row that anybody forgets."""

import asyncio

import msgspec

from tests.simulation.workshop import CLAIM_TTL, Workshop, play
from tests.support.queues import WholeQueue, whole_queue
from tocsin.db.pool import open_database
from tocsin.domain.audit import Origin
from tocsin.domain.ids import ExecutionKey
from tocsin.domain.instant import MINUTE, SECOND
from tocsin.domain.lifecycle import CancelResult, State
from tocsin.domain.outcome import Verdict
from tocsin.domain.policy import Limit, Policies, Retry
from tocsin.domain.tenant import TenantState
from tocsin.failpoints import Failpoints
from tocsin.queue.claims import Claim, Finish, Overdue, Requeue
from tocsin.scheduler.leaser import Leases
from tocsin.scheduler.reclaimer import Reclaimer
from tocsin.store.tenants import TenantStore
from tocsin.telemetry import Telemetry

PAST_THE_DEADLINE = round(CLAIM_TTL * SECOND) + 1


def test_a_claim_of_what_is_due_starts_it_and_of_what_is_ahead_does_not(url: str) -> None:
    async def story(shop: Workshop) -> None:
        due, ahead = await shop.once(), await shop.once(SECOND)
        await shop.once(MINUTE)
        claims = {claim.key: claim for claim in await shop.claim(shop.worker(1))}
        assert set(claims) == {due, ahead}
        assert claims[due].started_at == shop.time.now()
        assert claims[ahead].started_at is None
        assert claims[ahead].deadline_at == ahead.fire_at + CLAIM_TTL * SECOND

    play(url, story)


def test_a_claim_takes_exactly_as_many_as_it_was_allotted_the_earliest_first(url: str) -> None:
    async def story(shop: Workshop) -> None:
        keys = [await shop.once(n * 1000) for n in range(10)]
        claims = await shop.claim(shop.worker(1), take=4)
        assert sorted(claim.fire_at for claim in claims) == [key.fire_at for key in keys[:4]]
        locked = await shop.plain.one("SELECT count(*) AS n FROM executions WHERE claim_token IS NOT NULL")
        assert locked["n"] == 4

    play(url, story)


def test_many_workers_at_once_never_get_the_same_execution(url: str) -> None:
    async def story(shop: Workshop) -> None:
        for _ in range(60):
            await shop.once()
        workers = [shop.worker(n) for n in range(1, 7)]
        taken: list[ExecutionKey] = []
        while batch := await asyncio.gather(*(shop.claim(worker, take=7) for worker in workers)):
            if not any(batch):
                break
            taken += [claim.key for claims in batch for claim in claims]
        assert len(taken) == len(set(taken)) == 60

    play(url, story)


def test_what_another_transaction_has_locked_is_left_out_and_not_waited_for(url: str) -> None:
    async def story(shop: Workshop) -> None:
        locked, free = await shop.once(), await shop.once(1)
        await shop.time.advance(1)
        async with shop.plain.transaction() as session:
            await session.fetchrow("SELECT 1 FROM executions WHERE fire_at = $1 FOR UPDATE", locked.fire_at)
            assert [claim.key for claim in await shop.claim(shop.worker(1))] == [free]
        assert [claim.key for claim in await shop.claim(shop.worker(2))] == [locked]

    play(url, story)


async def lose(shop: Workshop) -> tuple[ExecutionKey, Claim, Claim]:
    """A claim that was taken ahead, passed its deadline, and went to another worker."""
    key = await shop.once(SECOND)
    [lost] = await shop.claim(shop.worker(1))
    await shop.time.advance(SECOND + PAST_THE_DEADLINE)
    assert await reclaim(shop) == (1, 0)
    [held] = await shop.claim(shop.worker(2))
    assert (lost.key, held.key) == (key, key)
    return key, lost, held


async def reclaim(shop: Workshop, queue: WholeQueue | None = None) -> tuple[int, int]:
    now = shop.time.now()
    return await (queue or shop.worker(9)).reclaiming.reclaim(
        100, lambda overdue: Requeue(overdue, now, None)
    )


async def unchanged(shop: Workshop, key: ExecutionKey, before: object) -> None:
    assert await shop.live(key) == before
    assert await shop.past(key) == []


def test_a_lost_claim_starts_nothing(url: str) -> None:
    async def story(shop: Workshop) -> None:
        key, lost, _ = await lose(shop)
        before = await shop.live(key)
        assert await shop.worker(1).starting.start([lost]) == []
        await unchanged(shop, key, before)

    play(url, story)


def test_settling_after_a_reclaim_changes_nothing_and_is_reported_lost(url: str) -> None:
    async def story(shop: Workshop) -> None:
        key, lost, _ = await lose(shop)
        before = await shop.live(key)
        assert await shop.worker(1).settling.finish([shop.finish(lost)]) == [lost]
        assert await shop.worker(1).settling.succeed([lost], shop.time.now()) == [lost]
        await unchanged(shop, key, before)

    play(url, story)


def test_retrying_after_a_reclaim_changes_nothing_and_is_reported_lost(url: str) -> None:
    async def story(shop: Workshop) -> None:
        key, lost, _ = await lose(shop)
        before = await shop.live(key)
        again = shop.again(lost)
        assert await shop.worker(1).settling.retry([again]) == [again]
        assert await shop.worker(1).settling.finish([again.stopped]) == [lost]
        await unchanged(shop, key, before)

    play(url, story)


def test_extending_after_a_reclaim_changes_nothing_and_is_reported_lost(url: str) -> None:
    async def story(shop: Workshop) -> None:
        key, lost, _ = await lose(shop)
        before = await shop.live(key)
        assert await shop.worker(1).claiming.extend([lost]) == ([lost], [])
        await unchanged(shop, key, before)

    play(url, story)


def test_releasing_after_a_reclaim_changes_nothing(url: str) -> None:
    async def story(shop: Workshop) -> None:
        key, lost, _ = await lose(shop)
        before = await shop.live(key)
        assert await shop.worker(1).claiming.release([lost]) == 0
        await unchanged(shop, key, before)

    play(url, story)


def test_of_a_batch_only_the_lost_part_is_reported_lost(url: str) -> None:
    async def story(shop: Workshop) -> None:
        _, lost, held = await lose(shop)
        await shop.once()
        [mine] = await shop.claim(shop.worker(1))
        assert await shop.worker(1).settling.finish([shop.finish(lost), shop.finish(mine)]) == [lost]
        assert [row["state"] for row in await shop.past(mine.key)] == ["succeeded"]
        assert await shop.worker(2).settling.finish([shop.finish(held)]) == []

    play(url, story)


def test_settling_again_after_a_lost_answer_is_not_reported_lost_and_leaves_one_row(url: str) -> None:
    async def story(shop: Workshop) -> None:
        key = await shop.once()
        worker = shop.worker(1)
        [claim] = await shop.claim(worker)
        for _ in range(3):
            assert await worker.settling.finish([shop.finish(claim)]) == []
            assert await worker.settling.succeed([claim], shop.time.now()) == []
        assert len(await shop.past(key)) == 1

    play(url, story)


def test_a_start_waits_for_no_other_statement(url: str) -> None:
    async def story(shop: Workshop) -> None:
        await shop.once(SECOND)
        one = await open_database(url, name="one", size=1, pinned=True)
        own = await open_database(url, name="own", size=1, pinned=True)
        queue = whole_queue(one, 1, CLAIM_TTL, starts=own)
        claims = await shop.claim(queue)
        async with one.connection():
            assert await queue.starting.start([]) == []
            assert await queue.starting.start(claims) == claims
        await one.close()
        await own.close()

    play(url, story)


def test_starting_again_after_a_lost_answer_grants_the_same_start(url: str) -> None:
    async def story(shop: Workshop) -> None:
        key = await shop.once(SECOND)
        worker = shop.worker(1)
        [claim] = await shop.claim(worker)
        await shop.time.advance_to(key.fire_at)
        assert await worker.starting.start([claim]) == [claim]
        first = claim.started_at
        await shop.time.advance(SECOND)
        assert await worker.starting.start([claim]) == [claim]
        assert claim.started_at == first == key.fire_at

    play(url, story)


def test_passing_a_gate_again_after_a_lost_answer_grants_the_same_start_and_takes_no_second_slot(
    url: str,
) -> None:
    async def story(shop: Workshop) -> None:
        limit = Policies(limit=Limit("k", max_parallel=1, rate=1))
        key = await shop.once(policies=limit)
        worker = shop.worker(await shop.leases.register("node", ["worker"], "1"))
        claims = await shop.claim(worker)
        now = shop.time.now()
        assert [claim.key for claim in await worker.starting.start_gated(claims, now)] == [key]
        assert [claim.key for claim in await worker.starting.start_gated(claims, now)] == [key]
        assert await shop.count("slots WHERE node_id IS NOT NULL") == 1
        await worker.settling.finish([shop.finish(claims[0])])
        await worker.slots.give_back_all()
        assert await shop.count("slots WHERE node_id IS NOT NULL") == 0

    play(url, story)


def test_an_execution_asked_to_stop_is_told_so_by_its_heartbeat_and_never_tried_again(url: str) -> None:
    async def story(shop: Workshop) -> None:
        key = await shop.once()
        worker = shop.worker(1)
        [claim] = await shop.claim(worker)
        assert await worker.claiming.extend([claim]) == ([], [])
        assert (await shop.executions.cancel(1, key, "enough")).answer is CancelResult.REQUESTED
        assert await worker.claiming.extend([claim]) == ([], [claim])
        again = shop.again(claim)
        assert await worker.settling.retry([again]) == [again]
        assert await worker.settling.finish([again.stopped]) == []
        assert [row["state"] for row in await shop.past(key)] == ["cancelled"]

    play(url, story)


def test_an_execution_called_off_before_its_start_does_not_start(url: str) -> None:
    async def story(shop: Workshop) -> None:
        key = await shop.once(SECOND)
        worker = shop.worker(1)
        claims = await shop.claim(worker)
        assert (await shop.executions.cancel(1, key, "enough")).answer is CancelResult.CANCELLED
        await shop.time.advance(SECOND)
        assert await worker.starting.start(claims) == []
        assert await worker.claiming.extend(claims) == (claims, [])

    play(url, story)


def test_what_would_fire_past_its_latest_start_does_not_start_before_it(url: str) -> None:
    async def story(shop: Workshop) -> None:
        for seconds in (1, 3):
            await shop.once(SECOND, Policies(start_within=f"{seconds}s"))
        worker = shop.worker(1)
        first, second = sorted(await shop.claim(worker), key=lambda claim: claim.start_by or 0)
        await shop.plain.execute("UPDATE executions SET run_at = run_at + interval '2 seconds'")  # postponed
        assert await worker.starting.start([first, second]) == [second]

    play(url, story)


def test_what_is_past_its_latest_start_does_not_start(url: str) -> None:
    async def story(shop: Workshop) -> None:
        await shop.once(SECOND, Policies(start_within="2s"))
        worker = shop.worker(1)
        claims = await shop.claim(worker)
        await shop.time.advance(3 * SECOND)
        assert await worker.starting.start(claims) == []

    play(url, story)


def test_what_is_put_back_without_a_call_was_never_started(url: str) -> None:
    async def story(shop: Workshop) -> None:
        keys = [await shop.once(SECOND, Policies(start_within="2s")) for _ in range(2)]
        worker = shop.worker(1)
        agains = [
            msgspec.structs.replace(shop.again(claim), run_at=claim.run_at, record=None, waits_for=waits_for)
            for claim, waits_for in zip(await shop.claim(worker), (None, "host"), strict=True)
        ]
        assert len(await worker.starting.start([again.claim for again in agains])) == 2
        assert await worker.settling.postpone(agains) == []
        rows = [await shop.live(again.claim.key) for again in agains]
        assert [row["waits_for"] for row in rows] == [None, "host"]
        assert {(row["run_at"], row["started_at"], row["attempt"]) for row in rows} == {
            (keys[0].fire_at, None, 1)
        }
        assert {row["start_by"] for row in rows} == {keys[0].fire_at + 2 * SECOND}

    play(url, story)


def test_released_claims_are_there_for_others_at_once_and_started_ones_stay(url: str) -> None:
    async def story(shop: Workshop) -> None:
        ahead, running = await shop.once(SECOND), await shop.once()
        claims = await shop.claim(shop.worker(1))
        assert await shop.worker(1).claiming.release(claims) == 1
        assert [claim.key for claim in await shop.claim(shop.worker(2))] == [ahead]
        assert (await shop.live(running))["node_id"] == 1

    play(url, story)


def test_what_a_vanished_worker_held_for_later_goes_back_at_once_and_what_it_started_does_not(
    url: str,
) -> None:
    async def story(shop: Workshop) -> None:
        for node_id, expires_at in ((1, shop.time.now() - 1), (2, shop.time.now() + 60 * SECOND)):
            await shop.database.execute(
                "INSERT INTO nodes (id, name, roles, version, expires_at) VALUES ($1, 'n', '{worker}', '1', $2)",
                node_id,
                expires_at,
            )
        ahead, running = await shop.once(SECOND), await shop.once()
        held = await shop.claim(shop.worker(1))
        kept = await shop.once(SECOND)
        await shop.claim(shop.worker(2))
        guard = reclaimer(shop)
        await guard.run_once(shop.time.now())
        assert (await shop.live(ahead))["node_id"] == 1, "nothing is known of the fleet yet"
        guard._leases.workers = frozenset({2})
        assert (await guard.run_once(shop.time.now())).done == 1
        assert (await shop.live(ahead))["claim_token"] is None
        assert [(await shop.live(key))["node_id"] for key in (running, kept)] == [1, 2]
        await shop.time.advance(SECOND)
        assert await shop.worker(1).starting.start([claim for claim in held if claim.key == ahead]) == []
        assert [claim.key for claim in await shop.claim(shop.worker(2))] == [ahead]
        assert (await guard.run_once(shop.time.now())).done == 0

    play(url, story)


def test_what_ended_by_a_clock_that_is_behind_did_not_end_before_it_began(url: str) -> None:
    async def story(shop: Workshop) -> None:
        worker, behind = shop.worker(1), shop.time.now() - SECOND
        plain, told, solo = await shop.once(), await shop.once(), await shop.once()
        await shop.plain.execute(
            "UPDATE executions SET overlap = 'queue' WHERE job_id = $1", solo.job_id
        )  # as the planner does for recurring jobs
        claims = {claim.key: claim for claim in await shop.claim(worker)}
        await worker.settling.succeed([claims[plain]], behind)
        await worker.settling.finish([Finish(claims[told], State.DEAD, behind)])
        await worker.settling.succeed([claims[solo]], behind)
        for key in (plain, told, solo):
            [row] = await shop.past(key)
            assert row["finished_at"] == row["started_at"]

    play(url, story)


def test_a_heartbeat_keeps_a_claim_past_its_first_deadline(url: str) -> None:
    async def story(shop: Workshop) -> None:
        await shop.once()
        worker = shop.worker(1)
        [claim] = await shop.claim(worker)
        for _ in range(5):
            await shop.time.advance(8 * SECOND)
            assert await worker.claiming.extend([claim]) == ([], [])
            assert await reclaim(shop) == (0, 0)
        assert claim.deadline_at == shop.time.now() + CLAIM_TTL * SECOND

    play(url, story)


def test_nothing_is_reclaimed_before_its_deadline_and_everything_at_it(url: str) -> None:
    async def story(shop: Workshop) -> None:
        await shop.once()
        await shop.claim(shop.worker(1))
        await shop.time.advance(PAST_THE_DEADLINE - 2)
        assert await reclaim(shop) == (0, 0)
        await shop.time.advance(1)
        assert await reclaim(shop) == (1, 0)

    play(url, story)


def test_two_reclaimers_at_once_reclaim_each_claim_once(url: str) -> None:
    async def story(shop: Workshop) -> None:
        for _ in range(40):
            await shop.once()
        await shop.claim(shop.worker(1))
        await shop.time.advance(PAST_THE_DEADLINE)
        done = await asyncio.gather(*(reclaim(shop, shop.worker(n)) for n in (2, 3, 4)))
        assert sum(requeued for requeued, _ in done) == 40
        assert await shop.count("executions WHERE claim_token IS NOT NULL") == 0
        assert await shop.count("executions WHERE attempt = 1") == 40

    play(url, story)


def test_a_settlement_at_the_last_moment_waits_for_the_reclaimer_and_then_is_lost(url: str) -> None:
    async def story(shop: Workshop) -> None:
        key = await shop.once()
        worker = shop.worker(1)
        [claim] = await shop.claim(worker)
        await shop.time.advance(PAST_THE_DEADLINE)
        looking, going_on = asyncio.Event(), asyncio.Event()

        async def take_back_slowly() -> None:
            async with shop.database.transaction() as session:
                await session.fetchrow("SELECT 1 FROM executions WHERE fire_at = $1 FOR UPDATE", key.fire_at)
                looking.set()
                await going_on.wait()
                await session.execute(
                    "UPDATE executions SET claim_token = NULL, node_id = NULL, deadline_at = NULL, started_at = NULL"
                )

        taking_back = asyncio.create_task(take_back_slowly())
        await looking.wait()
        settling = asyncio.create_task(worker.settling.finish([shop.finish(claim)]))
        await somebody_waits_for_a_lock(shop)
        assert not settling.done()
        going_on.set()
        await taking_back
        assert await settling == [claim]
        assert await shop.past(key) == []

    play(url, story)


async def somebody_waits_for_a_lock(shop: Workshop) -> None:
    waiting = "pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()"
    while not await shop.count(waiting):
        pass


def reclaimer(shop: Workshop) -> Reclaimer:
    leases = Leases(shop.time.clock, 1000.0)
    leases.renewed({0: 1}, shop.time.clock.monotonic())
    return Reclaimer(
        shop.worker(9).reclaiming, shop.worker(9).healing, leases, Telemetry(), Failpoints(), claim_ttl=10
    )


def test_a_lost_attempt_is_recorded_and_tried_again_until_the_policy_ends_it(url: str) -> None:
    async def story(shop: Workshop) -> None:
        key = await shop.once(policies=Policies(Retry(max_attempts=2)))
        part = reclaimer(shop)
        for _ in range(2):
            await shop.claim(shop.worker(1))
            await shop.time.advance(PAST_THE_DEADLINE)
            assert (await part.run_once(shop.time.now())).done == 1
        [row] = await shop.past(key)
        assert (row["state"], row["attempt"]) == ("dead", 2)
        [record] = msgspec.json.decode(row["attempts"])
        assert (record["number"], record["verdict"], record["node_id"]) == (1, Verdict.LOST, 1)

    play(url, story)


def test_a_claim_that_never_started_goes_back_with_its_attempt_number(url: str) -> None:
    async def story(shop: Workshop) -> None:
        key = await shop.once(SECOND, Policies(Retry(max_attempts=1)))
        await shop.claim(shop.worker(1))
        await shop.time.advance(SECOND + PAST_THE_DEADLINE)
        await reclaimer(shop).run_once(shop.time.now())
        row = await shop.live(key)
        assert (row["attempt"], row["attempts"], row["claim_token"]) == (1, None, None)

    play(url, story)


def test_a_stop_that_was_asked_for_is_honoured_by_the_reclaimer(url: str) -> None:
    async def story(shop: Workshop) -> None:
        key = await shop.once()
        await shop.claim(shop.worker(1))
        await shop.executions.cancel(1, key, "enough")
        await shop.time.advance(PAST_THE_DEADLINE)
        await reclaimer(shop).run_once(shop.time.now())
        assert [row["state"] for row in await shop.past(key)] == ["cancelled"]

    play(url, story)


def test_only_the_holder_of_the_first_shard_reclaims(url: str) -> None:
    async def story(shop: Workshop) -> None:
        await shop.once()
        await shop.claim(shop.worker(1))
        await shop.time.advance(PAST_THE_DEADLINE)
        queue = shop.worker(9)
        idle = Reclaimer(
            queue.reclaiming,
            queue.healing,
            Leases(shop.time.clock, 10.0),
            Telemetry(),
            Failpoints(),
            claim_ttl=10,
        )
        assert (await idle.run_once(shop.time.now())).done == 0
        assert (await reclaimer(shop).run_once(shop.time.now())).done == 1

    play(url, story)


def test_the_verdict_about_an_overdue_claim_sees_what_was_claimed(url: str) -> None:
    async def story(shop: Workshop) -> None:
        key = await shop.once(policies=Policies(Retry(max_attempts=7)))
        [claim] = await shop.claim(shop.worker(3))
        await shop.time.advance(PAST_THE_DEADLINE)
        seen: list[Overdue] = []

        def judge(overdue: Overdue) -> Requeue:
            seen.append(overdue)
            return Requeue(overdue, shop.time.now(), None)

        await shop.worker(9).reclaiming.reclaim(10, judge)
        [overdue] = seen
        assert (overdue.key, overdue.token, overdue.node_id) == (key, claim.token, 3)
        assert msgspec.json.decode(overdue.policies or "", type=Policies).retry.max_attempts == 7

    play(url, story)


def test_what_was_claimed_ahead_for_a_tenant_does_not_start_once_it_is_suspended(url: str) -> None:
    async def story(shop: Workshop) -> None:
        key = await shop.once(SECOND)
        worker = shop.worker(1)
        claims = await shop.claim(worker)
        tenants = TenantStore(shop.plain)
        await tenants.set_state(
            "default", TenantState.SUSPENDED, "has not paid", Origin("key", "request", "here")
        )
        await shop.time.advance(SECOND)
        assert await worker.starting.start(claims) == []
        row = await shop.live(key)
        assert (row["claim_token"], row["started_at"]) == (None, None)

    play(url, story)
