"""Workers know the lanes: new ones are found by the next look, unused ones go, and nothing that is ready lies
in a lane that nobody knows."""

import asyncio
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.simulation.workshop import CLAIM_TTL, Workshop, play
from tests.support.queues import WholeQueue, queue_statement, whole_queue
from tocsin.db.pool import open_database
from tocsin.domain.cells import CELL
from tocsin.domain.ids import new_job_id
from tocsin.domain.instant import HOUR, MINUTE, SECOND
from tocsin.queue.claiming.unused_lanes import Removal, UnusedLanes
from tocsin.queue.claims import Claim
from tocsin.queue.lanes import Lane

_ENTER = """
INSERT INTO executions (cell, job_id, fire_at, tenant_id, queue, priority, due_at, run_at, route)
VALUES (0, $1, tocsin_now(), 1, $2, 5, tocsin_now(), tocsin_now(), 'noop')
"""


async def enter(session: Any, shop: Workshop, queue: str) -> None:
    """Insert an execution and nothing else, as another program or an older version may do it."""
    await session.execute(_ENTER, new_job_id(shop.time.now()), queue)


async def shown(shop: Workshop, worker: WholeQueue) -> set[str]:
    """Queues in which a look finds something."""
    return {view.lane.queue for view in await worker.looking.look(shop.time.now())}


def test_a_lane_that_is_new_is_found_by_the_next_look(url: str) -> None:
    async def story(shop: Workshop) -> None:
        worker = shop.worker(1)
        await shop.once()
        assert await shown(shop, worker) == {"default"}
        await shop.once(queue="mail")
        await enter(shop.plain, shop, "slow")
        assert await shown(shop, worker) == {"default", "mail", "slow"}

    play(url, story)


def test_a_lane_whose_transaction_is_committed_after_that_of_a_later_one_is_found_too(url: str) -> None:
    async def story(shop: Workshop) -> None:
        worker = shop.worker(1)
        await shop.once()
        async with shop.plain.transaction() as session:
            await enter(session, shop, "early")
            await shop.once(queue="late")
            assert await shown(shop, worker) == {"default", "late"}
            assert await shown(shop, worker) == {"default", "late"}
        assert await shown(shop, worker) == {"default", "late", "early"}

    play(url, story)


