"""Executions of a job that must not overlap: one at a time over the whole fleet, whatever happens to their
workers.

The rush lets several workers on connections of their own fight over the same jobs, while claims are lost,
attempts fail and clients cancel. The schema itself refuses a second running execution of a job; the rest is
read from history afterwards.
"""

import asyncio
import os
import random
import secrets
from collections.abc import Awaitable, Callable, Iterator
from itertools import pairwise

import msgspec
import pytest

from tests.simulation.outage_haste import HastyClock
from tests.support.overlap import HASTE, SOLO, Life, Place, opened_place, passed, run_quietly, take, tell
from tests.support.postgres import Cluster
from tests.support.queues import WholeQueue
from tocsin.db.pool import Database
from tocsin.domain.errors import Conflict, NotFound, Unavailable
from tocsin.domain.ids import ExecutionKey
from tocsin.domain.instant import HOUR, MINUTE, SECOND
from tocsin.domain.outcome import Attempt, Verdict
from tocsin.failpoints import Failpoints
from tocsin.queue.allotment import NO_DEFICITS, allot
from tocsin.queue.claims import Again, Claim, Finish
from tocsin.scheduler.leaser import Leases
from tocsin.scheduler.reclaimer import Reclaimer
from tocsin.store.executions import ExecutionStore, hold_executions
from tocsin.store.statements import sql
from tocsin.telemetry import Telemetry

SCALE = float(os.environ.get("TOCSIN_OVERLAP_SCALE", "1"))
WORKERS = 4
JOBS_PER_POLICY = round(12 * SCALE)
FIRES_PER_JOB = 50
PATIENCE = 60 + 60 * SCALE


@pytest.fixture(scope="module")
def url(cluster: Cluster) -> Iterator[str]:
    url = cluster.new_database()
    yield url
    cluster.drop(url)


def test_in_a_rush_of_workers_no_two_executions_of_a_job_run_at_once_and_each_policy_keeps_its_word(
    url: str,
) -> None:
    async def rush() -> None:
        async with opened_place(url, HASTE) as place:
            jobs = {policy: await place.define(policy, JOBS_PER_POLICY) for policy in SOLO}
            for job_id in (job_id for of_policy in jobs.values() for job_id in of_policy):
                await place.fire(job_id, place.clock.now() + 5 * SECOND, FIRES_PER_JOB, SECOND)
            await Rush(place, seed=7).until_nothing_is_left()
            for policy, of_policy in jobs.items():
                for job_id in of_policy:
                    check_job(policy, await place.history(job_id), FIRES_PER_JOB)
            assert place.errors == []

    run_quietly(rush())


@pytest.mark.parametrize(
    ("policy", "running", "waiting", "ended"),
    [
        ("skip", [0], [], {1: "overlap", 2: "overlap", 3: "overlap", 4: "overlap"}),
        ("queue", [0], [1, 2, 3, 4], {}),
        ("collapse", [0], [4], {1: "overlap", 2: "overlap", 3: "overlap"}),
    ],
)
def test_behind_one_that_runs_skip_keeps_none_queue_keeps_all_and_collapse_keeps_the_latest(
    url: str, policy: str, running: list[int], waiting: list[int], ended: dict[int, str]
) -> None:
    async def story(place: Place) -> None:
        (job_id,) = await place.define(policy)
        fires = await place.fire(job_id, place.clock.now() - 5 * SECOND, 5)
        workers = [await place.worker(number) for number in range(1, 4)]
        for worker in workers:
            await place.start_what_is_ready(worker)
        live = {fires.index(row["fire_at"]): row["started_at"] for row in await place.live(job_id)}
        assert [place for place, started in live.items() if started is not None] == running
        assert [place for place, started in live.items() if started is None] == waiting
        assert {fires.index(life.fire_at): life.reason for life in await place.history(job_id)} == ended

    tell(url, story)


