"""All statements take executions in one order, whatever order they are given: what holds a job's turn first,
by job, then the rest by job and fire time. So no two of them ever wait for each other.

Each is stopped at the second of three rows: it must have the first, and must not have touched the third.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import msgspec
import pytest

from tests.support.overlap import Place, take, tell
from tests.support.postgres import Cluster
from tests.support.queues import WholeQueue
from tocsin.domain.audit import Origin
from tocsin.domain.cells import CELL
from tocsin.domain.ids import ExecutionKey
from tocsin.domain.instant import HOUR, SECOND
from tocsin.domain.operation import Do, Of
from tocsin.failpoints import Failpoints
from tocsin.queue.claiming.holding import Beat, Holding
from tocsin.queue.claims import Again, Claim, Finish
from tocsin.store.acting import Acting
from tocsin.store.control.cancelling import Cancelling
from tocsin.store.control.firing import Firing
from tocsin.store.control.pausing import Pausing
from tocsin.store.execution_filter import ExecutionFilter
from tocsin.store.execution_listing import select_executions
from tocsin.store.executions import ExecutionStore
from tocsin.store.job_listing import JobFilter, select_jobs
from tocsin.store.operations import NewOperation, OperationStore

Change = Callable[[], Awaitable[Any]]


@pytest.fixture(scope="module")
def url(cluster: Cluster) -> Iterator[str]:
    url = cluster.new_database()
    yield url
    cluster.drop(url)


async def takes_in_order(place: Place, order: list[ExecutionKey], change: Change) -> None:
    """Stop a change at each row but the first, and look which others it has."""
    for number, stop_at in enumerate(order[1:], 1):
        async with place.database.transaction() as session:
            await session.execute(
                "SELECT FROM executions WHERE job_id = $1 AND fire_at = $2 FOR UPDATE", *stop_at
            )
            changing = asyncio.ensure_future(change())
            await place.until(lambda: place.waiting_for_locks(1))
            rows = await place.database.fetch("SELECT job_id, fire_at FROM executions FOR UPDATE SKIP LOCKED")
            free = [key for key in order if key in {(row["job_id"], row["fire_at"]) for row in rows}]
            changing.cancel()  # and what it did is undone, before it can go on
            await asyncio.gather(changing, return_exceptions=True)
            await place.until(lambda: none_waits(place))
            assert free == order[number + 1 :], f"stopped at row {number}"


async def none_waits(place: Place) -> bool:
    return not await place.waiting_for_locks(1)


def changes(place: Place, worker: WholeQueue, claims: list[Claim]) -> dict[str, Change]:
    """What workers do to claims, given in the wrong order."""
    now = place.clock.now()
    started = [msgspec.structs.replace(claim, started_at=claim.started_at or now) for claim in claims]
    ended = [Finish(claim, "succeeded", now) for claim in started]
    return {
        "start": lambda: worker.starting.start(claims),
        "release": lambda: worker.claiming.release(claims),
        "extend": lambda: worker.claiming.extend(started),
        "finish": lambda: worker.settling.finish(ended),
        "succeed": lambda: worker.settling.succeed(started, now),
        "retry": lambda: worker.settling.retry([Again(end.claim, now, "{}", end) for end in ended]),
        "postpone": lambda: worker.settling.postpone([Again(end.claim, now, None, end) for end in ended]),
        "prolong": lambda: Holding(worker.settling._database, CELL).prolong(
            [Beat(claim, SECOND) for claim in started]
        ),
    }


@pytest.mark.parametrize(
    "way", ["start", "release", "extend", "finish", "succeed", "retry", "postpone", "prolong"]
)
def test_plain_executions_are_taken_by_job_and_fire_time(url: str, way: str) -> None:
    async def story(place: Place) -> None:
        one, other = sorted(await place.define("allow", 2))
        now = place.clock.now()
        times = await place.fire(one, now + HOUR, 2)
        await place.fire(other, now + HOUR - SECOND)
        worker = await place.worker(1, claim_ttl=HOUR / SECOND)
        claims = await take(place, worker, 3, ahead=2 * HOUR)
        if way not in ("start", "release"):
            assert len(await worker.starting.start(claims)) == 3
        claims.sort(key=lambda claim: claim.key, reverse=True)
        order = [
            ExecutionKey(one, times[0]),
            ExecutionKey(one, times[1]),
            ExecutionKey(other, now + HOUR - SECOND),
        ]
        await takes_in_order(place, order, changes(place, worker, claims)[way])

    tell(url, story)


@pytest.mark.parametrize("way", ["extend", "finish", "decide", "cancel job", "cancel", "pause", "skip next"])
def test_what_holds_a_turn_is_taken_before_everything_else(url: str, way: str) -> None:
    async def story(place: Place) -> None:
        plain, solo = (*await place.define("allow"), *await place.define("queue"))
        now = place.clock.now()
        [late] = await place.fire(solo, now - SECOND)
        worker = await place.worker(1, claim_ttl=HOUR / SECOND)
        [holder] = await place.start_what_is_ready(worker)
        [early] = await place.fire(solo, now - 5 * SECOND)
        [at] = await place.fire(plain, now - 5 * SECOND)
        claims = {claim.job_id: claim for claim in await take(place, worker, 2)}
        waiting, other = claims[solo], claims[plain]
        assert (holder.fire_at, waiting.started_at, plain < solo) == (late, None, True)
        ended = [Finish(waiting, "expired", now), Finish(other, "dead", now), Finish(holder, "dead", now)]
        key = ExecutionKey(solo, early)
        change = {
            "extend": lambda: worker.claiming.extend([waiting, other, holder]),
            "finish": lambda: worker.settling.finish(ended),
            "decide": lambda: worker.starting.start_gated([waiting], place.clock.now()),
            "cancel job": lambda: Cancelling(place.database).cancel(1, solo, "no more"),
            "cancel": lambda: ExecutionStore(place.database).cancel(1, key, "no more"),
            "pause": lambda: Pausing(place.database, 45).pause(1, solo, None),
            "skip next": lambda: Firing(place.database).skip_next(1, solo),
        }[way]
        order = [ExecutionKey(solo, late), ExecutionKey(plain, at), key]
        if way not in ("extend", "finish"):
            order.remove((plain, at))
        await takes_in_order(place, order, change)

    tell(url, story)


def test_a_transaction_that_settles_several_keeps_to_the_order_too(url: str) -> None:
    async def story(place: Place) -> None:
        plain, solo = (*await place.define("allow"), *await place.define("queue"))
        now = place.clock.now()
        times = await place.fire(plain, now - 5 * SECOND, 2)
        [late] = await place.fire(solo, now - SECOND)
        worker = await place.worker(1, claim_ttl=HOUR / SECOND)
        started = await place.start_what_is_ready(worker)
        order = [ExecutionKey(solo, late), *(ExecutionKey(plain, at) for at in times)]
        assert sorted(order) == [*order[1:], order[0]]

        async def settle() -> None:
            async with place.database.transaction() as session:
                for claim in sorted(started, key=lambda claim: claim.key):
                    await session.execute("SELECT succeed($1, $2, $3)", *claim.key, claim.token)

        await takes_in_order(place, order, settle)
        await settle()
        left = "SELECT (SELECT count(*) FROM executions) + (SELECT count(*) FROM settlements) AS left"
        assert (await place.database.one(left))["left"] == 0

    tell(url, story)


@pytest.mark.parametrize(
    ("do", "of"),
    [
        (Do.CANCEL, Of.JOBS),
        (Do.CANCEL_QUEUED, Of.JOBS),
        (Do.DELETE, Of.JOBS),
        (Do.PAUSE, Of.JOBS),
        (Do.CANCEL, Of.EXECUTIONS),
    ],
)
def test_an_operation_on_many_keeps_to_the_order_too(url: str, do: Do, of: Of) -> None:
    async def story(place: Place) -> None:
        await place.database.execute("DELETE FROM executions")
        await place.database.execute("DELETE FROM jobs")
        await place.database.execute("DELETE FROM operations")
        plain, solo = (*await place.define("allow"), *await place.define("queue"))
        now = place.clock.now()
        [late] = await place.fire(solo, now - SECOND)
        worker = await place.worker(1, claim_ttl=HOUR / SECOND)
        await place.start_what_is_ready(worker)
        [early] = await place.fire(solo, now - 5 * SECOND)
        [at] = await place.fire(plain, now - 5 * SECOND)
        assert plain < solo
        chosen = select_jobs(1, JobFilter()) if of is Of.JOBS else select_executions(1, ExecutionFilter())
        new = NewOperation(
            do=do, of=of, filter={}, selection=chosen, reason=None, pace=0, steps=(), stop_at=None
        )
        await OperationStore(place.database).define(1, new, now, Origin("test"))
        acting = Acting(place.database, 45, Failpoints())
        order = [ExecutionKey(solo, late), ExecutionKey(plain, at), ExecutionKey(solo, early)]
        await takes_in_order(place, order, lambda: acting.advance(place.clock.now()))

    tell(url, story)