def test_a_look_costs_one_query_unless_a_lane_is_new(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    async def story(shop: Workshop) -> None:
        worker, queries = shop.worker(1), []
        one = shop.database.one

        async def counted(query: str, *args: object) -> Any:
            queries.append(query)
            return await one(query, *args)

        monkeypatch.setattr(shop.database, "one", counted)
        counts = []
        for queue in ("default", None, "mail", None, None):
            if queue:
                await shop.once(queue=queue)
            queries.clear()
            await worker.looking.look(shop.time.now())
            counts.append(len(queries))
        assert counts == [2, 1, 2, 1, 1]

    play(url, story)


def test_a_worker_probes_only_the_queues_that_it_serves(url: str) -> None:
    async def story(shop: Workshop) -> None:
        worker = whole_queue(shop.database, 1, CLAIM_TTL, queues=["mail"])
        await shop.once()
        await shop.once(queue="mail")
        assert await shown(shop, worker) == {"mail"}
        assert worker.looking.directory.lanes == [Lane("mail", 5, 1, "noop")]

    play(url, story)


def test_a_look_tells_what_a_tenant_weighs_of_which_nothing_is_queued(url: str) -> None:
    async def story(shop: Workshop) -> None:
        worker = shop.worker(1)
        await shop.plain.execute("UPDATE tenants SET weight = 4")
        assert await shown(shop, worker) == set()
        assert worker.looking.weights == {1: 4}

    play(url, story)


def test_the_largest_limits_that_a_tenant_may_have_stop_no_look(url: str) -> None:
    async def story(shop: Workshop) -> None:
        worker = shop.worker(1)
        await shop.once()
        largest = '{"in_flight": 10000000000, "fires_per_second": 10000000.0}'
        await shop.plain.execute("UPDATE tenants SET limits = $1", largest)
        [view] = await worker.looking.look(shop.time.now())
        assert (view.in_flight, view.fires_per_second) == (2**31 - 1, 1e7)

    play(url, story)


def test_a_look_compares_no_lane_with_another(url: str) -> None:
    async def story(shop: Workshop) -> None:
        await shop.plain.execute(
            "INSERT INTO lanes (cell, queue, priority, tenant_id, route) SELECT 0, 'q' || n, 5, 1, 'noop' FROM generate_series(1, 500) AS n"
        )
        worker = shop.worker(1)
        await worker.looking.look(shop.time.now())
        directory = worker.looking.directory
        async with shop.database.connection() as connection:
            marks = [0] * len(directory.lanes)
            text, *values = queue_statement("look").given(
                cell=0, **directory.columns, marks=marks, far=0, crowd=5, new_from=directory.new_from
            )
            rows = await connection.fetch(f"EXPLAIN (ANALYZE, FORMAT JSON) {text}", *values)
        [top] = msgspec.json.decode(rows[0][0])
        assert len(directory.lanes) == 500
        assert _rows_compared(top["Plan"]) == 0

    play(url, story)


def _rows_compared(plan: dict[str, Any]) -> int:
    removed = plan.get("Rows Removed by Join Filter", 0) * plan["Actual Loops"]
    return int(removed) + sum(map(_rows_compared, plan.get("Plans", ())))


def test_lanes_that_nothing_used_for_an_hour_go_and_those_with_something_live_stay(url: str) -> None:
    async def story(shop: Workshop) -> None:
        worker, unused = shop.worker(1), UnusedLanes(shop.database, CELL)
        done, waiting, running = ("done", "waiting", "running")
        for queue in (done, running):
            await shop.once(queue=queue)
        await shop.once(24 * HOUR, queue=waiting)
        claims = {claim.queue: claim for claim in await shop.claim(worker)}
        await worker.settling.finish([shop.finish(claims[done])])
        await shop.time.advance(59 * MINUTE)
        assert await unused.remove(10) == Removal(0, 0)
        await shop.time.advance(2 * MINUTE)
        assert await unused.remove(10) == Removal(3, 1)
        assert await unused.remove(10) == Removal(0, 0), "those that are used are not searched again at once"
        await worker.settling.retry([shop.again(claims[running], 0)])
        await shop.time.advance(SECOND)
        assert await shown(shop, shop.worker(2)) == {waiting, running}

    play(url, story)


def test_what_enters_a_lane_keeps_it(url: str) -> None:
    async def story(shop: Workshop) -> None:
        worker, unused = shop.worker(1), UnusedLanes(shop.database, CELL)
        for _ in range(5):
            await shop.once()
            await worker.settling.finish([shop.finish(claim) for claim in await shop.claim(worker)])
            await shop.time.advance(40 * MINUTE)
            assert await unused.remove(10) == Removal(0, 0)
        await shop.time.advance(21 * MINUTE)
        assert await unused.remove(10) == Removal(1, 1)

    play(url, story)


def test_a_lane_that_went_and_came_again_is_found_by_workers_that_knew_it_and_by_others(url: str) -> None:
    async def story(shop: Workshop) -> None:
        worker, unused = shop.worker(1), UnusedLanes(shop.database, CELL)
        await shop.once()
        [claim] = await shop.claim(worker)
        await worker.settling.finish([shop.finish(claim)])
        await shop.time.advance(2 * HOUR)
        assert await unused.remove(10) == Removal(1, 1)
        assert await shown(shop, worker) == set()
        assert worker.looking.directory.lanes == [], "everything is read again now and then"
        await shop.once()
        for knowing in (worker, shop.worker(2)):
            assert await shown(shop, knowing) == {"default"}

    play(url, story)


async def idle_lane(shop: Workshop) -> None:
    """A lane that nothing used for two hours."""
    worker = shop.worker(1)
    await shop.once()
    claims: list[Claim] = await shop.claim(worker)
    await worker.settling.finish([shop.finish(claim) for claim in claims])
    await shop.time.advance(2 * HOUR)


def test_a_lane_is_not_removed_while_something_enters_it(url: str) -> None:
    async def story(shop: Workshop) -> None:
        await idle_lane(shop)
        async with shop.plain.transaction() as session:
            await enter(session, shop, "default")
            assert await UnusedLanes(shop.database, CELL).remove(10) == Removal(0, 0)
        assert await UnusedLanes(shop.database, CELL).remove(10) == Removal(0, 0)
        assert await shown(shop, shop.worker(2)) == {"default"}

    play(url, story)


def test_what_enters_a_lane_while_it_is_being_removed_makes_it_again(url: str) -> None:
    async def story(shop: Workshop) -> None:
        await idle_lane(shop)
        async with shop.database.transaction() as session:
            rows = await session.fetch(*queue_statement("hold_unused_lanes").given(cell=0, limit=10))
            assert [tuple(row) for row in rows] == [("default", 5, 1, "noop")]
            entering = asyncio.create_task(enter(shop.plain, shop, "default"))
            while not entering.done() and not await _waits_for_a_lock(shop):
                await asyncio.sleep(0)
            assert not entering.done(), "nothing keeps it from entering a lane that is about to go"
            row = await session.fetchrow(
                *queue_statement("remove_unused_lanes").given(
                    cell=0, queues=["default"], priorities=[5], tenant_ids=[1], routes=["noop"]
                )
            )
            assert row["removed"] == 1
        await entering
        assert await shown(shop, shop.worker(2)) == {"default"}

    play(url, story)


async def _waits_for_a_lock(shop: Workshop) -> bool:
    row = await shop.plain.one(
        "SELECT count(*) AS n FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
    )
    return bool(row["n"])


@given(st.lists(st.integers(0, 2**53), min_size=1, max_size=200))
@settings(max_examples=20, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_a_mark_arrives_to_the_microsecond(url: str, marks: list[int]) -> None:
    """One microsecond more, and what is first in its lane would not be seen. Marks lie behind the clock: this
    is enough until 2255."""

    async def ask() -> list[Any]:
        database = await open_database(url, name="test", size=1)
        try:
            text = "SELECT 'epoch'::timestamptz + m * interval '1 microsecond' AS at FROM unnest($1::bigint[]) AS m"
            assert "'epoch'::timestamptz + a.mark * interval '1 microsecond'" in queue_statement("look").text
            return [row["at"] for row in await database.fetch(text, marks)]
        finally:
            await database.close()

    assert asyncio.run(ask()) == marks