def test_of_several_that_are_due_at_once_replace_runs_the_newest_and_never_starts_the_others(
    url: str,
) -> None:
    async def story(place: Place) -> None:
        (job_id,) = await place.define("replace")
        fires = await place.fire(job_id, place.clock.now() - 3 * SECOND, 3)
        one, other = await place.worker(1), await place.worker(2)
        early, late = await take(place, one, 1), await take(place, other, 9)
        started = await one.starting.start_gated(early, place.clock.now())
        started += await other.starting.start_gated(late, place.clock.now())
        # Whichever asked first may have begun; it then has been asked to stop.
        for claim in [claim for claim in started if claim.fire_at != fires[2]]:
            assert (await one.claiming.extend([claim]))[1] == [claim]
            await one.settling.finish([Finish(claim, "cancelled", place.clock.now())])
        started += await place.start_what_is_ready(other)
        assert fires[2] in {claim.fire_at for claim in started}
        assert fires[1] not in {claim.fire_at for claim in started}
        ended = {life.fire_at: life.reason for life in await place.history(job_id)}
        assert ended == dict.fromkeys(fires[:2], "replaced by a newer execution")

    tell(url, story)


@pytest.mark.parametrize("claimed_ahead", [False, True])
def test_replace_calls_off_an_older_execution_that_waits_for_its_next_attempt(
    url: str, claimed_ahead: bool
) -> None:
    async def story(place: Place) -> None:
        (job_id,) = await place.define("replace")
        older, newer = await place.fire(job_id, place.clock.now() - 2 * SECOND, 2)
        worker = await place.worker(1)
        await place.hold_back(job_id, newer)
        (running,) = await place.start_what_is_ready(worker)
        assert running.fire_at == older
        await place.fail(worker, running, again_in=30 * MINUTE)
        if claimed_ahead:
            assert len(await take(place, worker, 1, ahead=HOUR)) == 1
        await place.let_go(job_id, newer)
        (started,) = await place.start_what_is_ready(worker)
        assert started.fire_at == newer
        (ended,) = await place.history(job_id)
        assert (ended.fire_at, ended.state, ended.reason) == (
            older,
            "cancelled",
            "replaced by a newer execution",
        )

    tell(url, story)


def test_under_replace_an_older_execution_never_stops_a_newer_one(url: str) -> None:
    async def story(place: Place) -> None:
        (job_id,) = await place.define("replace")
        older, newer = await place.fire(job_id, place.clock.now() - 2 * SECOND, 2)
        worker = await place.worker(1)
        await place.hold_back(job_id, older)
        (running,) = await place.start_what_is_ready(worker)
        assert running.fire_at == newer
        await place.let_go(job_id, older)
        assert await place.start_what_is_ready(worker) == []
        assert (await worker.claiming.extend([running]))[1] == []
        await worker.settling.finish([Finish(running, "succeeded", place.clock.now())])
        (after,) = await place.start_what_is_ready(worker)
        assert after.fire_at == older

    tell(url, story)


def test_the_claim_starts_what_is_alone_and_leaves_the_rest_to_the_gate(url: str) -> None:
    async def story(place: Place) -> None:
        alone, pair = await place.define("queue", 2)
        now = place.clock.now()
        [only] = await place.fire(alone, now - SECOND)
        first, second = await place.fire(pair, now - 2 * SECOND, 2)
        worker = await place.worker(1)
        claims = {claim.key: claim for claim in await take(place, worker, 10)}
        assert claims[alone, only].started_at is not None
        assert claims[pair, first].started_at is None
        assert claims[pair, second].started_at is None
        turns = await place.database.fetch("SELECT job_id, fire_at FROM executions WHERE has_turn")
        assert [(row["job_id"], row["fire_at"]) for row in turns] == [(alone, only)]
        [begun] = await worker.starting.start_gated(
            [claims[pair, first], claims[pair, second]], place.clock.now()
        )
        assert begun.fire_at == first

    tell(url, story)


