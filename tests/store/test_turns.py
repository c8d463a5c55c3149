"""The turn of a job that must not overlap passes on with whatever ends its holder: nothing that waits is
forgotten."""

from collections.abc import Awaitable, Callable, Iterator
from uuid import UUID

import pytest

from tests.support.limits import answers_lost
from tests.support.overlap import Place, take, tell
from tests.support.postgres import Cluster
from tests.support.queues import WholeQueue
from tocsin.domain.errors import Unavailable
from tocsin.domain.ids import ExecutionKey
from tocsin.domain.instant import HOUR, SECOND, Instant
from tocsin.queue.claims import Again, Claim, Finish, Overdue
from tocsin.store.backfills import BackfillStore
from tocsin.store.control.firing import Firing
from tocsin.store.control.pausing import Pausing
from tocsin.store.executions import ExecutionStore


@pytest.fixture(scope="module")
def url(cluster: Cluster) -> Iterator[str]:
    url = cluster.new_database()
    yield url
    cluster.drop(url)


async def one_runs_one_waits(
    place: Place, worker: WholeQueue, policy: str = "queue"
) -> tuple[Claim, Instant]:
    """Returns the claim that holds the turn, and the fire time of the execution that waits for it, asleep."""
    (job_id,) = await place.define(policy)
    first, second = await place.fire(job_id, place.clock.now() - 2 * SECOND, 2)
    [running] = await place.start_what_is_ready(worker)
    assert running.fire_at == first
    assert await place.start_what_is_ready(worker) == []
    return running, second


async def starts_next(place: Place, worker: WholeQueue) -> list[Instant]:
    return [claim.fire_at for claim in await place.start_what_is_ready(worker)]


