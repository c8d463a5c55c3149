"""Somebody takes the turn of a job after another worker has looked and found it free: one of the two runs,
the other learns of it, and whoever has to wait is not forgotten."""

import asyncio
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from typing import Any
from uuid import UUID

import pytest

from tests.support.limits import answers_lost, workers
from tests.support.overlap import HASTE, Place, take, tell
from tests.support.postgres import Cluster
from tests.support.queues import WholeQueue
from tocsin.db.pool import Session
from tocsin.db.turns import pass_turns
from tocsin.domain.errors import Unavailable
from tocsin.domain.instant import HOUR, SECOND, Instant
from tocsin.queue.claims import Again, Claim, Finish, by_job
from tocsin.queue.settling import settling


@pytest.fixture(scope="module")
def url(cluster: Cluster) -> Iterator[str]:
    url = cluster.new_database()
    yield url
    cluster.drop(url)


@asynccontextmanager
async def taken_unseen(place: Place, queue: WholeQueue, job_id: UUID, fire_at: Instant) -> AsyncIterator[Any]:
    """An execution starts in a transaction that is not committed before somebody waits for it."""
    async with place.database.transaction() as session:
        await begin(session, queue, job_id, fire_at)
        yield session
        await place.until(lambda: place.waiting_for_locks(1))


async def begin(session: Session, queue: WholeQueue, job_id: UUID, fire_at: Instant) -> None:
    """What a claim does to the row, which is locked as a claim locks it."""
    row = "WHERE job_id = $1 AND fire_at = $2"
    await session.execute(f"SELECT FROM executions {row} FOR UPDATE", job_id, fire_at)
    await session.execute(
        "UPDATE executions SET claim_token = 1, node_id = $3, deadline_at = tocsin_now() + interval '1 hour',"
        f" started_at = tocsin_now(), has_turn = true {row}",
        job_id,
        fire_at,
        queue.node_id,
    )


def claim_of(row: Any) -> Claim:
    """The claim of whoever started unseen."""
    names = [name for name in Claim.__struct_fields__ if name in dict(row)]
    known = {name: row[name] for name in names}
    return Claim(**known, target=None, policies=None, version=1, token=row["claim_token"])


async def running(place: Place, job_id: UUID) -> list[Instant]:
    return [row["fire_at"] for row in await place.live(job_id) if row["started_at"] is not None]


def test_a_claim_that_was_overtaken_is_made_again_and_leaves_the_execution_to_the_gate(url: str) -> None:
    async def story(place: Place) -> None:
        (job_id, other_job) = await place.define("queue", 2)
        now = place.clock.now()
        [due] = await place.fire(job_id, now - SECOND)
        [ahead] = await place.fire(job_id, now + HOUR)
        [elsewhere] = await place.fire(other_job, now - SECOND)
        one, other = await place.worker(1), await place.worker(2)
        async with taken_unseen(place, one, job_id, ahead):
            claiming = asyncio.create_task(take(place, other, 10))
        claims = {claim.key: claim for claim in await claiming}
        assert claims[other_job, elsewhere].started_at is not None
        assert claims[job_id, due].started_at is None
        assert await running(place, job_id) == [ahead]
        assert await other.starting.start_gated([claims[job_id, due]], place.clock.now()) == []
        [waiting, begun] = await place.live(job_id)
        assert (waiting["waits_for"], begun["turn_awaited"]) == ("turn", True)
        assert await one.settling.succeed([claim_of(begun)], place.clock.now()) == []
        assert [claim.fire_at for claim in await place.start_what_is_ready(other)] == [due]

    tell(url, story)


def test_under_queue_who_comes_after_one_that_a_claim_is_about_to_start_is_not_forgotten(url: str) -> None:
    async def story(place: Place) -> None:
        (job_id,) = await place.define("queue")
        early, late = await place.fire(job_id, place.clock.now() - 2 * SECOND, 2)
        await place.hold_back(job_id, early)
        one, other = await place.worker(1), await place.worker(2)
        other.starting._gate._turns._batches_to_skip = 1
        await place.database.execute(
            "UPDATE executions SET run_at = tocsin_now() + interval '1 hour' WHERE fire_at = $1", late
        )
        [claim] = await take(place, other, 1, ahead=2 * HOUR)
        await place.let_go(job_id, early)
        async with taken_unseen(place, one, job_id, early):
            starting = asyncio.create_task(other.starting.start_gated([claim], place.clock.now()))
        assert await starting == []
        [begun, waiting] = await place.live(job_id)
        assert (waiting["waits_for"], begun["turn_awaited"]) == ("turn", True)

    tell(url, story)