@pytest.mark.parametrize("way", ["succeed", "finish"])
def test_an_end_waits_for_who_keeps_the_turn_before_it_touches_the_execution(url: str, way: str) -> None:
    async def story(place: Place) -> None:
        (job_id,) = await place.define("skip")
        [fire_at] = await place.fire(job_id, place.clock.now() - SECOND)
        worker = await place.worker(1)
        [running] = await place.start_what_is_ready(worker)
        end = {
            "succeed": lambda: worker.settling.succeed([running], place.clock.now()),
            "finish": lambda: worker.settling.finish([Finish(running, "dead", place.clock.now())]),
        }[way]
        async with place.database.transaction() as cancelling:
            await hold_executions(cancelling, [job_id])
            ending = asyncio.create_task(end())
            await until_somebody_waits(place.database)
            asked = await cancelling.fetch(sql("ask_to_stop"), 0, job_id, fire_at, "no more")
            assert len(asked) == 1, "it ended before the turn was free"
        assert await ending == []

    tell(url, story)


async def until_somebody_waits(database: Database) -> None:
    waiting = "SELECT EXISTS (SELECT FROM pg_locks WHERE NOT granted) AS waiting"
    while not (await database.one(waiting))["waiting"]:
        await asyncio.sleep(0.01)


def test_queue_keeps_the_order_although_another_worker_has_claimed_the_earlier_one(url: str) -> None:
    async def story(place: Place) -> None:
        (job_id,) = await place.define("queue")
        first, second = await place.fire(job_id, place.clock.now() - 2 * SECOND, 2)
        one, other = await place.worker(1), await place.worker(2)
        (early,) = await take(place, one, 1)
        (late,) = await take(place, other, 1)
        assert (early.fire_at, late.fire_at) == (first, second)
        assert await other.starting.start_gated([late], place.clock.now()) == []
        assert [claim.fire_at for claim in await one.starting.start_gated([early], place.clock.now())] == [
            first
        ]
        await one.settling.finish([Finish(early, "succeeded", place.clock.now())])
        assert [claim.fire_at for claim in await place.start_what_is_ready(other)] == [second]

    tell(url, story)


def test_a_worker_that_was_held_up_does_not_take_the_turn_from_one_that_began_meanwhile(url: str) -> None:
    async def story(place: Place) -> None:
        (job_id,) = await place.define("skip")
        await place.fire(job_id, place.clock.now() - SECOND)
        one, other = await place.worker(1), await place.worker(2)
        claims = await take(place, one, 1)
        async with place.database.transaction() as session:
            await session.fetch("SELECT FROM executions WHERE job_id = $1 FOR UPDATE", job_id)
            asking = asyncio.create_task(one.starting.start_gated(claims, place.clock.now()))
            await place.until(lambda: place.waiting_for_locks(1))
            await place.fire(job_id, place.clock.now())
            began = asyncio.create_task(place.start_what_is_ready(other))
            await place.until(lambda: place.waiting_for_locks(2, or_done=began))
        started = [claim.fire_at for claim in (*await asking, *await began)]
        running = [row["fire_at"] for row in await place.live(job_id) if row["started_at"] is not None]
        assert running == started, "what runs is what was allowed to"
        assert len(running) == 1

    tell(url, story)


def test_a_turn_left_behind_by_a_cancelled_execution_is_free_for_the_next(url: str) -> None:
    async def story(place: Place) -> None:
        (job_id,) = await place.define("queue")
        first, second = await place.fire(job_id, place.clock.now() - 2 * SECOND, 2)
        worker = await place.worker(1)
        (running,) = await place.start_what_is_ready(worker)
        await place.fail(worker, running, again_in=HOUR)
        store = ExecutionStore(place.database)
        cancelled = await store.cancel(1, ExecutionKey(job_id, first), "no more")
        assert (cancelled.answer, cancelled.row["state"]) == ("cancel_requested", "cancelled")
        (after,) = await place.start_what_is_ready(worker, patience=MINUTE)
        assert after.fire_at == second

    tell(url, story)