@pytest.mark.parametrize("way", ["succeed", "finish"])
def test_a_worker_that_dies_right_after_an_end_was_committed_has_passed_the_turn_on(
    url: str, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    async def story(place: Place) -> None:
        dying, other = await place.worker(1), await place.worker(2)
        running, waiting = await one_runs_one_waits(place, dying)
        end = {
            "succeed": lambda: dying.settling.succeed([running], place.clock.now()),
            "finish": lambda: dying.settling.finish([Finish(running, "dead", place.clock.now())]),
        }[way]
        with answers_lost(dying.settling._database, monkeypatch, way, "fetchrow"), pytest.raises(Unavailable):
            await end()
        assert await starts_next(place, other) == [waiting]

    tell(url, story)


def test_an_end_passes_the_turn_to_one_that_a_worker_looks_at_in_that_moment(url: str) -> None:
    """A worker that has to let a later one wait keeps the next one from starting meanwhile."""

    async def story(place: Place) -> None:
        worker = await place.worker(1)
        running, waiting = await one_runs_one_waits(place, worker)
        async with place.database.transaction() as deciding:
            await deciding.execute("SELECT FROM executions WHERE fire_at = $1 FOR KEY SHARE", waiting)
            assert await worker.settling.succeed([running], place.clock.now()) == []
        assert await starts_next(place, worker) == [waiting]

    tell(url, story)


def test_one_that_finds_an_earlier_one_asleep_and_nobody_running_wakes_it(url: str) -> None:
    async def story(place: Place) -> None:
        (job_id,) = await place.define("queue")
        first, second = await place.fire(job_id, place.clock.now() - 2 * SECOND, 2)
        await place.database.execute(
            "UPDATE executions SET waits_for = 'turn', run_at = tocsin_now() + interval '1 hour' WHERE fire_at = $1",
            first,
        )
        worker = await place.worker(1)
        [running] = await place.start_what_is_ready(worker)
        assert running.fire_at == first
        assert await worker.settling.succeed([running], place.clock.now()) == []
        assert await starts_next(place, worker) == [second]

    tell(url, story)


def test_a_claim_ahead_of_time_does_not_sit_on_a_turn(url: str) -> None:
    async def story(place: Place) -> None:
        one, other = await place.worker(1), await place.worker(2)
        running, waiting = await one_runs_one_waits(place, one)
        [ahead] = await take(place, other, 1, ahead=HOUR)
        assert (ahead.fire_at, ahead.waits_for) == (waiting, "turn")
        assert await one.settling.succeed([running], place.clock.now()) == []
        assert await starts_next(place, one) == [waiting]
        assert await other.starting.start_gated([ahead], place.clock.now()) == [], "it runs twice"

    tell(url, story)


def test_the_end_of_a_lost_claim_passes_the_turn_on(url: str) -> None:
    async def story(place: Place) -> None:
        lost, guard = await place.worker(1, claim_ttl=1.0), await place.worker(2)
        running, waiting = await one_runs_one_waits(place, lost)
        await place.until(lambda: place.clock.now() > running.deadline_at)

        def judge(overdue: Overdue) -> Finish:
            return Finish(overdue, "dead", place.clock.now())

        assert await guard.reclaiming.reclaim(10, judge) == (0, 1)
        assert await starts_next(place, guard) == [waiting]

    tell(url, story)


async def _cancel(place: Place, key: ExecutionKey) -> None:
    await ExecutionStore(place.database).cancel(1, key, "no more")


async def _cancel_backfill(place: Place, key: ExecutionKey) -> None:
    row = await place.database.one(
        "INSERT INTO backfills (tenant_id, cell, job_id, shard, schedule, range_from, range_to, mode, direction, pace,"
        " max_parallel, total) SELECT 1, 0, id, shard, schedule, now(), now(), 'all', 'oldest_first', 1, 1, 1 FROM jobs"
        " WHERE id = $1 RETURNING id",
        key.job_id,
    )
    await place.database.execute(
        "UPDATE executions SET backfill_id = $1 WHERE job_id = $2 AND fire_at = $3", row["id"], *key
    )
    assert await BackfillStore(place.database).cancel(1, row["id"]) == 1


async def _pause(place: Place, key: ExecutionKey) -> None:
    assert await Pausing(place.database, 45).pause(1, key.job_id, None) == 1


async def _skip_next(place: Place, key: ExecutionKey) -> None:
    assert await Firing(place.database).skip_next(1, key.job_id) == key.fire_at


@pytest.mark.parametrize("remove", [_cancel, _cancel_backfill, _pause, _skip_next])
def test_calling_off_what_holds_the_turn_between_two_starts_wakes_who_waits_for_it(
    url: str, remove: Callable[[Place, ExecutionKey], Awaitable[None]]
) -> None:
    async def story(place: Place) -> None:
        worker = await place.worker(1)
        running, waiting = await one_runs_one_waits(place, worker)
        ended = Finish(running, "cancelled", place.clock.now())
        # No attempt was made: it is back as it was, and holds the turn.
        assert (
            await worker.settling.postpone([Again(running, place.clock.now() + HOUR, None, ended, "host")])
            == []
        )
        await _run_by_hand(place, running.job_id, waiting)
        await remove(place, running.key)
        assert await starts_next(place, worker) == [waiting]

    tell(url, story)


async def _run_by_hand(place: Place, job_id: UUID, fire_at: Instant) -> None:
    """So that it stays when planned fires are taken back."""
    await place.database.execute(
        "UPDATE executions SET cause = 'manual' WHERE job_id = $1 AND fire_at = $2", job_id, fire_at
    )


@pytest.mark.parametrize("remove", [_cancel, _cancel_backfill, _pause, _skip_next])
def test_calling_off_what_is_next_wakes_the_one_after_it(
    url: str, remove: Callable[[Place, ExecutionKey], Awaitable[None]]
) -> None:
    async def story(place: Place) -> None:
        worker = await place.worker(1)
        (job_id,) = await place.define("queue")
        _, second, third = await place.fire(job_id, place.clock.now() - 3 * SECOND, 3)
        [running] = await place.start_what_is_ready(worker)
        assert await worker.settling.succeed([running], place.clock.now()) == []
        await _run_by_hand(place, job_id, third)
        await remove(place, ExecutionKey(job_id, second))
        assert await starts_next(place, worker) == [third]

    tell(url, story)


@pytest.mark.parametrize("stale_first", [True, False])
def test_of_two_claims_of_one_execution_the_one_that_counts_is_started(url: str, stale_first: bool) -> None:
    """A worker may have claimed ahead what was then taken back, woken, and claimed by it again."""

    async def story(place: Place) -> None:
        worker = await place.worker(1)
        running, waiting = await one_runs_one_waits(place, worker)
        await place.fire(running.job_id, waiting + SECOND)  # so that the gate decides
        [ahead] = [claim for claim in await take(place, worker, 9, ahead=HOUR) if claim.fire_at == waiting]
        assert await worker.settling.succeed([running], place.clock.now()) == []
        [again] = await take(place, worker, 9)
        assert again.key == ahead.key
        assert again.started_at is None
        worker.starting._gate._turns._batches_to_skip = 1
        both = [ahead, again] if stale_first else [again, ahead]
        [started] = await worker.starting.start_gated(both, place.clock.now())
        assert started is again
        assert await worker.settling.succeed([started], place.clock.now()) == []

    tell(url, story)