def test_when_the_answer_to_a_success_was_lost_who_waits_is_found_when_it_is_repeated(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def story(place: Place) -> None:
        (job_id,) = await place.define("queue")
        first, second = await place.fire(job_id, place.clock.now() - 2 * SECOND, 2)
        worker = await place.worker(1)
        [claim] = await place.start_what_is_ready(worker)
        assert claim.fire_at == first
        with (
            answers_lost(worker.settling._database, monkeypatch, "succeed", "fetchrow"),
            pytest.raises(Unavailable),
        ):
            await worker.settling.succeed([claim], place.clock.now())
        assert await worker.settling.succeed([claim], place.clock.now()) == []
        assert [claim.fire_at for claim in await place.start_what_is_ready(worker)] == [second]

    tell(url, story)


@pytest.mark.parametrize("way", ["extend", "retry", "postpone", "finish", "succeed"])
def test_executions_are_changed_in_the_order_of_their_jobs(url: str, way: str) -> None:
    """Whoever decides about turns does so too. In another order they would wait for each other."""

    async def story(place: Place) -> None:
        jobs = sorted(await place.define("queue", 2))
        for job_id in jobs:
            await place.fire(job_id, place.clock.now() - SECOND)
        worker = await place.worker(1)
        claims = sorted(await place.start_what_is_ready(worker), key=by_job, reverse=True)
        ended = [Finish(claim, "succeeded", place.clock.now()) for claim in claims]
        again = [Again(finish.claim, place.clock.now(), "{}", finish) for finish in ended]
        postponed = [Again(finish.claim, place.clock.now(), None, finish) for finish in ended]
        change = {
            "extend": lambda: worker.claiming.extend(claims),
            "retry": lambda: worker.settling.retry(again),
            "postpone": lambda: worker.settling.postpone(postponed),
            "finish": lambda: worker.settling.finish(ended),
            "succeed": lambda: worker.settling.succeed(claims, place.clock.now()),
        }[way]
        async with place.database.transaction() as deciding:
            for job_id in jobs:
                await deciding.execute("UPDATE executions SET turn_awaited = true WHERE job_id = $1", job_id)
                if job_id == jobs[0]:
                    changing = asyncio.create_task(change())
                    await place.until(lambda: place.waiting_for_locks(1))
        assert await changing in ([], ([], []))

    tell(url, story)


def test_turns_are_taken_in_the_order_of_their_jobs(url: str) -> None:
    async def story(place: Place) -> None:
        jobs, others = sorted(await place.define("skip", 2)), {}
        now = place.clock.now()
        for job_id in jobs:
            [others[job_id]] = await place.fire(job_id, now + HOUR)
            await place.fire(job_id, now + 20 * SECOND)
        one, other = await place.worker(1), await place.worker(2)
        claims = await take(place, other, 2, ahead=40 * SECOND)
        claims = sorted(claims, key=by_job, reverse=True)
        await place.until(lambda: place.clock.now() > now + 20 * SECOND)
        async with taken_unseen(place, one, jobs[0], others[jobs[0]]) as deciding:
            starting = asyncio.create_task(other.starting.start_gated(claims, place.clock.now()))
            await place.until(lambda: place.waiting_for_locks(1))
            await begin(deciding, one, jobs[1], others[jobs[1]])
        assert await starting == []
        for job_id in jobs:
            assert await running(place, job_id) == [others[job_id]]

    tell(url, story, HASTE)


@pytest.mark.parametrize("contested", [False, True])
@pytest.mark.parametrize("policy", ["skip", "queue", "collapse", "replace"])
def test_a_start_that_was_overtaken_is_decided_by_the_policy(url: str, policy: str, contested: bool) -> None:
    async def story(place: Place) -> None:
        (job_id,) = await place.define(policy)
        now = place.clock.now()
        older, newer = await place.fire(job_id, now - 2 * SECOND, 2)
        await place.hold_back(job_id, older)
        one, other = await place.worker(1), await place.worker(2)
        other.starting._gate._turns._batches_to_skip = int(contested)
        later = "UPDATE executions SET run_at = tocsin_now() + interval '1 hour' WHERE fire_at = $1"
        await place.database.execute(later, newer)  # so that the claim does not start it
        [claim] = await take(place, other, 1, ahead=2 * HOUR)
        async with taken_unseen(place, one, job_id, older):
            starting = asyncio.create_task(other.starting.start_gated([claim], place.clock.now()))
        assert await starting == []
        assert await running(place, job_id) == [older]
        [begun, *waiting] = await place.live(job_id)
        assert begun["cancel_requested"] == (policy == "replace")
        assert [row["waits_for"] for row in waiting] == ([] if policy == "skip" else ["turn"])
        assert await one.settling.succeed([claim_of(begun)], place.clock.now()) == []
        started = await place.start_what_is_ready(other)
        assert [claim.fire_at for claim in started] == ([] if policy == "skip" else [newer])

    tell(url, story)


def test_under_replace_an_older_one_that_began_just_when_it_should_be_called_off_is_asked_to_stop(
    url: str,
) -> None:
    async def story(place: Place) -> None:
        (job_id,) = await place.define("replace")
        older, newer = await place.fire(job_id, place.clock.now() - 2 * SECOND, 2)
        later = "UPDATE executions SET run_at = tocsin_now() + interval '1 hour' WHERE fire_at = $1"
        await place.database.execute(later, older)
        one, other = await place.worker(1), await place.worker(2)
        [claim] = await take(place, other, 1)
        assert (claim.fire_at, claim.started_at) == (newer, None)
        async with taken_unseen(place, one, job_id, older):
            starting = asyncio.create_task(other.starting.start_gated([claim], place.clock.now()))
        assert await starting == []
        [begun, waiting] = await place.live(job_id)
        assert (begun["started_at"] is None, waiting["waits_for"]) == (False, "turn")
        assert begun["cancel_requested"], "the newer one waits for as long as it likes"

    tell(url, story)


def test_slots_that_were_offered_to_a_claim_which_was_overtaken_are_still_there(url: str) -> None:
    async def story(place: Place) -> None:
        (job_id,) = await place.define("queue")
        policies = '{"limit": {"key": "k", "max_parallel": 2}, "overlap": "queue"}'
        await place.database.execute("UPDATE jobs SET policies = $1 WHERE id = $2", policies, job_id)
        [queue] = await workers(place.database, 1)
        limited = "UPDATE executions SET limit_key = 'k'"
        now = place.clock.now()
        await place.fire(job_id, now - 5 * SECOND)
        await place.database.execute(limited)
        first = await place.start_what_is_ready(queue)
        assert await queue.settling.succeed(first, place.clock.now()) == []
        assert queue.slots.has_any, "it keeps its slot for the next"
        [due] = await place.fire(job_id, now - SECOND)
        [ahead] = await place.fire(job_id, now + HOUR)
        await place.database.execute(limited)
        async with taken_unseen(place, queue, job_id, ahead):
            claiming = asyncio.create_task(take(place, queue, 10))
        [claim] = await claiming
        assert (claim.fire_at, claim.started_at) == (due, None)
        assert not queue.slots._book.has_offered
        assert await queue.starting.start_gated([claim], place.clock.now()) == []
        begun = claim_of((await place.live(job_id))[1])
        assert await queue.settling.finish([Finish(begun, "succeeded", place.clock.now())]) == []
        assert [claim.fire_at for claim in await place.start_what_is_ready(queue)] == [due]
        assert queue.slots.has_any

    tell(url, story)


def test_only_who_is_awaited_looks_for_those_who_wait(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    async def story(place: Place) -> None:
        alone, busy = await place.define("queue", 2)
        now = place.clock.now()
        await place.fire(alone, now - SECOND)
        [first] = await place.fire(busy, now - 2 * SECOND)
        worker = await place.worker(1)
        started = {claim.job_id: claim for claim in await place.start_what_is_ready(worker)}
        [second] = await place.fire(busy, now - SECOND)
        assert await place.start_what_is_ready(worker) == []
        passed: list[Any] = []

        async def noted(session: Session, cell: int, jobs: Sequence[UUID]) -> None:
            passed.extend(jobs)
            await pass_turns(session, cell, jobs)

        monkeypatch.setattr(settling, "pass_turns", noted)
        assert await worker.settling.succeed(list(started.values()), place.clock.now()) == []
        assert (started[busy].fire_at, passed) == (first, [busy])
        assert [claim.fire_at for claim in await place.start_what_is_ready(worker)] == [second]

    tell(url, story)


def test_the_schema_refuses_to_run_what_must_not_overlap_without_the_turn(url: str) -> None:
    async def story(place: Place) -> None:
        (job_id,) = await place.define("skip")
        await place.fire(job_id, place.clock.now() - SECOND)
        with pytest.raises(Exception, match="executions_turn_check"):
            await place.database.execute(
                "UPDATE executions SET claim_token = 1, node_id = 1, deadline_at = tocsin_now(), started_at = tocsin_now()"
            )

    tell(url, story)