@pytest.mark.parametrize("policy", SOLO)
def test_an_execution_that_comes_back_for_another_attempt_still_has_the_turn(url: str, policy: str) -> None:
    async def story(place: Place) -> None:
        (job_id,) = await place.define(policy)
        older, newer = await place.fire(job_id, place.clock.now() - 2 * SECOND, 2)
        worker = await place.worker(1)
        await place.hold_back(job_id, older)
        (running,) = await place.start_what_is_ready(worker)
        assert running.fire_at == newer
        await place.fail(worker, running, again_in=0)
        await place.let_go(
            job_id, older
        )  # an older one is there too, for example because somebody revived it
        (again,) = await place.start_what_is_ready(worker)
        assert (again.fire_at, again.attempt) == (newer, 2)

    tell(url, story)


@pytest.mark.parametrize("policy", SOLO)
def test_an_execution_whose_worker_was_lost_keeps_the_turn_until_it_is_over(url: str, policy: str) -> None:
    async def story(place: Place) -> None:
        (job_id,) = await place.define(policy)
        first, second = await place.fire(job_id, place.clock.now() - 2 * SECOND, 2)
        await place.hold_back(job_id, second)
        lost, other = await place.worker(1, claim_ttl=0.5), await place.worker(2)
        (running,) = await place.start_what_is_ready(lost)
        await place.until(lambda: place.clock.now() > running.deadline_at)
        reclaimer = reclaimer_over(other, place.clock)
        assert (await reclaimer.run_once(place.clock.now())).done == 1
        (again,) = await place.start_what_is_ready(other)
        assert (again.fire_at, again.attempt) == (first, 2)
        await place.let_go(job_id, second)
        assert await place.start_what_is_ready(other) == []
        assert await lost.settling.finish([Finish(running, "succeeded", place.clock.now())]) == [running]
        running_now = [row for row in await place.live(job_id) if row["started_at"] is not None]
        assert [row["fire_at"] for row in running_now] == [first], (
            "a late word of a lost worker frees nothing"
        )

    tell(url, story)


def reclaimer_over(queue: WholeQueue, clock: HastyClock) -> Reclaimer:
    leases = Leases(clock, 1e9)
    leases.renewed({0: 1}, clock.monotonic())
    return Reclaimer(queue.reclaiming, queue.healing, leases, Telemetry(), Failpoints(), claim_ttl=10)


def check_job(policy: str, lives: list[Life], fires: int) -> None:
    """What a policy promises about all executions of one job. `lives` come in the order of fire times."""
    assert len(lives) == fires, "each fire time ends as one row"
    assert len({life.fire_at for life in lives}) == fires
    ran = sorted(
        (life for life in lives if life.started_at is not None), key=lambda life: life.started_at or 0
    )
    for one, next_one in pairwise(ran):
        assert (next_one.started_at or 0) >= one.finished_at, f"{policy}: {one} and {next_one} overlap"
    skipped = [life for life in lives if life.state == "skipped"]
    assert all(life.reason == "overlap" for life in skipped)
    match policy:
        case "queue":
            assert not skipped
            assert [life.fire_at for life in ran] == sorted(life.fire_at for life in ran), (
                "queue keeps the order"
            )
        case "collapse":
            assert lives[-1].state != "skipped", "the latest is never the one that gives way"
        case "replace":
            assert not skipped


class Rush:
    """Workers that claim, start, run, fail, forget and finish; a reclaimer; clients that cancel."""

    def __init__(self, place: Place, seed: int) -> None:
        self._place = place
        self._clock = place.clock
        self._rng = random.Random(seed)
        self._over = asyncio.Event()

    async def until_nothing_is_left(self) -> None:
        async with asyncio.TaskGroup() as tasks:
            for number in range(1, WORKERS + 1):
                tasks.create_task(self._often(self._working(await self._place.worker(number), tasks)))
            tasks.create_task(self._often(self._reclaiming(await self._place.worker(99))))
            tasks.create_task(self._often(self._cancelling()))
            try:
                async with asyncio.timeout(PATIENCE):
                    while await self._place.database.fetchrow("SELECT FROM executions LIMIT 1") is not None:
                        await asyncio.sleep(0.05)
            except TimeoutError:
                rows = await self._place.database.fetch("SELECT * FROM executions LIMIT 3")
                raise AssertionError(f"somebody waits for ever: {rows}") from None
            finally:
                self._over.set()

    async def _often(self, step: Callable[[], Awaitable[bool]]) -> None:
        """Repeat a step, as the shared loop does: trouble with the database is waited out and counted."""
        while not self._over.is_set():
            try:
                busy = await step()
            except Unavailable as error:
                busy = "deadlock" in str(error)
            except Exception as error:  # the test tells of it
                self._place.errors.append(repr(error))
                self._over.set()
                raise
            await asyncio.sleep(0 if busy else 0.005)

    def _working(self, queue: WholeQueue, tasks: asyncio.TaskGroup) -> Callable[[], Awaitable[bool]]:
        async def step() -> bool:
            now = self._clock.now()
            ready = [view for view in await queue.looking.look(now) if view.next_run_at <= now]
            if not ready:
                return False
            claims = await queue.claiming.claim(
                allot(NO_DEFICITS, ready, self._rng.choice((3, 20, 60)))[0], now, secrets.randbits(62), now
            )
            if claims and self._rng.random() < 0.05:
                return True  # the worker dies with what it has claimed
            for claim in await passed(queue, claims, self._clock.now()):
                tasks.create_task(self._often_once(queue, claim))
            return True

        return step

    async def _often_once(self, queue: WholeQueue, claim: Claim) -> None:
        """One attempt, to its end: a call that is repeated until the database has answered."""
        chance = self._rng.random()
        stop = await self._call(queue, claim)
        if stop == "lost" or chance < 0.06:
            return  # nobody hears of this attempt again
        while True:
            try:
                await self._settle(queue, claim, failed=chance < 0.2, stopped=stop == "cancelled")
            except Unavailable:
                continue
            return

    async def _call(self, queue: WholeQueue, claim: Claim) -> str:
        for _ in range(self._rng.choice((1, 1, 2, 6))):
            await asyncio.sleep(self._rng.uniform(0.001, 0.03))
            try:
                lost, cancelled = await queue.claiming.extend([claim])
            except Unavailable:
                continue
            if lost or cancelled:
                return "lost" if lost else "cancelled"
        return "over"

    async def _settle(self, queue: WholeQueue, claim: Claim, *, failed: bool, stopped: bool) -> None:
        now = self._clock.now()
        if stopped:
            await queue.settling.finish([Finish(claim, "cancelled", now)])
        elif failed and claim.attempt < 3:
            record = Attempt(claim.attempt, Verdict.FAILED, claim.started_at, now)
            ended = Finish(claim, "cancelled", now)
            again = Again(claim, now + SECOND, msgspec.json.encode(record).decode(), ended)
            if await queue.settling.retry([again]):
                await queue.settling.finish([ended])
        else:
            await queue.settling.finish([Finish(claim, "dead" if failed else "succeeded", now)])

    def _reclaiming(self, queue: WholeQueue) -> Callable[[], Awaitable[bool]]:
        reclaimer = reclaimer_over(queue, self._clock)

        async def step() -> bool:
            return bool((await reclaimer.run_once(self._clock.now())).done)

        return step

    def _cancelling(self) -> Callable[[], Awaitable[bool]]:
        store = ExecutionStore(self._place.database)

        async def step() -> bool:
            rows = await self._place.database.fetch(
                "SELECT job_id, fire_at FROM executions WHERE due_at <= tocsin_now() ORDER BY random() LIMIT 1"
            )
            for row in rows:
                try:
                    await store.cancel(1, ExecutionKey(row["job_id"], row["fire_at"]), "a client")
                except (Conflict, NotFound):
                    continue
            await asyncio.sleep(0.02)
            return True

        return step
